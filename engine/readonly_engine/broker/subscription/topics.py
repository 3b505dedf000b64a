"""Registry of the topics that this broker serves. A topic is opened once for all its subscriptions."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from readonly_engine.broker.dispatch.latency import SAMPLE_INTERVAL_S, LatencySampler
from readonly_engine.broker.dispatch.make import MULTIPLE
from readonly_engine.broker.subscription.cursor_poller import CursorPoller
from readonly_engine.broker.subscription.kept import Kept
from readonly_engine.broker.subscription.leaving_consumers import LeavingConsumers
from readonly_engine.broker.subscription.owner_policies import CONFIGURATION_TTL_S
from readonly_engine.broker.subscription.owner_queries import OwnerQueries
from readonly_engine.broker.subscription.pending_acks import has_pending_acks
from readonly_engine.broker.subscription.policy_follower import ROUND_S, PolicyFollower
from readonly_engine.broker.subscription.served_topic import ServedTopic
from readonly_engine.broker.subscription.subscription_starter import SubscriptionStarter
from readonly_engine.broker.subscription.topic_links import OwnerLinks, TopicLinks, owner_consumers
from readonly_engine.broker.tail.budget import PushTotals
from readonly_engine.broker.tail.obstacles import PushPolicies
from readonly_engine.broker.tail.owner_probes import OwnerProbes
from readonly_engine.broker.tail.splicing import Splicing
from readonly_engine.broker.tail.tail_consumer import TailConsumer
from readonly_engine.config.limits import UNLIMITED, DispatchRate
from readonly_engine.lease_guard import LeaseGuard
from readonly_engine.topic.log import TopicLog
from readonly_engine.topic.reading import is_readable
from readonly_engine.topic.replay.log import ReplayLog
from readonly_engine.topic.transactions import TopicTransactions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator

    from readonly_engine.bookkeeper.pool import BookiePool
    from readonly_engine.broker.dispatch.counters import Counters
    from readonly_engine.broker.subscription.batch_index_acks import BatchIndexAckStore
    from readonly_engine.broker.subscription.subscriber import Subscriber
    from readonly_engine.broker.subscription.subscription import Subscription
    from readonly_engine.broker.subscription.subscription_starter import MakeSubscription
    from readonly_engine.broker.tail.budget import TailSettings
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.admin import AdminClient
    from readonly_engine.tiered.storage import TieredStorage
    from readonly_engine.topic.cache import EntryCache
    from readonly_engine.topic.position import Position
    from readonly_engine.topic.replay.shared import SharedClock

MAX_OPENING = 256
"""Topics whose first consumers join at once. After a restart, the readers of all topics come together. More would keep the event
loop so busy that answers of the metadata store come too late, and need memory until then."""

CACHE_TTL_S = 5.0
"""Consumers that return to their owners at the same time share one request for the brokers' configuration."""


def _after_sample_interval(call: Callable[[], None]) -> None:
    """Call after the interval between two samples of latency. There is no timer while nothing is delivered."""
    asyncio.get_running_loop().call_later(SAMPLE_INTERVAL_S, call)


