"""The topics that this broker serves now, each opened once for all its subscriptions."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.broker.dispatch.counters import Counters
from readonly_engine.broker.dispatch.rate import RateLimit
from readonly_engine.broker.fanout.tail_fanout import TailFanout
from readonly_engine.broker.subscription.cursor_poller import CursorPoller
from readonly_engine.broker.subscription.cursor_sync import OwnerCursorRanges
from readonly_engine.broker.subscription.leaving_consumers import LeavingConsumers
from readonly_engine.broker.subscription.owner_policies import CONFIGURATION_TTL_S, OwnerPolicies
from readonly_engine.broker.subscription.pending_acks import PendingAckSource, pending_ack_log_name
from readonly_engine.broker.subscription.subscription import Subscription
from readonly_engine.config.limits import UNLIMITED, DispatchRate
from readonly_engine.lease_guard import LeaseGuard
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.owner.consumer import OwnerCursorState
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError, RelayError
from readonly_engine.topic.compacted import CompactedLog, find_compaction
from readonly_engine.topic.log import TopicLog
from readonly_engine.topic.position import EARLIEST
from readonly_engine.topic.transactions import OwnerTransaction, TopicTransactions
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from readonly_engine.bookkeeper.pool import BookiePool
    from readonly_engine.broker.dispatch.make import DispatchSettings
    from readonly_engine.broker.subscription.batch_index_acks import BatchIndexAckStore
    from readonly_engine.broker.subscription.subscriber import Subscriber
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.admin import AdminClient
    from readonly_engine.owner.consumer import OwnerConsumer
    from readonly_engine.tiered.storage import TieredStorage
    from readonly_engine.topic.cache import EntryCache
    from readonly_engine.topic.compacted import Compaction
    from readonly_engine.topic.position import Position
    from readonly_engine.topic.view import TopicView


log = logging.getLogger(__name__)

CACHE_TTL_S = 5.0
"""Consumers that come back to their owners together share one look at the brokers' configuration."""

STATE_TIMEOUT_S = 5.0
"""An owner that has not said in this time where a subscription stands is asked in another way."""

READ_PROBE_TIMEOUT_S = 10.0
"""An entry that could not be read is tried again for so long at once."""

MAX_REMEMBERED = 100_000
"""Subscriptions of which something is remembered; those of readers have a new name each time."""


def ignore_unreadable(_subscription: Subscription, _position: Position, _reason: str) -> None:
    """Do nothing: the subscription waits for storage."""


class JoinState:
    """What those share who join one subscription.

    Attributes:
        lock: held while the subscription is made, so that it is made once.
        dropped: how often it has ended meanwhile, because its last consumer had left.
    """

    __slots__ = ("__weakref__", "dropped", "lock")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.dropped = 0


class ServedTopic:
    """A topic and its subscriptions here."""

    def __init__(self, log: TopicLog, transactions: TopicTransactions, guard: LeaseGuard) -> None:
        self.log = log
        self.transactions = transactions
        self.fanout = TailFanout(log, transactions, guard)
        self._compacted: CompactedLog | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.joining = 0
        self._join_states: WeakValueDictionary[str, JoinState] = WeakValueDictionary()

    def join_state(self, subscription: str) -> JoinState:
        """What those share who join a subscription; it goes with the last of them."""
        return self._join_states.setdefault(subscription, JoinState())

    def drop(self, subscription: Subscription) -> None:
        """Serve a subscription no more whose last consumer has left."""
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]
            join_state = self._join_states.get(subscription.name)
            if join_state is not None:
                join_state.dropped += 1

    async def view(self, subscribe: CommandSubscribe, find: Callable[[], Awaitable[Compaction | None]]) -> TopicView:
        """What a subscription reads: the topic, or what compaction has left of it.

        Raises:
            MetadataError: the compaction cannot be found.
        """
        if not subscribe.read_compacted:
            return self.log
        if self._compacted is None:
            self._compacted = CompactedLog(self.log, find)
        try:
            await self._compacted.opened()
        except BookKeeperError as error:
            raise MetadataError(f"the compaction of {self.log.topic} cannot be read: {error}") from error
        return self._compacted

    def confirm(self, state: OwnerCursorState) -> None:
        """The owner says how far consumers may read."""
        self.log.confirm(state.last)
        self.transactions.on_last_entry(state.last)

    def close(self) -> None:
        """Follow the topic no more."""
        if self._compacted is not None:
            self._compacted.close()
        self.transactions.close()
        self.log.close()


