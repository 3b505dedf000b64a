"""Removal of a pool's guards and topics with cursors at the source cluster, in slices of a few seconds.

Only subscriptions with the exact name of the pool's guards are deleted, and only topics whose property names the pool. A topic
with cursors is deleted after all guards of its namespace: while it exists, a later attempt finds the rest.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from readonly_operator.cluster.fetch import FetchError
from readonly_operator.cluster.local_cursors.admin import FORBIDDEN
from readonly_operator.cluster.local_cursors.names import cursor_topic, is_system
from readonly_operator.kube.status import listed

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from readonly_operator.api.pool import Source
    from readonly_operator.cluster.local_cursors.admin import CursorAdmin

BATCH: Final = 64
"""Topics that are handled between two looks at the clock."""


class TopicSelection(Protocol):
    """Topics whose guards are removed. Selections are values: equal ones select the same topics."""

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Return TENANT/NAMESPACE of all selected topics."""
        ...

    def includes(self, topic: str) -> bool:
        """Return whether a topic is selected, by its full name or that of a partition."""
        ...


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """Desired removal.

    Attributes:
        label: of the deleted object, for logs: kind, namespace and name.
        source: the source cluster.
        identity: of the pool.
        topics: topics whose guards are removed; None for all, and the pool's topics with cursors too.
        known: for all topics: TENANT/NAMESPACE of the pool's bindings, in case the operator may not list all namespaces.
    """

    label: str
    source: Source
    identity: str
    topics: TopicSelection | None
    known: tuple[str, ...] = ()


@dataclass(slots=True)
class _Namespace:
    name: str
    topics: deque[str] | None = None
    failed: list[str] = field(default_factory=list)


class Release:
    """State of one removal.

    Args:
        request: the desired removal.
        admin: returns the admin API of the source cluster; may raise a FetchError.
        threads: runs the requests about topics.
        clock: seconds, monotonic.
        is_stopped: returns whether the operator ends; no further request is made then.

    Attributes:
        progress: number of completed topics and namespaces.
    """

    def __init__(
        self,
        request: ReleaseRequest,
        admin: Callable[[], CursorAdmin],
        threads: Executor,
        clock: Callable[[], float],
        is_stopped: Callable[[], bool],
    ) -> None:
        self._request = request
        self._make_admin = admin
        self._threads = threads
        self._clock = clock
        self._is_stopped = is_stopped
        self._queue: deque[_Namespace] | None = None
        self._failed: deque[_Namespace] = deque()
        self._problems: dict[str, str] = {}
        self._checked = self._guards = self._topics = 0
        self.progress = 0

    @property
    def summary(self) -> str:
        """Return the number of removed guards and topics, in words."""
        words = f"{self._guards} guards removed, {self._checked} topics checked"
        return words + (f", {self._topics} topics with cursors deleted" if self._request.topics is None else "")

    @property
    def problems(self) -> str:
        """Return the first few topics that could not be handled, with the reason; empty for none."""
        return listed(f"{name}: {reason}" for name, reason in self._problems.items())

    def advance(self, until: float) -> bool:
        """Work until a time, at least on one batch.

        Returns:
            Whether everything is removed.

        Raises:
            FetchError: the source cluster does not answer; a later call continues.
        """
        admin = self._make_admin()
        if self._queue is None:
            self._queue = deque(map(_Namespace, self._namespaces(admin)))
        elif not self._queue:
            self._queue, self._failed = self._failed, deque()
            self._problems.clear()
        while self._queue and not self._is_stopped():
            if self._work(admin, self._queue[0]):
                namespace = self._queue.popleft()
                if namespace.name in self._problems or namespace.failed:
                    if namespace.failed:
                        namespace.topics, namespace.failed = deque(namespace.failed), []
                    self._failed.append(namespace)
                else:
                    self.progress += 1
            if self._clock() >= until:
                break
        return not self._queue and not self._failed

    @property
    def failed(self) -> bool:
        """Whether only topics are left that could not be handled."""
        return not self._queue and bool(self._failed)

    def _namespaces(self, admin: CursorAdmin) -> list[str]:
        if self._request.topics is not None:
            return list(self._request.topics.namespaces)
        try:
            return sorted({*self._request.known, *admin.namespaces()})
        except FetchError as error:
            if error.status not in FORBIDDEN:
                raise
            return list(self._request.known)

    def _work(self, admin: CursorAdmin, namespace: _Namespace) -> bool:
        """Handle a batch of a namespace; return whether the namespace is done, or has only failed topics."""
        try:
            if namespace.topics is None:
                namespace.topics = deque(self._selected(admin, namespace.name))
            batch = [namespace.topics.popleft() for _ in range(min(BATCH, len(namespace.topics)))]
            self._release(admin, namespace, batch)
            if namespace.topics:
                return False
            if not namespace.failed and self._request.topics is None:
                self._delete_cursor_topic(admin, namespace.name)
        except FetchError as error:
            if not error.status:
                raise
            self._problems[namespace.name] = str(error)
        return True

    def _selected(self, admin: CursorAdmin, namespace: str) -> list[str]:
        """Return the topics of a namespace that can have guards to remove; none without a topic with cursors of this pool."""
        if admin.cursor_topic(namespace, self._request.identity).pool != self._request.identity:
            return []
        selection = self._request.topics
        return [
            topic
            for topic in admin.topics(namespace)
            if not is_system(topic) and (selection is None or selection.includes(topic))
        ]

    def _release(self, admin: CursorAdmin, namespace: _Namespace, batch: list[str]) -> None:
        silent: FetchError | None = None
        dead = threading.Event()
        for topic, result in zip(
            batch, self._threads.map(lambda one: self._remove(admin, one, dead), batch), strict=True
        ):
            if isinstance(result, int):
                self._checked += 1
                self._guards += result
                self.progress += 1
                continue
            if result.status:
                namespace.failed.append(topic)
                self._problems[topic] = str(result)
            else:
                assert namespace.topics is not None
                namespace.topics.append(topic)
                silent = silent or result
        if silent is not None:
            raise silent

    def _remove(self, admin: CursorAdmin, topic: str, dead: threading.Event) -> int | FetchError:
        """Delete a topic's guards; return their number, or the error.

        Args:
            admin: the admin API.
            topic: the topic.
            dead: set when no host answers any more: the other topics of the batch would wait for the same hosts.
        """
        if self._is_stopped():
            return FetchError("the operator ends")
        if dead.is_set():
            return FetchError("no host has answered just now")
        try:
            guards = admin.guards(topic, self._request.identity)
            for guard in guards:
                admin.delete_guard(topic, guard)
        except FetchError as error:
            if not error.status:
                dead.set()
            return error
        return len(guards)

    def _delete_cursor_topic(self, admin: CursorAdmin, namespace: str) -> None:
        identity = self._request.identity
        if admin.cursor_topic(namespace, identity).pool != identity:
            return
        try:
            admin.delete_cursor_topic(namespace, identity)
        except FetchError as error:
            raise FetchError(f"{cursor_topic(namespace, identity)} not deleted: {error}", error.status) from None
        self._topics += 1
