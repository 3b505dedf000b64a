"""Follows the owner's policies while clients are connected: one look at each namespace, and its topics only after a change."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from readonly_engine.background import run_forever
from readonly_engine.owner.errors import RelayError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from readonly_engine.metadata.topic_name import TopicName

log = logging.getLogger(__name__)

ROUND_S: Final = 4.0
"""Interval of the looks. With the time of a round, a change is followed within 10 s."""

MAX_NAMESPACES_PER_S: Final = 25.0
"""Namespaces that are looked at per second, each with two requests: 100 namespaces are followed within 10 s."""

MAX_TOPICS_PER_S: Final = 50.0
"""Topics whose policies are requested per second after a change, each with some requests if it may have its own."""


class PolicyFollower:
    """Looks for changes of the policies that apply to the topics of this broker.

    Args:
        topics: returns the open topics whose policies matter.
        renew: requests the brokers' configuration again.
        version: returns a text that changes with the policies of a topic's namespace; None if unknown.
        changed: applies the present policies to a topic; raises RelayError if they are unknown.
    """

    def __init__(
        self,
        topics: Callable[[], Iterable[TopicName]],
        renew: Callable[[], Awaitable[object]],
        version: Callable[[TopicName], Awaitable[str | None]],
        changed: Callable[[TopicName], Awaitable[bool]],
    ) -> None:
        self._topics = topics
        self._renew = renew
        self._version = version
        self._changed = changed
        self._applied: dict[TopicName, str] = {}
        self._present: list[TopicName] = []
        self._namespaces: list[list[TopicName]] = []  # those of _present
        self._settled: dict[int, str] = {}  # version that all topics of a namespace have, by its index in _namespaces
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start; do nothing if it was started before."""
        if self._task is None:
            self._task = run_forever(self._run, "the look at the owner's policies")

    def close(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(ROUND_S)
            await self.check_namespaces()

    async def check_namespaces(self) -> None:
        """Look at each namespace once, and apply what has changed, also to topics that were opened since the last look."""
        present = list(self._topics())
        if present != self._present:  # compares identities, so that thousands of topics at rest cost next to nothing
            self._group(present)
        if present:
            await self._renew()
        for number, topics in enumerate(self._namespaces):
            version = await self._version(topics[0])
            if version is not None and self._settled.get(number) != version:
                for topic in topics:
                    if self._applied.get(topic) != version:
                        await self._apply(topic, version)
                if all(self._applied.get(topic) == version for topic in topics):
                    self._settled[number] = version
            await asyncio.sleep(1 / MAX_NAMESPACES_PER_S)

    def _group(self, present: list[TopicName]) -> None:
        """Group the topics by namespace, and forget closed ones."""
        namespaces: dict[tuple[str, str], list[TopicName]] = {}
        for topic in present:
            namespaces.setdefault((topic.tenant, topic.namespace), []).append(topic)
        self._applied = {topic: self._applied[topic] for topic in present if topic in self._applied}
        self._present, self._namespaces, self._settled = present, list(namespaces.values()), {}

    async def _apply(self, topic: TopicName, version: str) -> None:
        try:
            requested = await self._changed(topic)
        except RelayError as error:
            log.info("policies unknown, keeping the last ones: topic=%s error=%s", topic, error)
            return
        self._applied[topic] = version
        await asyncio.sleep(1 / MAX_TOPICS_PER_S if requested else 0)
