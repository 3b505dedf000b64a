"""Status of bindings: the topics of the source cluster that they match, and the lag of their subscriptions."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from readonly_engine.http.status.slices import Slices
from readonly_engine.metadata.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_engine.broker.pool.bindings import Binding, Bindings
    from readonly_engine.broker.server.broker import Broker
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.metadata.topic_name import TopicName

log = logging.getLogger(__name__)

CACHE_TTL_S = 10.0
"""Age at which a list of topics is refreshed by the next request."""

LIST_TIMEOUT_S = 1.0
"""Longest wait of a request for a new list of topics; then it gets the last list."""

TOPICS_PER_TURN = 500
"""Topics that are compared with a binding in one iteration of the event loop."""

MAX_LAGGING = 20
"""Topics of a binding with their lag in its status, those with the most. The metrics have all."""


class Lag(NamedTuple):
    """Lag of the slowest subscription of a topic.

    Attributes:
        entries: readable entries that are not acked, of all partitions served by this broker.
        topic: full name, without the suffix of a partition.
        subscription: the slowest subscription.
    """

    entries: int
    topic: str
    subscription: str


async def worst(backlogs: Mapping[tuple[str, str], int], slices: Slices, limit: int = MAX_LAGGING) -> list[Lag]:
    """Return the topics with the most lag, in descending order.

    Args:
        backlogs: entries not acked, by the topic's full name without the suffix of a partition, and the subscription.
        slices: gives the event loop its turns.
        limit: number of topics.
    """
    slowest: dict[str, Lag] = {}
    for (name, subscription), entries in backlogs.items():
        lag = Lag(entries, name, subscription)
        slowest[name] = max(slowest.get(name, lag), lag)
        if slices.add():
            await slices.pause()
    found: list[Lag] = []
    for lag in slowest.values():
        found.append(lag)
        if slices.add():
            found = _first(found, limit)
            await slices.pause()
    return _first(found, limit)


def _first(lags: list[Lag], limit: int) -> list[Lag]:
    return sorted(lags, key=lambda lag: (-lag.entries, lag.topic))[:limit]


class Matched(NamedTuple):
    """Topics that match a binding.

    Attributes:
        topics: sorted; a partitioned topic counts once.
        partitions: number of partitions of all partitioned topics.
    """

    topics: tuple[str, ...]
    partitions: int


async def match(binding: Binding, listed: Mapping[str, list[TopicName]]) -> Matched | None:
    """Return the existing topics that match a binding; None if an expression leaves the namespace open.

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
        for begin in range(0, len(names), TOPICS_PER_TURN):
            for topic in names[begin : begin + TOPICS_PER_TURN]:
                if binding.covers(topic):
                    topics.add(str(topic.base))
                    partitions += topic.partition >= 0
            await asyncio.sleep(0)
    return Matched(tuple(sorted(topics)), partitions)


def namespaces_of(binding: Binding) -> list[str] | None:
    """Return the namespaces of a binding's topics; None if an expression leaves the namespace open."""
    found = [pattern.namespace for pattern in binding.topics]
    if None in found:
        return None
    return sorted({namespace for namespace in found if namespace} | set(binding.namespaces))


class BoundTopics:
    """Status of the bindings in force.

    Args:
        broker: the broker that holds them.
        cluster: lists topics.
    """

    def __init__(self, broker: Broker, cluster: ClusterMetadata) -> None:
        self._broker = broker
        self._cluster = cluster
        self._matched: dict[str, Matched | None] = {}
        self._of: Bindings | None = None
        self._listed_at = 0.0
        self._listing: asyncio.Task[None] | None = None
        self._listing_of: Bindings | None = None

    async def documents(self) -> list[dict[str, Any]]:
        """Return each binding in the form of the file, with its matched topics and its lag.

        `matched` is null while it is unknown.
        """
        bindings = self._broker.bindings
        await self._refresh()
        lags = await self._lags(bindings, Slices())
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
        """Return the topics that match a binding; None while they are unknown, or if there is no such binding."""
        await self._refresh()
        matched = self._matched.get(name) if self._of is self._broker.bindings else None
        return None if matched is None else list(matched.topics)

    def close(self) -> None:
        """Cancel the list of topics."""
        if self._listing is not None:
            self._listing.cancel()

    async def _lags(self, bindings: Bindings, slices: Slices) -> dict[str, list[Lag]]:
        backlogs: dict[str, dict[tuple[str, str], int]] = {}
        for topic, served in self._broker.topics.all:
            base = str(topic.base)
            for binding in bindings.covering(topic):
                sums = backlogs.setdefault(binding.name, defaultdict(int))
                for name, subscription in list(served.subscriptions.items()):
                    steps = 1
                    if binding.names(name):
                        sums[base, name] += subscription.backlog
                        steps += subscription.backlog_steps
                    if slices.add(steps):
                        await slices.pause()
            if slices.add():
                await slices.pause()
        return {name: await worst(found, slices) for name, found in backlogs.items()}

    async def _refresh(self) -> None:
        """Replace an old list of topics, and wait for the new one, up to LIST_TIMEOUT_S."""
        bindings = self._broker.bindings
        if self._of is bindings and time.monotonic() - self._listed_at <= CACHE_TTL_S:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(LIST_TIMEOUT_S):
                if self._listing is not None and self._listing_of is not bindings:
                    await asyncio.wait({self._listing})  # a list for the bindings before the change
                if self._listing is None or self._listing.done():
                    self._listing, self._listing_of = asyncio.create_task(self._list(bindings)), bindings
                await asyncio.wait({self._listing})

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
            log.info("topics cannot be listed, so the status of bindings stays as it is: %s", error)
            return
        self._matched, self._of, self._listed_at = matched, bindings, time.monotonic()
