"""A watch on one node that misses no change: the store's own watch, a read after every reconnection, and a slow poll."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

from readonly_engine.background import must_not_fail
from readonly_engine.metadata.errors import MetadataUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 30.0
"""Shortest interval of polls of a node's version in case its watch was lost, give or take a quarter."""

POLL_SPACING_S = 1.0
"""Time between polls of different nodes, on average: with thousands of watches, each is compared rarely."""

RETRY_S = 1.0

MAX_REFRESHES = 256
"""Watches that read their nodes at the same time after a reconnection."""

NEVER_READ: Final = -1
"""Instead of a mark."""

T = TypeVar("T")


class NodeRead(NamedTuple, Generic[T]):
    """Result of reading a node.

    Attributes:
        value: the value for the callback.
        mark: 0 or more; increases with every change of the value; None for a missing node.
    """

    value: T
    mark: int | None


class NodeSource(Protocol[T]):
    """Nodes of one kind in a store. All their watches share it: there are tens of thousands."""

    @property
    def of_names(self) -> bool:
        """Whether the values are the names of children."""

    @property
    def rounds(self) -> PollRounds:
        """What polls the watches of the store."""

    def started(self, watch: NodeWatch[T]) -> None:
        """Handle the start of a watch. Reads follow."""

    async def read(self, path: str) -> NodeRead[T]:
        """Read a node, and see to it that `NodeWatch.refresh` is called after the next change."""

    async def probe(self, path: str) -> int | None:
        """Read a node's mark only."""

    def stopped(self, watch: NodeWatch[T]) -> None:
        """Handle the end of a watch."""


class PollRounds:
    """Polls all watches of a store by turns. One timer serves all of them: a broker may watch tens of thousands of nodes.

    They are a ring, which takes a third of the memory of a dict.
    """

    __slots__ = ("_count", "_next", "_timer")

    def __init__(self) -> None:
        self._next: NodeWatch[Any] | None = None
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, watch: NodeWatch[Any]) -> None:
        """Poll a watch from now on, after all others; do nothing if it is polled already."""
        if watch.polled_after is not None:
            return
        after = self._next = self._next or watch
        before = watch if after is watch else after.polled_before
        assert before is not None, "each watch of the ring has two neighbours"
        watch.polled_before, watch.polled_after = before, after
        before.polled_after = after.polled_before = watch
        self._count += 1
        if self._timer is None:
            self._schedule()

    def discard(self, watch: NodeWatch[Any]) -> None:
        """Poll a watch no more."""
        before, after = watch.polled_before, watch.polled_after
        if before is None or after is None:
            return
        before.polled_after, after.polled_before = after, before
        watch.polled_before = watch.polled_after = None
        self._count -= 1
        if self._next is watch:
            self._next = after if self._count else None
        if not self._count and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        pause = max(POLL_INTERVAL_S / self._count, POLL_SPACING_S)
        jittered = pause * random.uniform(0.75, 1.25)  # noqa: S311 - spreads polls of several brokers, no secret
        self._timer = asyncio.get_running_loop().call_later(jittered, self._poll_next)

    def _poll_next(self) -> None:
        watch = self._next
        assert watch is not None, "the timer runs while there are any"
        self._next = watch.polled_after
        self._schedule()
        watch.poll()