class TopicRegistry:
    """Opens a topic for its first subscription, closes it after its last.

    Args:
        cluster: metadata of the source cluster.
        pool: connections to the bookies.
        cache: cache of entries. It outlives topics, so it still has entries for a client that returns.
        admin: admin API of the source cluster.
        tiered: reads offloaded ledgers.
        on_unreadable: called with a subscription, a position and the reason when storage does not return an entry for a while.
        subscription_rate: limit on the deliveries of each subscription.
        broker_rate: limit on the deliveries of all subscriptions together.
        batches: store of partly acked batches; None without one.
        guard: checks the leases before each delivery.
        on_deleted: called with a topic that the metadata store does not have any more.
        tail: returns how the owner of a topic pushes its new entries; None to read them from bookies always.
        replay: clock that releases the entries of all topics; None where they are readable at once.

    Attributes:
        leaving: consumers whose last acks the owner has not stored yet.
        latency: measures some deliveries, of all topics.
        namespace_policies: policies that all topics of a namespace share.
    """

    def __init__(
        self,
        cluster: ClusterMetadata,
        pool: BookiePool,
        cache: EntryCache,
        admin: AdminClient,
        tiered: TieredStorage,
        on_unreadable: Callable[[Subscription, Position, str], None],
        subscription_rate: DispatchRate = UNLIMITED,
        broker_rate: DispatchRate = UNLIMITED,
        batches: BatchIndexAckStore | None = None,
        guard: LeaseGuard | None = None,
        tail: Callable[[TopicName], TailSettings | None] = lambda _: None,
        on_deleted: Callable[[TopicName], None] = lambda _: None,
        replay: SharedClock | None = None,
    ) -> None:
        self.leaving = LeavingConsumers()
        self._lease_guard = guard or LeaseGuard()
        self._cluster = cluster
        self._pool = pool
        self._cache = cache
        self._tiered = tiered
        self._batches = batches
        self._tail = tail
        self._on_deleted = on_deleted
        self._replay = replay
        self._topics: dict[TopicName, ServedTopic] = {}
        self._opening = asyncio.Semaphore(MAX_OPENING)
        self._subscriptions: list[Subscription] | None = None  # None after each change
        self._policed: list[TopicName] | None = None
        self._queries = OwnerQueries(
            admin,
            batches,
            partial(owner_consumers, self._topics),
            self._make_log,
            partial(has_pending_acks, cluster),
            self._follow_exposure,
        )
        self.namespace_policies = self._queries.namespace_policies
        self._push_policies = PushPolicies(admin, self.namespace_policies)
        self._links = OwnerLinks(self._queries, self._push_policies, self._topics, replaying=replay is not None)
        self._owner_probes = OwnerProbes()
        durable = Kept(self.subscriptions, lambda one: one.durable)
        self._cursor_poller = CursorPoller(durable, self._queries.consumer_state)
        self._policy_follower = PolicyFollower(
            self._with_policies,
            partial(self._queries.configuration, ROUND_S),
            lambda topic: self.namespace_policies.version(topic, ROUND_S / 2),
            self._follow_policies,
        )
        self.latency = LatencySampler(_after_sample_interval)
        self._starter = SubscriptionStarter(
            cluster,
            pool,
            self._queries,
            on_unreadable,
            subscription_rate,
            broker_rate,
            self._lease_guard,
            self.latency,
            replay,
        )
        self._splicing = Splicing(self._lease_guard, self.latency)
        self._pushed_before = PushTotals()

    @property
    def cluster_name(self) -> str:
        """Name of the source cluster; empty while unknown."""
        return self._queries.cluster_name

    @property
    def tail_changes(self) -> int:
        """Number of changes of the source of new entries, of all topics."""
        return self._links.tail_changes

    @property
    def counters(self) -> dict[tuple[TopicName, str], Counters]:
        """Counters of former and present subscriptions, the longest unused first."""
        return {
            **self._starter.former_counters,
            **{(one.topic, one.name): one.counters for one in self.subscriptions()},
        }

    @property
    def dropped_counters(self) -> Counters:
        """Sum of the counters that are not kept any more."""
        return self._starter.dropped_counters

    @property
    def all(self) -> Iterable[tuple[TopicName, ServedTopic]]:
        """The topics that are open, each with its name."""
        return list(self._topics.items())

    async def join(
        self,
        topic: TopicName,
        consumer: Subscriber,
        check_claim: Callable[[Subscription], None],
        make: MakeSubscription | None = None,
    ) -> Subscription:
        """Add a consumer that is subscribed on the owner to its subscription on this broker.

        If its topic is not open, it waits until fewer than MAX_OPENING others are being opened.

        Args:
            topic: the topic.
            consumer: the consumer.
            check_claim: called right before the consumer can get messages; raises if it must not get any.
            make: makes the subscription for its first consumer; None for Subscription itself.

        Raises:
            MetadataError: the topic's ledgers are unknown.
            RelayError: the owner does not answer, or its cursor may have changed meanwhile.
        """
        if topic in self._topics:
            return await self._join(topic, consumer, check_claim, make)
        async with self._opening:
            return await self._join(topic, consumer, check_claim, make)

    async def _join(
        self,
        topic: TopicName,
        consumer: Subscriber,
        check_claim: Callable[[Subscription], None],
        make: MakeSubscription | None,
    ) -> Subscription:
        served = self._serve(topic)
        name = consumer.info.name
        key = (topic, name)
        try:
            with served.join(name) as join_state:
                keeper = consumer.keeper(self._queries)
                unsettled, dropped = self.leaving.pending(key), join_state.dropped
                generation = keeper.generation
                state = await keeper.state(consumer.owner_consumer)
                await served.log.opened()
                served.confirm(state)
                if not keeper.at_owner:
                    served.log.expect_no_push()  # the keeper does not know the end of the topic
                await self._guard_reads(served)
                async with join_state.lock:
                    subscription = served.subscriptions.get(name)
                    if subscription is None:
                        if unsettled or dropped != join_state.dropped:
                            # The owner answered before it had processed the acks of consumers that have left meanwhile.
                            await self.leaving.wait_for_none(key)
                            generation = keeper.generation
                            state = await keeper.state(consumer.owner_consumer)
                            served.confirm(state)
                        subscription = await self._starter.start(
                            topic, served, consumer, keeper, state, generation, make
                        )
                        with ExitStack() as cleanup:
                            cleanup.callback(subscription.close)
                            check_claim(subscription)
                            cleanup.pop_all()
                        served.subscriptions[name] = subscription
                        self._starter.former_counters.pop(key, None)
                        self._subscriptions_changed()
                    else:
                        check_claim(subscription)
                        keeper.check_joining(subscription)
                    if self._queries.exposes_entry_metadata:
                        consumer.dispatch_state.exposed = consumer.takes_entry_metadata
                    subscription.add(consumer)
                    if consumer.info.durable:
                        consumer.owner_consumer.hold_early_acks(served.log.owner_end)
                if self._replay is None:
                    self._cursor_poller.start()
                    self._policy_follower.start()
                if served.tail is not None:
                    served.tail.start()
                return subscription
        finally:
            self._close_if_unused(topic, served)

    def _serve(self, topic: TopicName) -> ServedTopic:
        """Return a topic, which is opened if necessary."""
        served = self._topics.get(topic)
        if served is None:
            links = TopicLinks(self._links, topic)
            opened = self._open(topic, links)
            transactions = TopicTransactions(opened, links)
            served = self._topics[topic] = ServedTopic(opened, transactions, self._lease_guard, self.latency)
            self._set_tail(topic, served, links)
        return served

    @asynccontextmanager
    async def replayed(self, topic: TopicName) -> AsyncIterator[ReplayLog]:
        """Keep the log of a topic in a replay open.

        Raises:
            MetadataError: the topic's ledgers are unknown.
        """
        served = self._serve(topic)
        served.joining += 1
        try:
            log_ = served.log
            assert isinstance(log_, ReplayLog)
            await log_.opened()
            yield log_
        finally:
            served.joining -= 1
            self._close_if_unused(topic, served)

    async def authorizes(self) -> bool | None:
        """Return whether the source cluster authorizes clients; None if unknown."""
        return await self._queries.authorizes()

    @property
    def pushed(self) -> Iterator[PushTotals]:
        """What owners have pushed to this broker since its start, as parts of the sum: topics may close meanwhile."""
        tails = [served.tail for served in self._topics.values()]
        yield self._pushed_before
        for tail in tails:
            if tail is not None:
                yield tail.delivered

    def subscription(self, topic: TopicName, name: str) -> Subscription | None:
        """Return a subscription of this broker; None without one."""
        served = self._topics.get(topic)
        return None if served is None else served.subscriptions.get(name)

    def leave(
        self, subscription: Subscription, consumer: Subscriber, still_ours: Callable[[], bool]
    ) -> asyncio.Task[None] | None:
        """Remove a consumer from its subscription; `leaving.remove` must follow.

        Args:
            subscription: the subscription.
            consumer: the consumer.
            still_ours: returns whether no other broker can have served the subscription, so that its state here is current.

        Returns:
            A task that must end before the consumer is closed on the owner, and before another broker gets the claim; None if
            there is none.
        """
        self.leaving.add((subscription.topic, subscription.name), consumer)
        subscription.remove(consumer)
        served = self._topics.get(subscription.topic)
        if served is not None and served.tail is not None:
            served.tail.consumer_left(consumer.owner_consumer.owner_connection)
        if subscription.consumers:
            return None
        saving = None
        there = consumer.in_sync and consumer.owner_consumer.subscribed
        if self._batches is not None and subscription.marked and there and still_ours():
            saving = self._batches.save(
                subscription.topic, subscription.name, subscription.batches, consumer.owner_consumer, still_ours
            )
        if served is None:
            return saving
        served.drop(subscription)
        self._subscriptions_changed()
        subscription.close()
        self._starter.keep_counters(subscription.topic, subscription.name, subscription.counters)
        self._close_if_unused(subscription.topic, served)
        return saving

    def close(self) -> None:
        """Close all topics and subscriptions."""
        self._cursor_poller.close()
        self._policy_follower.close()
        if self._batches is not None:
            self._batches.close()
        for _, served in self.all:
            for subscription in served.subscriptions.values():
                subscription.close()
            served.close()
        self._topics.clear()
        self._subscriptions_changed()

    def _make_log(
        self,
        name: TopicName,
        last_entry: Callable[[], Awaitable[Position | None]],
        on_deleted: Callable[[TopicName], None] = lambda _: None,
    ) -> TopicLog:
        return TopicLog(name, self._cluster, self._pool, self._cache, last_entry, self._tiered, on_deleted)

    def _open(self, topic: TopicName, links: TopicLinks) -> TopicLog:
        if self._replay is None:
            return self._make_log(topic, links, self._on_deleted)
        parts = (self._cluster, self._pool, self._cache, links, self._tiered, self._on_deleted, self._replay)
        return ReplayLog(topic, *parts)

    def subscriptions(self) -> list[Subscription]:
        """Return the subscriptions served here now: the same list until they change, so that polls of idle ones cost little."""
        if self._subscriptions is None:
            self._subscriptions = [one for served in self._topics.values() for one in served.subscriptions.values()]
        return self._subscriptions

    def _subscriptions_changed(self) -> None:
        self._subscriptions = self._policed = None

    async def can_read(self, topic: TopicName, position: Position) -> bool:
        """Return whether an entry can be read from storage, or was deleted."""
        log_ = self._open(topic, TopicLinks(self._links, topic))
        try:
            return await is_readable(log_, position)
        finally:
            log_.close()

    def bindings_changed(self) -> None:
        """Apply the bindings' sources of new entries to the open topics."""
        self._subscriptions_changed()
        for topic, served in self.all:
            self._set_tail(topic, served)
            if served.tail is not None and served.subscriptions:
                served.tail.start()

    def _set_tail(self, topic: TopicName, served: ServedTopic, links: TopicLinks | None = None) -> None:
        settings = self._tail(topic)
        if served.tail is not None and served.tail.settings != settings:
            served.tail.close()
            self._keep_pushed(served)
            served.log.follower = None
            served.tail = None
        if served.tail is None and settings is not None:
            served.tail = TailConsumer(
                served.log,
                links or TopicLinks(self._links, topic),
                served.transactions,
                self._owner_probes,
                settings,
                served.fanout,
                self._splicing,
            )
            served.log.follower = served.tail
            served.log.expect_push()

    def _with_policies(self) -> list[TopicName]:
        """Return the topics whose delivery depends on policies: of Shared and Key_Shared subscriptions, or pushed by owners."""
        if self._policed is None:
            self._policed = [
                topic
                for topic, served in self._topics.items()
                if served.tail is not None or any(one.kind in MULTIPLE for one in served.subscriptions.values())
            ]
        return self._policed

    async def _follow_policies(self, topic: TopicName) -> bool:
        """Apply the owner's present policies to a topic; return whether it may have policies of its own, which were requested."""
        own = await self.namespace_policies.dispatch(topic, ROUND_S) is None
        served = self._topics.get(topic)
        if served is None:
            return False
        for subscription in list(served.subscriptions.values()):
            if subscription.kind in MULTIPLE:
                settings = await self._queries.settings(topic, subscription.kind, ROUND_S / 2)
                subscription.follow(settings)
        self._push_policies.forget(topic)
        if served.tail is not None:
            served.tail.policies_changed()
        return own

    def _follow_exposure(self) -> None:
        """Expose the owner's own metadata of entries as the owner brokers do after a restart."""
        exposed = self._queries.exposes_entry_metadata
        for subscription in self.subscriptions():
            subscription.expose_entry_metadata(exposed=exposed)
        if exposed:
            self._cache.clear()  # an owner that did not expose it has pushed entries without it

    async def owner_moved(self, topic: TopicName) -> None:
        """Handle the return of a consumer to its owner: the cluster may have transactions now, and the owner may push again."""
        served = self._topics.get(topic)
        if served is not None:
            await self._guard_reads(served, CACHE_TTL_S)
            if served.tail is not None:
                served.tail.start()

    async def _guard_reads(self, served: ServedTopic, max_age_s: float = CONFIGURATION_TTL_S) -> None:
        """Limit the reads of a topic to its owner's maximum read position, unless the cluster has no transactions.

        One broker answers for all. During a rolling restart the answers differ. As soon as one broker has transactions, the
        limit applies to all topics.
        """
        if self._replay is not None:
            return  # their ends are in the topics, and as old as the messages
        found = await self._queries.transactions(max_age_s)
        if found and not self._links.guarding:
            self._links.guarding = True
            for _, other in self.all:
                other.transactions.guard()
        if found is not False:
            served.transactions.guard()

    def _close_if_unused(self, topic: TopicName, served: ServedTopic) -> None:
        if not served.subscriptions and not served.joining and self._topics.get(topic) is served:
            del self._topics[topic]
            self._subscriptions_changed()
            served.close()
            self._keep_pushed(served)

    def _keep_pushed(self, served: ServedTopic) -> None:
        """Keep the totals of a topic's tail after its end."""
        if served.tail is not None:
            self._pushed_before = self._pushed_before.plus(served.tail.delivered)
