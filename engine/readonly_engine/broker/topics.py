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
from readonly_engine.broker.counters import Counters
from readonly_engine.broker.cursor_watch import CursorWatch
from readonly_engine.broker.departures import Departures
from readonly_engine.broker.dispatch.rate import RateLimit
from readonly_engine.broker.lease_guard import LeaseGuard
from readonly_engine.broker.owner_cursor import CursorAtOwner
from readonly_engine.broker.owner_settings import CONFIGURATION_S, OwnerSettings
from readonly_engine.broker.pass_through import PassThrough
from readonly_engine.broker.subscription import Subscription
from readonly_engine.broker.together import Together
from readonly_engine.broker.txn_acks import TxnAckSource, log_of
from readonly_engine.config.limits import UNLIMITED, DispatchRate
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.relay.consumer import OwnerState
from readonly_engine.relay.errors import OwnerRefusedError, OwnerUnavailableError, RelayError
from readonly_engine.topic.compacted import CompactedLog, find_compaction
from readonly_engine.topic.log import TopicLog
from readonly_engine.topic.position import EARLIEST
from readonly_engine.topic.transactions import TopicTransactions
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from readonly_engine.bookkeeper.pool import BookiePool
    from readonly_engine.broker.batch_memory import BatchMemory
    from readonly_engine.broker.consumer import Consumer
    from readonly_engine.broker.dispatch.make import DispatchSettings
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.relay.admin import AdminClient
    from readonly_engine.relay.consumer import RelayedConsumer
    from readonly_engine.tiered.storage import TieredStorage
    from readonly_engine.topic.cache import EntryCache
    from readonly_engine.topic.compacted import Compaction
    from readonly_engine.topic.position import Position
    from readonly_engine.topic.view import TopicView


log = logging.getLogger(__name__)

FRESH_S = 5.0
"""Consumers that come back to their owners together share one look at the brokers' configuration."""

STATE_S = 5.0
"""An owner that has not said in this time where a subscription stands is asked in another way."""

PROBE_S = 10.0
"""An entry that could not be read is tried again for so long at once."""

MAX_REMEMBERED = 100_000
"""Subscriptions of which something is remembered; those of readers have a new name each time."""


class Beginning:
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
        self.together = Together(log, transactions, guard)
        self._compacted: CompactedLog | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.joining = 0
        self._beginnings: WeakValueDictionary[str, Beginning] = WeakValueDictionary()

    def beginning(self, subscription: str) -> Beginning:
        """What those share who join a subscription; it goes with the last of them."""
        return self._beginnings.setdefault(subscription, Beginning())

    def drop(self, subscription: Subscription) -> None:
        """Serve a subscription no more whose last consumer has left."""
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]
            beginning = self._beginnings.get(subscription.name)
            if beginning is not None:
                beginning.dropped += 1

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

    def confirm(self, state: OwnerState) -> None:
        """The owner says how far consumers may read."""
        self.log.confirm(state.last)
        self.transactions.told(state.last)

    def close(self) -> None:
        """Follow the topic no more."""
        if self._compacted is not None:
            self._compacted.close()
        self.transactions.close()
        self.log.close()


class _Asking:
    """The questions of one subscription (`Questions`)."""

    __slots__ = ("_encoded_subscribe", "_settings", "_topic", "_topics")

    def __init__(
        self, topics: ServedTopics, topic: TopicName, encoded_subscribe: bytes, settings: DispatchSettings
    ) -> None:
        self._topics = topics
        self._topic = topic
        self._encoded_subscribe = encoded_subscribe
        self._settings = settings

    @property
    def _subscribe(self) -> CommandSubscribe:
        return CommandSubscribe.FromString(self._encoded_subscribe)

    async def state(self, relayed: RelayedConsumer) -> OwnerState:
        return await self._topics.state(self._topic, self._subscribe.subscription, relayed)

    async def acked(self) -> list[tuple[Position, Position]]:
        return await self._topics.acked(self._topic, self._subscribe)

    async def cursor(self) -> CursorAtOwner:
        return await self._topics.cursor(self._topic, self._subscribe)

    async def batches(self) -> list[tuple[Position, int]]:
        return await self._topics.left_batches(self._topic, self._subscribe, self._settings)

    def txn_ack_source(self) -> TxnAckSource:
        return self._topics.txn_ack_source(self._topic, self._subscribe.subscription)