class Refreshes:
    """Reads the nodes of all watches of a store again, MAX_REFRESHES at a time, in the given order.

    A broker of 10,000 topics has 20,000 watches. Reads of all at once would keep the event loop busy for longer than requests may
    take, so that the connection counts as silent, is dropped, and all are read again.
    """

    __slots__ = ("_task", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[NodeWatch[Any]] = deque()
        self._task: asyncio.Task[None] | None = None

    def begin(self, watches: Iterable[NodeWatch[Any]]) -> None:
        """Begin with these watches, and forget those that wait still."""
        self._waiting = deque(dict.fromkeys(watches))
        if self._task is None and self._waiting:
            self._task = asyncio.create_task(self._run())
            must_not_fail(self._task)

    async def _run(self) -> None:
        try:
            while self._waiting:
                some = [self._waiting.popleft() for _ in range(min(MAX_REFRESHES, len(self._waiting)))]
                reads = [read for watch in some if (read := watch.refresh()) is not None]
                if reads:
                    await asyncio.wait(reads)
        finally:
            self._task = None


class NodeWatch(Generic[T]):
    """Watches one node and calls back on the event loop, at the start and after every change.

    Args:
        path: the node.
        source: reads the node.
        changed: called with the value.

    Attributes:
        path: as above.
        polled_after: the watch that is polled after it, which PollRounds sets; None unless it is polled.
        polled_before: the watch that is polled before it.
        stopped: whether it has been stopped.
    """

    __slots__ = (
        "_changed",
        "_retry",
        "_source",
        "_task",
        "_version",
        "_wanted",
        "path",
        "polled_after",
        "polled_before",
        "stopped",
    )

    def __init__(self, path: str, source: NodeSource[T], changed: Callable[[T], None]) -> None:
        self.path = path
        self._source = source
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._wanted = False
        self._version: int | None = NEVER_READ
        self.polled_before: NodeWatch[Any] | None = None
        self.polled_after: NodeWatch[Any] | None = None
        self.stopped = False
        source.started(self)
        self.refresh()

    @property
    def of_names(self) -> bool:
        """Whether it watches the names of the node's children."""
        return self._source.of_names

    def move(self, source: NodeSource[T]) -> None:
        """Go on with the node of another store. The callback gets its value, also if it is the same one."""
        if not self.stopped:
            self._leave()
            self._task = self._retry = None
            self._source, self._version = source, NEVER_READ
            source.started(self)
            self.refresh()

    def stop(self) -> None:
        """Stop the callbacks."""
        if self.stopped:
            return
        self.stopped = True
        self._leave()

    def _leave(self) -> None:
        self._source.stopped(self)
        self._source.rounds.discard(self)
        if self._retry is not None:
            self._retry.cancel()
        if self._task is not None:
            self._task.cancel()

    def refresh(self) -> asyncio.Task[None] | None:
        """Read the node again, now or after the read in flight; return the task, None for a watch that was stopped."""
        if self.stopped:
            return None
        self._wanted = True
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return self._task

    async def _run(self) -> None:
        failed = False
        try:
            while self._wanted and not self.stopped:
                self._wanted = False
                seen = await self._source.read(self.path)
                if seen.mark != self._version:
                    self._version = seen.mark
                    self._changed(seen.value)
        except MetadataUnavailableError as error:
            log.debug("read failed, retrying: node=%s error=%s", self.path, error)
            failed = True
        except Exception:
            log.exception("a change was not handled, reading again: node=%s", self.path)
            self._version, failed = NEVER_READ, True
        # A task that was cancelled does nothing more: the watch has ended, or has another store.
        self._task = None
        if not self.stopped:
            self._source.rounds.add(self)
            if failed:
                self._retry_later()

    def _retry_later(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
        jittered = RETRY_S * random.uniform(0.75, 1.25)  # noqa: S311 - spreads retries, no secret
        self._retry = asyncio.get_running_loop().call_later(jittered, self.refresh)

    def poll(self) -> None:
        """Compare the node's mark with that of the last read, unless a read is under way."""
        if self._task is None and self._version != NEVER_READ:
            self._task = asyncio.create_task(self._compare())

    async def _compare(self) -> None:
        try:
            changed = await self._source.probe(self.path) != self._version
            if changed and not self._wanted:  # the watch may have fired meanwhile
                log.warning("node has changed without its watch, reading again: node=%s", self.path)
                self._wanted = True
        except MetadataUnavailableError as error:
            log.debug("poll failed: node=%s error=%s", self.path, error)
        except Exception:
            log.exception("poll failed unexpectedly: node=%s", self.path)
        self._task = None
        if self._wanted:
            self.refresh()