class _SubscriptionQueries:
    """The questions of one subscription (`OwnerQueries`)."""

    __slots__ = ("_encoded_subscribe", "_settings", "_topic", "_topics")

    def __init__(
        self, topics: TopicRegistry, topic: TopicName, encoded_subscribe: bytes, settings: DispatchSettings
    ) -> None:
        self._topics = topics
        self._topic = topic
        self._encoded_subscribe = encoded_subscribe
        self._settings = settings

    @property
    def _subscribe(self) -> CommandSubscribe:
        return CommandSubscribe.FromString(self._encoded_subscribe)

    async def state(self, owner_consumer: OwnerConsumer) -> OwnerCursorState:
        return await self._topics.state(self._topic, self._subscribe.subscription, owner_consumer)

    async def acked(self) -> list[tuple[Position, Position]]:
        return await self._topics.acked(self._topic, self._subscribe)

    async def cursor(self) -> OwnerCursorRanges:
        return await self._topics.cursor(self._topic, self._subscribe)

    async def batches(self) -> list[tuple[Position, int]]:
        return await self._topics.partially_acked_batches(self._topic, self._subscribe, self._settings)

    def pending_ack_source(self) -> PendingAckSource:
        return self._topics.pending_ack_source(self._topic, self._subscribe.subscription)


