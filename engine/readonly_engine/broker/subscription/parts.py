"""The parts of a new subscription."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from readonly_engine.broker.dispatch.delayed import MACHINE_CLOCK
from readonly_engine.broker.dispatch.latency import LatencySampler

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from readonly_engine.broker.dispatch.counters import Counters
    from readonly_engine.broker.dispatch.delayed import DeliveryClock
    from readonly_engine.broker.dispatch.make import DispatchSettings
    from readonly_engine.broker.dispatch.rate import RateLimit
    from readonly_engine.broker.fanout.tail_fanout import TailFanout
    from readonly_engine.broker.subscription.cursor_keeper import CursorKeeper
    from readonly_engine.lease_guard import LeaseGuard
    from readonly_engine.owner.consumer_events import OwnerCursorState
    from readonly_engine.topic.position import Position
    from readonly_engine.topic.transactions import TopicTransactions
    from readonly_engine.topic.view import TopicView
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionParts:
    """Parts for a new subscription, which keeps only those that it needs.

    Attributes:
        view: the topic, or its compacted view.
        subscribe: the first consumer's SUBSCRIBE.
        name: name of the subscription, the text that its consumers have.
        settings: settings of the owner's configuration and policies.
        rates: rate limits, of this subscription and shared ones.
        transactions: transactions of the topic.
        state: the owner's mark-delete position of the subscription, and the last entry that consumers may read.
        acked: ranges (lower, upper] of entries that are acked on the owner.
        batches: partly acked batches, with the bits of their unacked messages.
        keeper: keeper of the cursor.
        counters: counters of the subscription.
        fanout: fan-out at the topic's tail; None without it.
        guard: checks the leases before each delivery.
        latency: measures some deliveries.
        clock: time by which delayed messages are due.
    """

    view: TopicView
    subscribe: CommandSubscribe
    name: str
    settings: DispatchSettings
    rates: tuple[RateLimit, ...]
    transactions: TopicTransactions
    state: OwnerCursorState
    acked: Sequence[tuple[Position, Position]]
    batches: Iterable[tuple[Position, int]]
    keeper: CursorKeeper
    counters: Counters
    fanout: TailFanout | None
    guard: LeaseGuard
    latency: LatencySampler = field(default_factory=LatencySampler)
    clock: DeliveryClock = MACHINE_CLOCK
