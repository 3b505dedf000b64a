"""Start of subscriptions at the positions of their cursors, with limits and counters."""

from __future__ import annotations

import time
from collections import OrderedDict
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.broker.dispatch.counters import Counters
from readonly_engine.broker.dispatch.delayed import MACHINE_CLOCK
from readonly_engine.broker.dispatch.rate import RateLimit
from readonly_engine.broker.subscription.parts import SubscriptionParts
from readonly_engine.broker.subscription.pending_acks import pending_ack_log_name
from readonly_engine.broker.subscription.subscription import Subscription
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.topic.compacted import find_compaction
from readonly_engine.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.bookkeeper.pool import BookiePool
    from readonly_engine.broker.dispatch.delayed import DeliveryClock
    from readonly_engine.broker.dispatch.latency import LatencySampler
    from readonly_engine.broker.subscription.cursor_keeper import CursorKeeper
    from readonly_engine.broker.subscription.owner_queries import OwnerQueries
    from readonly_engine.broker.subscription.served_topic import ServedTopic
    from readonly_engine.broker.subscription.subscriber import Subscriber
    from readonly_engine.config.limits import DispatchRate
    from readonly_engine.lease_guard import LeaseGuard
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.consumer_events import OwnerCursorState
    from readonly_engine.topic.position import Position
    from readonly_engine.topic.view import TopicView

    MakeSubscription = Callable[[SubscriptionParts, Callable[[Subscription, Position, str], None]], Subscription]

MAX_REMEMBERED = 100_000
"""Bound of the subscriptions whose counters are kept. Subscriptions of readers have a new name each time."""


class SubscriptionStarter:
    """Makes subscriptions for their first consumers.

    Args:
        cluster: metadata of the source cluster.
        pool: connections to the bookies.
        queries: questions to owners.
        on_unreadable: called with a subscription, a position and the reason when storage does not return an entry for a while.
        subscription_rate: limit on the deliveries of each subscription.
        broker_rate: limit on the deliveries of all subscriptions together.
        guard: checks the leases before each delivery.
        latency: measures some deliveries.
        replay: clock of a replay of past messages; None without one.

    Attributes:
        former_counters: counters of former subscriptions, the longest unused first. Each present one has its own, in which those
            of its time before continue.
        dropped_counters: sum of the counters that are not kept any more.
    """

    def __init__(
        self,
        cluster: ClusterMetadata,
        pool: BookiePool,
        queries: OwnerQueries,
        on_unreadable: Callable[[Subscription, Position, str], None],
        subscription_rate: DispatchRate,
        broker_rate: DispatchRate,
        guard: LeaseGuard,
        latency: LatencySampler,
        replay: DeliveryClock | None,
    ) -> None:
        self._cluster = cluster
        self._pool = pool
        self._queries = queries
        self._on_unreadable = on_unreadable
        self._subscription_rate = subscription_rate
        self._broker_limit = RateLimit(broker_rate, time.monotonic()) if broker_rate else None
        self._guard = guard
        self._latency = latency
        self._replay = replay
        self.former_counters: OrderedDict[tuple[TopicName, str], Counters] = OrderedDict()
        self.dropped_counters = Counters()

    async def start(
        self,
        topic: TopicName,
        served: ServedTopic,
        consumer: Subscriber,
        keeper: CursorKeeper,
        state: OwnerCursorState,
        generation: int,
        make: MakeSubscription | None,
    ) -> Subscription:
        """Make a subscription at the position of the cursor, for its first consumer on this broker.

        Raises:
            MetadataError: the topic's storage or the acks in transactions cannot be read.
            RelayError: the owner does not answer, or its cursor may have changed meanwhile.
        """
        subscribe = consumer.subscribe_command
        settings = await keeper.settings()
        acked, batches = await keeper.load(consumer.owner_consumer, state, served.log)
        view: TopicView = served.log
        if self._replay is None:  # a compacted topic has no past
            view = await served.view(subscribe, partial(find_compaction, self._cluster, self._pool, topic))
        name = consumer.info.name
        parts = SubscriptionParts(
            view=view,
            subscribe=subscribe,
            name=name,
            settings=settings,
            rates=self._rate_limits(),
            transactions=served.transactions,
            state=state,
            acked=acked,
            batches=batches,
            keeper=keeper,
            counters=self.former_counters.get((topic, name)) or Counters(),
            fanout=served.fanout if view is served.log else None,
            guard=self._guard,
            latency=self._latency,
            clock=self._replay or MACHINE_CLOCK,
        )
        if generation != keeper.generation:
            raise OwnerUnavailableError(f"the cursor of {name} was moved meanwhile; try again")
        subscription = (make or Subscription)(parts, self._on_unreadable)
        with ExitStack() as cleanup:
            cleanup.callback(subscription.close)  # also if the client leaves meanwhile
            subscription.start()
            if batches and subscription.durable:
                subscription.mark_batches()
            if subscription.durable and await self._queries.may_have_transactions():
                await self._replay_pending_acks(subscription)
            if not consumer.in_sync:
                # The owner's cursor may have moved, so the consumer must not start at the earlier position.
                raise OwnerUnavailableError(f"the owner of {topic} has closed the consumer; try again")
            cleanup.pop_all()
        return subscription

    async def _replay_pending_acks(self, subscription: Subscription) -> None:
        """Read the acks in open transactions, if the subscription ever had any.

        Raises:
            MetadataError: the acks cannot be read.
        """
        name = pending_ack_log_name(subscription.topic, subscription.name)
        try:
            if await self._cluster.topic(name) is not None:
                await subscription.replay_pending_acks()
        except (BookKeeperError, MetadataError, WireError, TimeoutError) as error:
            raise MetadataError(f"{name}: acks in transactions cannot be read: {error or 'not in time'}") from error

    def _rate_limits(self) -> tuple[RateLimit, ...]:
        """Return the rate limits of a new subscription: its own, and the one of the broker."""
        limits = [RateLimit(self._subscription_rate, time.monotonic())] if self._subscription_rate else []
        return tuple(limits if self._broker_limit is None else [*limits, self._broker_limit])

    def keep_counters(self, topic: TopicName, subscription: str, counters: Counters) -> None:
        """Keep the counters of a subscription that ends; they continue when its consumers return."""
        self.former_counters[topic, subscription] = counters
        self.former_counters.move_to_end((topic, subscription))
        if len(self.former_counters) > MAX_REMEMBERED:
            _, dropped = self.former_counters.popitem(last=False)
            self.dropped_counters.add(dropped)