class TopicRegistry:
    """Opens a topic for its first subscription, closes it after its last.

    Args:
        cluster: the metadata.
        pool: connections to the bookies.
        cache: entries; it outlives the topics, so that a client that comes back finds them.
        admin: tells what is acked behind a mark-delete position.
        tiered: reads what was offloaded.
        subscription_rate: how much each subscription may deliver.
        broker_rate: how much all of them together may.
        batches: what consumers of the pool have left of batches; None where there is nothing to hand over.
        guard: checks the leases under which is delivered.

    Attributes:
        on_unreadable: called with a subscription, a position and the reason when storage does not give an entry for a while.
            The assembly sets it.
    """

    def __init__(
        self,
        cluster: ClusterMetadata,
        pool: BookiePool,
        cache: EntryCache,
        admin: AdminClient,
        tiered: TieredStorage,
        subscription_rate: DispatchRate = UNLIMITED,
        broker_rate: DispatchRate = UNLIMITED,
        batches: BatchIndexAckStore | None = None,
        guard: LeaseGuard | None = None,
    ) -> None:
        self.leaving = LeavingConsumers()
        self._lease_guard = guard or LeaseGuard()
        self._cluster = cluster
        self._pool = pool
        self._cache = cache
        self._admin = admin
        self._tiered = tiered
        self._owner_policies = OwnerPolicies(admin)
        self._batches = batches
        self._subscription_rate = subscription_rate
        self._broker_limit = RateLimit(broker_rate, time.monotonic()) if broker_rate else None
        self._topics: dict[TopicName, ServedTopic] = {}
        self._transactions = False
        self._cursor_poller = CursorPoller(self.subscriptions)
        self.on_unreadable: Callable[[Subscription, Position, str], None] = ignore_unreadable
        self.counters: OrderedDict[tuple[TopicName, str], Counters] = OrderedDict()

    @property
    def all(self) -> Iterable[tuple[TopicName, ServedTopic]]:
        """Every topic that has subscriptions here."""
        return list(self._topics.items())

    async def join(
        self, topic: TopicName, consumer: Subscriber, check_claim: Callable[[Subscription], None]
    ) -> Subscription:
        """Add a consumer, which is at the owner already, to its subscription.

        Args:
            topic: the topic.
            consumer: the consumer.
            check_claim: called right before the consumer can get anything; raises where it must not.

        Raises:
            MetadataError: the topic's ledgers are not known.
            RelayError: the owner does not say where the subscription stands; or what is acked cannot be found out, or may have
                changed meanwhile.
        """
        served = self._topics.get(topic)
        if served is None:
            opened = self._open(topic)
            transactions = TopicTransactions(
                opened,
                partial(self._last_message, topic),
                partial(self._max_read_position, topic),
                partial(self._ask_transaction, topic),
            )
            served = self._topics[topic] = ServedTopic(opened, transactions, self._lease_guard)
        served.joining += 1
        try:
            subscribe = consumer.subscribe_command
            name = subscribe.subscription
            key, join_state = (topic, name), served.join_state(name)
            unsettled, dropped = self.leaving.pending(key), join_state.dropped
            state = await self.state(topic, name, consumer.owner_consumer)
            await served.log.opened()
            served.confirm(state)
            await self._guard_reads(served)
            async with join_state.lock:
                subscription = served.subscriptions.get(name)
                if subscription is None:
                    if unsettled or dropped != join_state.dropped:
                        # The owner was asked before it had taken what consumers have acked that are gone by now.
                        await self.leaving.wait_for_none(key)
                        state = await self.state(topic, name, consumer.owner_consumer)
                        served.confirm(state)
                    subscription = await self._start_subscription(topic, served, consumer, state)
                    with ExitStack() as cleanup:
                        cleanup.callback(subscription.close)
                        check_claim(subscription)
                        cleanup.pop_all()
                    served.subscriptions[name] = subscription
                else:
                    check_claim(subscription)
                subscription.add(consumer)
            self._cursor_poller.start()
            return subscription
        finally:
            served.joining -= 1
            self._close_if_unused(topic, served)

    async def _start_subscription(
        self, topic: TopicName, served: ServedTopic, consumer: Subscriber, state: OwnerCursorState
    ) -> Subscription:
        """A subscription where the owner's cursor stands, for its first consumer here."""
        subscribe = consumer.subscribe_command
        settings = await self._owner_policies.of(topic, subscribe)
        # Nothing can be acked behind a cursor that stands at the end.
        behind = state.mark_delete is None or served.log.chain.after(state.mark_delete) <= state.last
        queries = _SubscriptionQueries(self, topic, consumer.owner_consumer.encoded_subscribe, settings)
        acked = await queries.acked() if behind else []
        batches = await queries.batches() if behind else []
        view = await served.view(subscribe, partial(find_compaction, self._cluster, self._pool, topic))
        subscription = Subscription(
            view,
            subscribe,
            settings,
            self._rate_limits(),
            served.transactions,
            state,
            acked,
            batches,
            queries,
            self._counters_of(topic, subscribe.subscription),
            self.on_unreadable,
            served.fanout if view is served.log else None,
            self._lease_guard,
        )
        with ExitStack() as cleanup:
            cleanup.callback(subscription.close)  # also where the client leaves meanwhile
            if subscribe.durable and await self._may_have_transactions():
                await self._replay_pending_acks(subscription)
            if not consumer.in_sync:
                # Others may be back by now, and must not begin where the owner's cursor was before.
                raise OwnerUnavailableError(f"the owner of {topic} has closed the consumer; try again")
            cleanup.pop_all()
        return subscription

    async def state(self, topic: TopicName, subscription: str, owner_consumer: OwnerConsumer) -> OwnerCursorState:
        """Where the owner says that a subscription stands, and how far it lets its consumers read.

        An owner whose last entry cannot be parsed serves consumers, but does not say this to them: then the admin API is asked.

        Args:
            topic: the topic.
            subscription: the subscription.
            owner_consumer: a consumer of it, through whom to ask.

        Raises:
            RelayError: neither says it.
        """
        try:
            async with asyncio.timeout(STATE_TIMEOUT_S):
                return await owner_consumer.state()
        except (OwnerRefusedError, TimeoutError) as error:
            log.info("%s: the owner does not say what its last message is: %s", topic, error or "no answer in time")
        mark_delete, last = await self._admin.mark_delete_and_last(topic, subscription)
        if await self._may_have_transactions():
            limit = await self._admin.max_read_position(topic)
            if limit is None:
                raise OwnerUnavailableError(f"the owner of {topic} does not say how far consumers may read")
            last = limit
        return OwnerCursorState(mark_delete, last)

    def flush_accounting(self) -> None:
        """Reckon up what consumers had together, for whoever reads the counters."""
        for subscription in self.subscriptions():
            subscription.flush_accounting()

    def subscription(self, topic: TopicName, name: str) -> Subscription | None:
        """A subscription that is served here."""
        served = self._topics.get(topic)
        return None if served is None else served.subscriptions.get(name)

    def leave(
        self, subscription: Subscription, consumer: Subscriber, still_ours: Callable[[], bool]
    ) -> asyncio.Task[None] | None:
        """Take a consumer out of its subscription; `departures.ended` must follow.

        Args:
            subscription: the subscription.
            consumer: the consumer.
            still_ours: whether no other broker can have served the subscription: what is known of it here counts then.

        Returns:
            What must be done before the consumer is closed at the owner, and before another broker may have the subscription.
        """
        self.leaving.add((subscription.topic, subscription.name), consumer)
        subscription.remove(consumer)
        if subscription.consumers:
            return None
        saving = None
        there = consumer.in_sync and consumer.owner_consumer.subscribed
        if self._batches is not None and subscription.durable and there and still_ours() and subscription.batches:
            saving = self._batches.save(
                subscription.topic, subscription.name, subscription.batches, consumer.owner_consumer, still_ours
            )
        served = self._topics.get(subscription.topic)
        if served is None:
            return saving
        served.drop(subscription)
        subscription.close()
        self._close_if_unused(subscription.topic, served)
        return saving

    def close(self) -> None:
        """Close everything."""
        self._cursor_poller.close()
        if self._batches is not None:
            self._batches.close()
        for _, served in self.all:
            for subscription in served.subscriptions.values():
                subscription.close()
            served.close()
        self._topics.clear()

    def _open(self, topic: TopicName) -> TopicLog:
        return TopicLog(
            topic, self._cluster, self._pool, self._cache, partial(self._owner_last_entry, topic), self._tiered
        )

    def pending_ack_source(self, topic: TopicName, subscription: str) -> PendingAckSource:
        """Where the owner's log of a subscription's acks in transactions is found."""
        last = partial(self._last_pending_ack, topic, subscription)
        name = pending_ack_log_name(topic, subscription)
        return PendingAckSource(
            partial(TopicLog, name, self._cluster, self._pool, self._cache, last, self._tiered), last
        )

    async def _last_pending_ack(self, topic: TopicName, subscription: str) -> Position | None:
        try:
            return await self._admin.last_pending_ack(topic, subscription)
        except RelayError as error:
            log.info(
                "%s, %s: the owner does not say how far its acks in transactions go: %s", topic, subscription, error
            )
            return None

    async def _replay_pending_acks(self, subscription: Subscription) -> None:
        """Find out what is acked in open transactions, where a subscription has ever had such acks.

        Raises:
            MetadataError: it cannot be found out.
        """
        name = pending_ack_log_name(subscription.topic, subscription.name)
        try:
            if await self._cluster.topic(name) is not None:
                await subscription.replay_pending_acks()
        except (BookKeeperError, MetadataError, WireError, TimeoutError) as error:
            raise MetadataError(f"{name}: acks in transactions cannot be read: {error or 'not in time'}") from error

    def subscriptions(self) -> Iterable[Subscription]:
        """Return the subscriptions served here now."""
        return [subscription for _, served in self.all for subscription in served.subscriptions.values()]

    async def can_read(self, topic: TopicName, position: Position) -> bool:
        """Return whether an entry can be read from storage, or was deleted."""
        log_ = self._open(topic)
        try:
            async with asyncio.timeout(READ_PROBE_TIMEOUT_S):
                await log_.opened()
                await log_.read(log_.chain.at_or_after(position), 1)
        except (BookKeeperError, MetadataError, TimeoutError) as error:
            log.info("%s: entry %s still cannot be read: %s", topic, position, error or "no answer in time")
            return False
        finally:
            log_.close()
        return True

    async def _owner_last_entry(self, topic: TopicName) -> Position | None:
        """The topic's last entry as its owner knows it, asked through any consumer that is attached there."""
        served = self._topics.get(topic)
        if served is not None and served.transactions.used:
            # Consumers are told of the last message only; what comes after it may be the marker that decides on others.
            try:
                return await self._admin.last_confirmed(topic)
            except RelayError as error:
                log.info("%s: the owner does not say what its last entry is: %s", topic, error)
        last = await self._last_message(topic)
        if served is not None and last is not None:
            served.transactions.on_last_entry(last)
        return last

    async def _last_message(self, topic: TopicName) -> Position | None:
        """The last message that the topic's owner delivers now; None where it does not say."""
        served = self._topics.get(topic)
        subscriptions = [] if served is None else list(served.subscriptions.values())
        for consumer in (consumer for subscription in subscriptions for consumer in subscription.consumers):
            if consumer.owner_consumer.subscribed:
                try:
                    return (await consumer.owner_consumer.state()).last
                except RelayError as error:
                    log.info("%s: the owner cannot be asked for its last entry: %s", topic, error)
                    return None
        return None

    async def _max_read_position(self, topic: TopicName) -> Position | None:
        """How far the topic's owner lets consumers read now; None where it does not say."""
        try:
            return await self._admin.max_read_position(topic)
        except RelayError as error:
            log.info("%s: the owner does not say how far consumers may read: %s", topic, error)
            return None

    async def _ask_transaction(self, topic: TopicName, txn: tuple[int, int]) -> OwnerTransaction | None:
        """Ask the topic's owner about a transaction; None where it does not say."""
        try:
            known = await self._admin.transaction(topic, txn)
            if known is None or any(known):
                return None if known is None else OwnerTransaction(*known)
            last = await self._admin.last_confirmed(topic)
        except RelayError as error:
            log.info("%s: the owner cannot be asked about transaction (%d, %d): %s", topic, *txn, error)
            return None
        return None if last is None else OwnerTransaction(*known, last)

    async def owner_moved(self, topic: TopicName) -> None:
        """The topic is at another owner, or at one that was restarted: the cluster may have transactions now."""
        served = self._topics.get(topic)
        if served is not None:
            await self._guard_reads(served, CACHE_TTL_S)

    async def _guard_reads(self, served: ServedTopic, max_age_s: float = CONFIGURATION_TTL_S) -> None:
        """Have a topic wait for its owner's word where the cluster has transactions, or does not say so.

        Any broker says it for all. While they are restarted one by one some say that they have none, and these may be asked
        when the first topics come back: so all topics wait as soon as one broker says that it has them.
        """
        found = self._transactions or await self._owner_policies.transactions(max_age_s)
        if found and not self._transactions:
            self._transactions = True
            for _, other in self.all:
                other.transactions.guard()
        if found is not False:
            served.transactions.guard()

    async def _may_have_transactions(self) -> bool:
        """Whether a broker of the cluster has them, or none says that it has not: then owners heed no log of their acks."""
        return self._transactions or await self._owner_policies.transactions() is not False

    async def acked(self, topic: TopicName, subscribe: CommandSubscribe) -> list[tuple[Position, Position]]:
        """What is acked, as the owner has it now."""
        if not subscribe.durable:
            return []
        return (await self.cursor(topic, subscribe)).acked

    async def cursor(self, topic: TopicName, subscribe: CommandSubscribe) -> OwnerCursorRanges:
        """A durable cursor as the owner has it now."""
        acked, not_persisted = await self._admin.cursor(topic, subscribe.subscription)
        if subscribe.read_compacted:
            # A reader of the compacted topic may have to begin before the owner's cursor.
            acked = [reach for reach in acked if reach[0] != EARLIEST]
        return OwnerCursorRanges(acked, not_persisted)

    async def partially_acked_batches(
        self, topic: TopicName, subscribe: CommandSubscribe, settings: DispatchSettings
    ) -> list[tuple[Position, int]]:
        """What consumers before have acked of batches, anywhere in the pool."""
        if self._batches is None or not subscribe.durable or not settings.batch_acks:
            return []
        return await self._batches.load(topic, subscribe.subscription)

    def _rate_limits(self) -> tuple[RateLimit, ...]:
        """The limits for a new subscription: its own, and the one that it shares with all others."""
        limits = [RateLimit(self._subscription_rate, time.monotonic())] if self._subscription_rate else []
        return tuple(limits if self._broker_limit is None else [*limits, self._broker_limit])

    def _counters_of(self, topic: TopicName, subscription: str) -> Counters:
        """The counters of a subscription, which go on where they were when its consumers come back."""
        counters = self.counters.setdefault((topic, subscription), Counters())
        self.counters.move_to_end((topic, subscription))
        if len(self.counters) > MAX_REMEMBERED:
            self.counters.popitem(last=False)
        return counters

    def _close_if_unused(self, topic: TopicName, served: ServedTopic) -> None:
        if not served.subscriptions and not served.joining and self._topics.get(topic) is served:
            del self._topics[topic]
            served.close()
