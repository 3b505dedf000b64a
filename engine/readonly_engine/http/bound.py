"""What the bindings come to: which topics of the writable cluster they match, and how far their readers are behind."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from readonly_engine.metadata.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from readonly_engine.broker.bindings import Binding, Bindings
    from readonly_engine.broker.broker import Broker
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.metadata.topic_name import TopicName

log = logging.getLogger(__name__)

LISTED_S = 10.0
"""Topics come and go: what was listed counts for so long. Nothing is listed while nobody asks."""

FIRST_LIST_S = 1.0
"""Who asks first waits so long for the list at most; later ones get what the last list said."""

TOPICS_A_TURN = 500
"""Topics that are compared with a binding in one turn of the event loop."""

MOST_LAGGING = 20
"""Topics of a binding whose lag is named: the worst ones. All of them are in the metrics."""


class Lag(NamedTuple):
    """How far the slowest subscription of a topic is behind.

    Attributes:
        entries: that can be read and are not acked, of all partitions together, as far as they are served here.
        topic: full name, without a partition's suffix.
        subscription: the slowest one.
    """

    entries: int
    topic: str
    subscription: str


def worst(backlogs: Iterable[tuple[TopicName, str, int]], most: int = MOST_LAGGING) -> list[Lag]:
    """The topics whose subscriptions are behind farthest, the worst first.

    Args:
        backlogs: topic or partition, subscription, entries that it has not acked.
        most: how many topics.
    """
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for topic, subscription, entries in backlogs:
        sums[str(topic.base), subscription] += entries
    slowest: dict[str, Lag] = {}
    for (name, subscription), entries in sums.items():
        lag = Lag(entries, name, subscription)
        slowest[name] = max(slowest.get(name, lag), lag)
    return sorted(slowest.values(), key=lambda lag: (-lag.entries, lag.topic))[:most]


class Matched(NamedTuple):
    """The topics that a binding matches.

    Attributes:
        topics: sorted; a partitioned topic counts once.
        partitions: how many partitions those of them that are partitioned have.
    """

    topics: tuple[str, ...]
    partitions: int


async def match(binding: Binding, listed: Mapping[str, list[TopicName]]) -> Matched | None:
    """What a binding matches of what there is; None where it does not say in which namespaces.

    Args:
        binding: the binding.
        listed: all topics and partitions by TENANT/NAMESPACE.
    """
    namespaces = namespaces_of(binding)
    if namespaces is None:
        return None
    topics, partitions = set(), 0
    for namespace in namespaces:
        names = listed.get(namespace, [])
        for begin in range(0, len(names), TOPICS_A_TURN):
            for topic in names[begin : begin + TOPICS_A_TURN]:
                if binding.covers(topic):
                    topics.add(str(topic.base))
                    partitions += topic.partition >= 0
            await asyncio.sleep(0)
    return Matched(tuple(sorted(topics)), partitions)


def namespaces_of(binding: Binding) -> list[str] | None:
    """Where all topics of a binding are; None where an expression leaves that open."""
    found = [pattern.namespace for pattern in binding.topics]
    if None in found:
        return None
    return sorted({namespace for namespace in found if namespace} | set(binding.namespaces))


class BoundTopics:
    """Tells what the bindings in force come to.

    Args:
        broker: the broker that holds them.
        cluster: where topics are listed.
    """

    def __init__(self, broker: Broker, cluster: ClusterMetadata) -> None:
        self._broker = broker
        self._cluster = cluster
        self._matched: dict[str, Matched | None] = {}
        self._of: Bindings | None = None
        self._listed_at = 0.0
        self._listing: asyncio.Task[None] | None = None

    async def documents(self) -> list[dict[str, Any]]:
        """Each binding as the file has it, with what it matches and how far its readers are behind.

        `matched` is null while that is not known.
        """
        bindings = self._broker.bindings
        await self._refresh()
        lags = self._lags(bindings)
        found = []
        for binding in bindings.bindings:
            matched = self._matched.get(binding.name) if self._of is bindings else None
            found.append(
                binding.document()
                | {
                    "matched": matched and {"topics": len(matched.topics), "partitions": matched.partitions},
                    "lag": [lag._asdict() for lag in lags.get(binding.name, ())],
                }
            )
        return found

    async def topics(self, name: str) -> list[str] | None:
        """The topics that a binding matches; None while that is not known, or where there is no such binding."""
        await self._refresh()
        matched = self._matched.get(name) if self._of is self._broker.bindings else None
        return None if matched is None else list(matched.topics)

    def close(self) -> None:
        """List no more."""
        if self._listing is not None:
            self._listing.cancel()

    def _lags(self, bindings: Bindings) -> dict[str, list[Lag]]:
        backlogs: dict[str, list[tuple[TopicName, str, int]]] = defaultdict(list)
        for topic, served in self._broker.topics.all:
            for binding in bindings.covering(topic):
                backlogs[binding.name].extend(
                    (topic, name, subscription.backlog)
                    for name, subscription in served.subscriptions.items()
                    if binding.names(name)
                )
        return {name: worst(found) for name, found in backlogs.items()}

    async def _refresh(self) -> None:
        """List topics anew where that was long ago, and wait for the first list of these bindings."""
        now, bindings = time.monotonic(), self._broker.bindings
        if self._listing is not None and not self._listing.done():
            pass  # it is under way
        elif self._of is not bindings or now - self._listed_at > LISTED_S:
            self._listing = asyncio.create_task(self._list(bindings))
        if self._of is not bindings and self._listing is not None:
            await asyncio.wait({self._listing}, timeout=FIRST_LIST_S)

    async def _list(self, bindings: Bindings) -> None:
        listed: dict[str, list[TopicName]] = {}
        try:
            for binding in bindings.bindings:
                for namespace in namespaces_of(binding) or ():
                    if namespace not in listed:
                        tenant, _, name = namespace.partition("/")
                        listed[namespace] = await self._cluster.topics(tenant, name)
            matched = {binding.name: await match(binding, listed) for binding in bindings.bindings}
        except MetadataError as error:
            log.info("topics cannot be listed, so what is bound is not counted: %s", error)
            return
        self._matched, self._of, self._listed_at = matched, bindings, time.monotonic()