class ServedTopics:
    """Opens a topic for its first subscription, closes it after its last.

    Args:
        cluster: the metadata.
        pool: connections to the bookies.
        cache: entries; it outlives the topics, so that a client that comes back finds them.
        admin: tells what is acked behind a mark-delete position.
        tiered: reads what was offloaded.
        subscription_rate: how much each subscription may deliver.
        broker_rate: how much all of them together may.
        pool_name: the identity of this broker's pool: its name, and its uid if it has one.
        batches: what consumers of the pool have left of batches; None where there is nothing to hand over.
        guard: checks the leases under which is delivered.
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
        pool_name: str = "default",
        batches: BatchMemory | None = None,
        guard: LeaseGuard | None = None,
    ) -> None:
        self.departures = Departures()
        self._lease_guard = guard or LeaseGuard()
        self._cluster = cluster
        self._pool = pool
        self._cache = cache
        self._admin = admin
        self._tiered = tiered
        self._owner_settings = OwnerSettings(admin)
        self._batches = batches
        self._subscription_rate = subscription_rate
        self._broker_limit = RateLimit(broker_rate, time.monotonic()) if broker_rate else None
        self._topics: dict[TopicName, ServedTopic] = {}
        self._transactions = False
        self._cursor_watch = CursorWatch(self._subscriptions)
        self.passing = PassThrough(admin, pool_name, self._subscriptions, self._readable)
        self.counters: OrderedDict[tuple[TopicName, str], Counters] = OrderedDict()

    @property
    def all(self) -> Iterable[tuple[TopicName, ServedTopic]]:
        """Every topic that has subscriptions here."""
        return list(self._topics.items())

    async def join(
        self, topic: TopicName, consumer: Consumer, may_serve: Callable[[Subscription], None]
    ) -> Subscription:
        """Add a consumer, which is at the owner already, to its subscription.

        Args:
            topic: the topic.
            consumer: the consumer.
            may_serve: called right before the consumer can get anything; raises where it must not.

        Raises:
            MetadataError: the topic's ledgers are not known.
            RelayError: the owner does not say where the subscription stands; or what is acked cannot be found out, or may have
                changed meanwhile.
        """
        served = self._topics.get(topic)
        if served is None:
            opened = self._open(topic)
            transactions = TopicTransactions(
                opened, partial(self._last_message, topic), partial(self._exact_limit, topic)
            )
            served = self._topics[topic] = ServedTopic(opened, transactions, self._lease_guard)
        served.joining += 1
        try:
            subscribe = consumer.subscribe
            name = subscribe.subscription
            key, beginning = (topic, name), served.beginning(name)
            unsettled, dropped = self.departures.pending(key), beginning.dropped
            state = await self.state(topic, name, consumer.relayed)
            await served.log.opened()
            served.confirm(state)
            await self._guard(served)
            async with beginning.lock:
                subscription = served.subscriptions.get(name)
                if subscription is None:
                    if unsettled or dropped != beginning.dropped:
                        # The owner was asked before it had taken what consumers have acked that are gone by now.
                        await self.departures.settled(key)
                        state = await self.state(topic, name, consumer.relayed)
                        served.confirm(state)
                    subscription = await self._begin(topic, served, consumer, state)
                    with ExitStack() as not_begun:
                        not_begun.callback(subscription.close)
                        may_serve(subscription)
                        not_begun.pop_all()
                    served.subscriptions[name] = subscription
                else:
                    may_serve(subscription)
                subscription.add(consumer)
            self._cursor_watch.start()
            return subscription
        finally:
            served.joining -= 1
            self._close_if_unused(topic, served)

    async def _begin(
        self, topic: TopicName, served: ServedTopic, consumer: Consumer, state: OwnerState
    ) -> Subscription:
        """A subscription where the owner's cursor stands, for its first consumer here."""
        subscribe = consumer.subscribe
        settings = await self._owner_settings.of(topic, subscribe)
        # Nothing can be acked behind a cursor that stands at the end.
        behind = state.mark_delete is None or served.log.chain.after(state.mark_delete) <= state.last
        asking = _Asking(self, topic, consumer.relayed.encoded_subscribe, settings)
        acked = await asking.acked() if behind else []
        batches = await asking.batches() if behind else []
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
            asking,
            self._counters_of(topic, subscribe.subscription),
            self.passing.cannot_read,
            served.together if view is served.log else None,
            self._lease_guard,
        )
        with ExitStack() as not_begun:
            not_begun.callback(subscription.close)  # also where the client leaves meanwhile
            if subscribe.durable and await self._may_have_transactions():
                await self._replay_txn_acks(subscription)
            if not consumer.in_step:
                # Others may be back by now, and must not begin where the owner's cursor was before.
                raise OwnerUnavailableError(f"the owner of {topic} has closed the consumer; try again")
            not_begun.pop_all()
        return subscription

    async def state(self, topic: TopicName, subscription: str, relayed: RelayedConsumer) -> OwnerState:
        """Where the owner says that a subscription stands, and how far it lets its consumers read.

        An owner whose last entry cannot be parsed serves consumers, but does not say this to them: then the admin API is asked.

        Args:
            topic: the topic.
            subscription: the subscription.
            relayed: a consumer of it, through whom to ask.

        Raises:
            RelayError: neither says it.
        """
        try:
            async with asyncio.timeout(STATE_S):
                return await relayed.state()
        except (OwnerRefusedError, TimeoutError) as error:
            log.info("%s: the owner does not say what its last message is: %s", topic, error or "no answer in time")
        mark_delete, last = await self._admin.cursor_and_end(topic, subscription)
        if await self._may_have_transactions():
            limit = await self._admin.max_read(topic)
            if limit is None:
                raise OwnerUnavailableError(f"the owner of {topic} does not say how far consumers may read")
            last = limit
        return OwnerState(mark_delete, last)

    def settle(self) -> None:
        """Reckon up what consumers had together, for whoever reads the counters."""
        for subscription in self._subscriptions():
            subscription.settle()

    def subscription(self, topic: TopicName, name: str) -> Subscription | None:
        """A subscription that is served here."""
        served = self._topics.get(topic)
        return None if served is None else served.subscriptions.get(name)

    def leave(
        self, subscription: Subscription, consumer: Consumer, ours: Callable[[], bool]
    ) -> asyncio.Task[None] | None:
        """Take a consumer out of its subscription; `departures.ended` must follow.

        Args:
            subscription: the subscription.
            consumer: the consumer.
            ours: whether no other broker can have served the subscription: what is known of it here counts then.

        Returns:
            What must be done before the consumer is closed at the owner, and before another broker may have the subscription.
        """
        self.departures.began((subscription.topic, subscription.name), consumer)
        subscription.remove(consumer)
        if subscription.consumers:
            return None
        handing_over = None
        there = consumer.in_step and consumer.relayed.attached
        if self._batches is not None and subscription.durable and there and ours() and subscription.batches:
            handing_over = self._batches.keep(
                subscription.topic, subscription.name, subscription.batches, consumer.relayed, ours
            )
        served = self._topics.get(subscription.topic)
        if served is None:
            return handing_over
        served.drop(subscription)
        subscription.close()
        self._close_if_unused(subscription.topic, served)
        return handing_over

    def close(self) -> None:
        """Close everything."""
        self.passing.close()
        self._cursor_watch.close()
        if self._batches is not None:
            self._batches.close()
        for _, served in self.all:
            for subscription in served.subscriptions.values():
                subscription.close()
            served.close()
        self._topics.clear()

    def _open(self, topic: TopicName) -> TopicLog:
        return TopicLog(
            topic, self._cluster, self._pool, self._cache, partial(self._last_at_owner, topic), self._tiered
        )

    def txn_ack_source(self, topic: TopicName, subscription: str) -> TxnAckSource:
        """Where the owner's log of a subscription's acks in transactions is found."""
        last = partial(self._last_txn_ack, topic, subscription)
        name = log_of(topic, subscription)
        return TxnAckSource(partial(TopicLog, name, self._cluster, self._pool, self._cache, last, self._tiered), last)

    async def _last_txn_ack(self, topic: TopicName, subscription: str) -> Position | None:
        try:
            return await self._admin.last_txn_ack(topic, subscription)
        except RelayError as error:
            log.info(
                "%s, %s: the owner does not say how far its acks in transactions go: %s", topic, subscription, error
            )
            return None

    async def _replay_txn_acks(self, subscription: Subscription) -> None:
        """Find out what is acked in open transactions, where a subscription has ever had such acks.

        Raises:
            MetadataError: it cannot be found out.
        """
        name = log_of(subscription.topic, subscription.name)
        try:
            if await self._cluster.topic(name) is not None:
                await subscription.replay_txn_acks()
        except (BookKeeperError, MetadataError, WireError, TimeoutError) as error:
            raise MetadataError(f"{name}: acks in transactions cannot be read: {error or 'not in time'}") from error

    def _subscriptions(self) -> Iterable[Subscription]:
        return [subscription for _, served in self.all for subscription in served.subscriptions.values()]

    async def _readable(self, topic: TopicName, position: Position) -> bool:
        """Whether an entry can be read from storage, or is there no more."""
        log_ = self._open(topic)
        try:
            async with asyncio.timeout(PROBE_S):
                await log_.opened()
                await log_.read(log_.chain.at_or_after(position), 1)
        except (BookKeeperError, MetadataError, TimeoutError) as error:
            log.info("%s: entry %s still cannot be read: %s", topic, position, error or "no answer in time")
            return False
        finally:
            log_.close()
        return True

    async def _last_at_owner(self, topic: TopicName) -> Position | None:
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
            served.transactions.told(last)
        return last

    async def _last_message(self, topic: TopicName) -> Position | None:
        """The last message that the topic's owner delivers now; None where it does not say."""
        served = self._topics.get(topic)
        subscriptions = [] if served is None else list(served.subscriptions.values())
        for consumer in (consumer for subscription in subscriptions for consumer in subscription.consumers):
            if consumer.relayed.attached:
                try:
                    return (await consumer.relayed.state()).last
                except RelayError as error:
                    log.info("%s: the owner cannot be asked for its last entry: %s", topic, error)
                    return None
        return None

    async def _exact_limit(self, topic: TopicName) -> Position | None:
        """How far the topic's owner lets consumers read now; None where it does not say."""
        try:
            return await self._admin.max_read(topic)
        except RelayError as error:
            log.info("%s: the owner does not say how far consumers may read: %s", topic, error)
            return None

    async def owner_moved(self, topic: TopicName) -> None:
        """The topic is at another owner, or at one that was restarted: the cluster may have transactions now."""
        served = self._topics.get(topic)
        if served is not None:
            await self._guard(served, FRESH_S)

    async def _guard(self, served: ServedTopic, fresh_s: float = CONFIGURATION_S) -> None:
        """Have a topic wait for its owner's word where the cluster has transactions, or does not say so.

        Any broker says it for all. While they are restarted one by one some say that they have none, and these may be asked
        when the first topics come back: so all topics wait as soon as one broker says that it has them.
        """
        found = self._transactions or await self._owner_settings.transactions(fresh_s)
        if found and not self._transactions:
            self._transactions = True
            for _, other in self.all:
                other.transactions.guard()
        if found is not False:
            served.transactions.guard()

    async def _may_have_transactions(self) -> bool:
        """Whether a broker of the cluster has them, or none says that it has not: then owners heed no log of their acks."""
        return self._transactions or await self._owner_settings.transactions() is not False

    async def acked(self, topic: TopicName, subscribe: CommandSubscribe) -> list[tuple[Position, Position]]:
        """What is acked, as the owner has it now."""
        if not subscribe.durable:
            return []
        return (await self.cursor(topic, subscribe)).acked

    async def cursor(self, topic: TopicName, subscribe: CommandSubscribe) -> CursorAtOwner:
        """A durable cursor as the owner has it now."""
        acked, unwritten = await self._admin.cursor(topic, subscribe.subscription)
        if subscribe.read_compacted:
            # A reader of the compacted topic may have to begin before the owner's cursor.
            acked = [reach for reach in acked if reach[0] != EARLIEST]
        return CursorAtOwner(acked, unwritten)

    async def left_batches(
        self, topic: TopicName, subscribe: CommandSubscribe, settings: DispatchSettings
    ) -> list[tuple[Position, int]]:
        """What consumers before have acked of batches, anywhere in the pool."""
        if self._batches is None or not subscribe.durable or not settings.batch_acks:
            return []
        return await self._batches.recall(topic, subscribe.subscription)

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
