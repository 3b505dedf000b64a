"""Makes dispatchers and consumer states from SUBSCRIBE commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from readonly_engine.broker.dispatch.consumer_state import ConsumerState
from readonly_engine.broker.dispatch.key_shared import DEFAULT_LOOK_AHEAD, KeySharedDispatcher, LookAhead
from readonly_engine.broker.dispatch.multiple import DEFAULT_LIMITS, UnackedLimits
from readonly_engine.broker.dispatch.shared import SharedDispatcher
from readonly_engine.broker.dispatch.single_active import SingleActiveDispatcher
from readonly_engine.wire.commands import NO_EPOCH
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe, KeySharedMode

if TYPE_CHECKING:
    from readonly_engine.broker.dispatch.consumer_state import Dispatcher
    from readonly_engine.broker.dispatch.cursor import CursorReplica
    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.position import Position

MULTIPLE = frozenset({CommandSubscribe.Shared, CommandSubscribe.Key_Shared})
"""Subscription types with several active consumers, and with individual acks."""


@dataclass(frozen=True, slots=True)
class DispatchSettings:
    """Settings of a topic from the owner's configuration and policies. The defaults are those of a stock broker.

    Attributes:
        limits: limits of unacked messages.
        delayed: whether delayed delivery is enabled (delayedDeliveryEnabled).
        batch_acks: whether acks of single messages of a batch count (acknowledgmentAtBatchIndexLevelEnabled).
        look_ahead: limits of waiting entries of Key_Shared subscriptions.
    """

    limits: UnackedLimits = DEFAULT_LIMITS
    delayed: bool = True
    batch_acks: bool = False
    look_ahead: LookAhead = DEFAULT_LOOK_AHEAD


def make_dispatcher(
    subscribe: CommandSubscribe, chain: LedgerChain, cursor: CursorReplica, settings: DispatchSettings
) -> Dispatcher:
    """Make the dispatcher for the subscription of its first consumer's SUBSCRIBE."""
    if subscribe.sub_type not in MULTIPLE:
        return SingleActiveDispatcher(chain, cursor, elected=subscribe.sub_type == CommandSubscribe.Failover)
    limits = limits_of(settings, durable=subscribe.durable)
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
        look_ahead=settings.look_ahead,
    )


def limits_of(settings: DispatchSettings, *, durable: bool) -> UnackedLimits:
    """Return the limits of a subscription. A consumer of a non-durable one has none (Consumer.getMaxUnackedMessages)."""
    return settings.limits if durable else settings.limits._replace(consumer=0)


def apply_settings(dispatcher: Dispatcher, settings: DispatchSettings, *, durable: bool) -> bool:
    """Apply settings that have changed to a dispatcher; return whether it has such settings."""
    limits = limits_of(settings, durable=durable)
    if isinstance(dispatcher, KeySharedDispatcher):
        dispatcher.follow(limits, delayed=settings.delayed)
        dispatcher.look_ahead_by(settings.look_ahead)
    elif isinstance(dispatcher, SharedDispatcher):
        dispatcher.follow(limits, delayed=settings.delayed)
    else:
        return False
    return True


_NONE_PENDING: Final[dict[Position, int]] = {}
"""That of all consumers of Exclusive and Failover, whose dispatcher tracks no entries."""


def make_consumer_state(subscribe: CommandSubscribe, *, writable: bool, name: str | None = None) -> ConsumerState:
    """Make the state of a new consumer for its dispatcher.

    Args:
        subscribe: its SUBSCRIBE.
        writable: whether the write buffer of its client is below its limit.
        name: its name, to share the text; None for that in the SUBSCRIBE.
    """
    single = subscribe.sub_type not in MULTIPLE
    ranges = subscribe.key_shared_meta.hash_ranges if subscribe.HasField("key_shared_meta") else ()
    return ConsumerState(
        writable=writable,
        epoch=subscribe.consumer_epoch if single and subscribe.HasField("consumer_epoch") else NO_EPOCH,
        name=subscribe.consumer_name if name is None else name,
        priority=subscribe.priority_level,
        ranges=tuple([(found.start, found.end) for found in ranges]) if ranges else (),
        pending=_NONE_PENDING if single else {},
    )
