"""The dispatcher of a subscription."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from readonly_engine.broker.dispatch.consumer_state import ConsumerState
from readonly_engine.broker.dispatch.key_shared import KeySharedDispatcher
from readonly_engine.broker.dispatch.multiple import DEFAULT_LIMITS, UnackedLimits
from readonly_engine.broker.dispatch.shared import SharedDispatcher
from readonly_engine.broker.dispatch.single_active import SingleActiveDispatcher
from readonly_engine.wire.commands import NO_EPOCH
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe, KeySharedMode

if TYPE_CHECKING:
    from readonly_engine.broker.dispatch.consumer_state import Dispatcher
    from readonly_engine.broker.dispatch.cursor import CursorReplica
    from readonly_engine.topic.chain import LedgerChain

MULTIPLE = frozenset({CommandSubscribe.Shared, CommandSubscribe.Key_Shared})
"""Types whose messages are acked one by one, and may have many consumers at work."""


@dataclass(frozen=True, slots=True)
class DispatchSettings:
    """What the owner's configuration and policies say of a topic; the defaults are a stock broker's.

    Attributes:
        limits: how many messages may be unacked.
        delayed: whether messages wait for their time (delayedDeliveryEnabled).
        batch_acks: whether acks of single messages of a batch count (acknowledgmentAtBatchIndexLevelEnabled).
    """

    limits: UnackedLimits = DEFAULT_LIMITS
    delayed: bool = True
    batch_acks: bool = False


def make_dispatcher(
    subscribe: CommandSubscribe, chain: LedgerChain, cursor: CursorReplica, settings: DispatchSettings
) -> Dispatcher:
    """A dispatcher for the subscription that a consumer, its first one, asks for."""
    if subscribe.sub_type not in MULTIPLE:
        return SingleActiveDispatcher(chain, cursor, elected=subscribe.sub_type == CommandSubscribe.Failover)
    # Consumers of subscriptions that are not durable are not blocked (Consumer.getMaxUnackedMessages).
    limits = settings.limits if subscribe.durable else settings.limits._replace(consumer=0)
    if subscribe.sub_type == CommandSubscribe.Shared:
        return SharedDispatcher(chain, cursor, limits, delayed=settings.delayed)
    meta = subscribe.key_shared_meta
    return KeySharedDispatcher(
        chain,
        cursor,
        limits,
        delayed=settings.delayed,
        sticky=meta.key_shared_mode == KeySharedMode.STICKY,
        any_order=meta.allow_out_of_order_delivery,
    )


def make_consumer_state(subscribe: CommandSubscribe, *, writable: bool) -> ConsumerState:
    """What a dispatcher must know of a consumer."""
    single = subscribe.sub_type not in MULTIPLE
    return ConsumerState(
        writable=writable,
        epoch=subscribe.consumer_epoch if single and subscribe.HasField("consumer_epoch") else NO_EPOCH,
        name=subscribe.consumer_name,
        priority=subscribe.priority_level,
        ranges=tuple((found.start, found.end) for found in subscribe.key_shared_meta.hash_ranges),
    )
