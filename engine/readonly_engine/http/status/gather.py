"""Read the state of a broker for one page. It asks no other server, and reads figures of this page only."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine import __version__
from readonly_engine.broker.tail.budget import PushTotals
from readonly_engine.http.replay_metrics import behind_s
from readonly_engine.http.status.listing import page_of
from readonly_engine.http.status.rates import RecentRates
from readonly_engine.http.status.slices import collected
from readonly_engine.http.status.topic_figures import Listed, PageFigures
from readonly_engine.metadata.errors import TopicNameError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.status.addresses import status_url, without_user
from readonly_engine.status.state import BrokerState, MemberState, Pages, ReasonCount, Relief, SourceState, Status
from readonly_engine.topic.replay.clock import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.broker.consumer.client_consumer import ClientConsumer
    from readonly_engine.broker.passthrough.policy import PassedThrough
    from readonly_engine.broker.server.broker import Broker
    from readonly_engine.broker.subscription.served_topic import ServedTopic
    from readonly_engine.http.status.slices import Slices
    from readonly_engine.metadata.connect import ClusterStores
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.status.view import View

MAX_MEMBERS: Final = 200
"""Brokers of the pool on a page."""


class NotServedError(Exception):
    """The topic or subscription has no consumers on this broker."""


class About(NamedTuple):
    """Facts about this broker that do not change.

    Attributes:
        service_url: service URL of the source cluster.
        metadata_store_url: URL of its metadata store.
        commit: commit of the engine; empty if unknown.
        worker: number of this worker process, from 0; -1 for the only process.
        workers: number of worker processes.
    """

    service_url: str = ""
    metadata_store_url: str = ""
    commit: str = ""
    worker: int = -1
    workers: int = 1


class _Overview(NamedTuple):
    """Sums over all topics, and the topics to list in the order of their names."""

    topics: list[TopicName]
    topic_count: int
    subscriptions: int
    lac_topics: int
    lac_explicit: int


class Gatherer:
    """Reads the state of one broker.

    Args:
        broker: the broker.
        stores: the metadata stores.
        about: facts about the broker.
        clock: returns the time, in seconds.
    """

    def __init__(
        self, broker: Broker, stores: ClusterStores, about: About, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._broker = broker
        self._stores = stores
        self._about = about
        self._clock = clock
        self._started = clock()
        self._rates: RecentRates[object] = RecentRates()

    async def status(self, view: View, slices: Slices) -> Status:
        """Return the state, with the page of a view.

        Args:
            view: the list and its page.
            slices: gives the event loop its turns.

        Raises:
            NotServedError: the topic or subscription of the view has no consumers on this broker.
        """
        broker = self._broker
        served = await collected(broker.topics.all, slices)
        relayed = await self._relayed(slices)
        overview = await _overview(served, relayed, view, slices)
        relief = await self._relief(slices)
        passing, reasons = await self._passing(slices)
        page = PageFigures(self._rates, view, slices, self._clock(), passing)
        if view.topic:
            try:
                topic = parse_topic_name(view.topic)
            except TopicNameError as error:
                raise NotServedError(str(error)) from None
            if topic not in served and topic not in relayed:
                raise NotServedError(f"{topic} has no consumers on this broker")
            listed = await page.topic(topic, served.get(topic), relayed.get(topic, ()))
            if listed is None:
                raise NotServedError(f"subscription {view.subscription} of {topic} has no consumers on this broker")
        elif view.summary:
            listed = Listed(Pages(), ())
        else:
            topics, pages = page_of(overview.topics, view.page)
            listed = await page.topics([(topic, served.get(topic), relayed.get(topic, ())) for topic in topics], pages)
        return Status(
            broker=await self._with_replay(self._broker_state(overview.topic_count, overview.subscriptions), slices),
            members=() if view.summary else self.members(),
            member_count=len(broker.pool.members),
            source=self._source(overview),
            relief=relief,
            reasons=reasons,
            pages=listed.pages,
            topics=listed.topics,
            subscriptions=listed.subscriptions,
            clients=listed.clients,
            shortened=listed.shortened,
        )

    @property
    def pool(self) -> tuple[str, str]:
        """Name and uid of the pool; the uid is empty without one."""
        return self._broker.pool.name, self._broker.pool.uid

    def members(self) -> tuple[MemberState, ...]:
        """Return the brokers of the pool by their URLs, at most MAX_MEMBERS."""
        broker = self._broker
        members = sorted(broker.pool.members.values(), key=lambda member: member.url)
        return tuple(
            MemberState(
                url=member.url,
                status_url=status_url(member.url, member.http_port, tls=member.http_tls),
                consumers=broker.limits.consumers if member.url == broker.pool.url else member.consumers,
                locality=member.locality,
                itself=member.url == broker.pool.url,
            )
            for member in members[:MAX_MEMBERS]
        )

    async def _relayed(self, slices: Slices) -> dict[TopicName, list[ClientConsumer]]:
        """Return the consumers that another broker serves, by topic."""
        found: dict[TopicName, list[ClientConsumer]] = {}
        for connection in list(self._broker.connections):
            consumers = connection.consumers
            for consumer in consumers:
                if consumer.served_by:
                    found.setdefault(consumer.topic, []).append(consumer)
            if slices.add(1 + len(consumers)):
                await slices.pause()
        return found

    async def _relief(self, slices: Slices) -> Relief:
        topics = self._broker.topics
        for _, served in topics.all:
            for subscription in list(served.subscriptions.values()):
                subscription.flush_accounting()
                if slices.add():
                    await slices.pause()
        dropped = topics.dropped_counters
        messages, size = dropped.messages, dropped.bytes
        for counters in list(topics.counters.values()):
            messages += counters.messages
            size += counters.bytes
            if slices.add():
                await slices.pause()
        pushed = PushTotals()
        for part in topics.pushed:
            pushed = pushed.plus(part)
            if slices.add():
                await slices.pause()
        return Relief(messages, size, *pushed)

    async def _passing(
        self, slices: Slices
    ) -> tuple[dict[tuple[TopicName, str], PassedThrough], tuple[ReasonCount, ...]]:
        """Return the passthrough subscriptions, and the number of each reason."""
        found: dict[tuple[TopicName, str], PassedThrough] = {}
        counts: Counter[str] = Counter()
        for one in self._broker.passthrough.passed_through:
            found[one.topic, one.subscription] = one
            counts[one.reason] += 1
            if slices.add():
                await slices.pause()
        return found, tuple(ReasonCount(reason, count) for reason, count in sorted(counts.items()))

    def _broker_state(self, topics: int, subscriptions: int) -> BrokerState:
        broker, about = self._broker, self._about
        return BrokerState(
            url=broker.pool.url,
            version=__version__,
            commit=about.commit,
            uptime_s=round(self._clock() - self._started, 1),
            pool=broker.pool.name,
            pool_uid=broker.pool.uid,
            locality=broker.pool.locality,
            worker=about.worker,
            workers=about.workers,
            draining=broker.draining,
            connections=len(broker.connections),
            consumers=broker.limits.consumers,
            topics=topics,
            subscriptions=subscriptions,
            claims=len(broker.claim_store.held),
        )

    async def _with_replay(self, state: BrokerState, slices: Slices) -> BrokerState:
        replay = self._broker.replay
        if replay is None:
            return state
        clock, now_ms = replay.shared.clock, replay.shared.now_ms()
        return replace(
            state,
            replay_ms=clock.position(now_ms),
            replay_end_ms=clock.end_ms,
            replay_speed=0.0 if clock.speed == UNLIMITED else clock.speed,
            replay_paused=clock.paused,
            replay_behind_s=await behind_s(self._broker, slices),
        )

    def _source(self, overview: _Overview) -> SourceState:
        return SourceState(
            service_url=without_user(self._about.service_url),
            metadata_store_url=without_user(self._about.metadata_store_url),
            connected=self._stores.connected,
            denied=self._stores.denied,
            suspended=self._broker.claim_store.suspended,
            bindings_error=self._broker.bindings_error or "",
            lac_topics=overview.lac_topics,
            lac_explicit=overview.lac_explicit,
        )


async def _overview(
    served: dict[TopicName, ServedTopic], relayed: dict[TopicName, list[ClientConsumer]], view: View, slices: Slices
) -> _Overview:
    names: dict[str, TopicName] = {}
    subscriptions = lac_topics = lac_explicit = 0
    everything = [*served, *(topic for topic in relayed if topic not in served)]
    for topic in everything:
        name = str(topic)
        if not view.topic and _begins(topic, name, view.prefix):
            names[name] = topic
        one = served.get(topic)
        if one is not None:
            subscriptions += len(one.subscriptions)
            explicit = one.log.explicit_lac
            lac_topics += explicit is not None
            lac_explicit += bool(explicit)
        if slices.add():
            await slices.pause()
    return _Overview([names[name] for name in sorted(names)], len(everything), subscriptions, lac_topics, lac_explicit)


def _begins(topic: TopicName, name: str, prefix: str) -> bool:
    """Return whether the full name, TENANT/NAMESPACE/TOPIC or TOPIC begins with a prefix."""
    return not prefix or name.startswith((prefix, f"{topic.domain}://{prefix}")) or topic.local_name.startswith(prefix)
