"""Effect of an ack on the copy of the cursor and on the pending entries of consumers (Consumer.messageAcked)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from readonly_engine.broker.dispatch.cursor import before_entry
from readonly_engine.broker.dispatch.make import MULTIPLE
from readonly_engine.topic.position import Position
from readonly_engine.wire.bit_set import ack_set_bits
from readonly_engine.wire.pulsar_pb2 import CommandAck

if TYPE_CHECKING:
    from readonly_engine.broker.dispatch.consumer_state import ConsumerState, Dispatcher
    from readonly_engine.broker.dispatch.cursor import CursorReplica
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe


class AckEffect(NamedTuple):
    """Effect of an ack.

    Attributes:
        unblocked: whether entries that waited can be delivered now.
        completed: batches that are acked completely now, after acks of single messages.
    """

    unblocked: bool
    completed: list[Position]


def without_unknown_entries(ack: CommandAck, cursor: CursorReplica) -> CommandAck:
    """Return a client's ack without the entries that the owner ignores (CursorReplica.accepts_ack)."""
    cumulative = ack.ack_type == CommandAck.Cumulative
    accepted = CommandAck()
    accepted.CopyFrom(ack)
    del accepted.message_id[:]
    accepted.message_id.extend(
        message_id
        for message_id in ack.message_id
        if cursor.accepts_ack(Position(message_id.ledger_id, message_id.entry_id), cumulative=cumulative)
    )
    return accepted


def apply_ack(
    ack: CommandAck,
    kind: CommandSubscribe.SubType,
    cursor: CursorReplica,
    dispatcher: Dispatcher,
    by: ConsumerState | None,
    *,
    batch_acks: bool,
    from_client: bool = True,
) -> AckEffect:
    """Apply an ack without a transaction.

    Args:
        ack: the ack.
        kind: the subscription's type. Shared and Key_Shared ignore cumulative acks.
        cursor: the copy of the cursor.
        dispatcher: the dispatcher, with the pending entries.
        by: the consumer that acks; None if unknown.
        batch_acks: whether the owner counts acks of single messages of a batch. If not, an entry stays unacked until all its
            messages are acked; clients wait for that.
        from_client: whether the ack comes from a client, so that the owner may ignore it. Otherwise it comes from the owner's
            log, which may be ahead of the chain.
    """
    unblocked = False
    completed: list[Position] = []
    cumulative = ack.ack_type == CommandAck.Cumulative
    if cumulative and kind in MULTIPLE:
        return AckEffect(unblocked, completed)
    for message_id in ack.message_id:
        position = Position(message_id.ledger_id, message_id.entry_id)
        if from_client and not cursor.accepts_ack(position, cumulative=cumulative):
            continue
        if not message_id.ack_set:
            if cumulative:
                cursor.ack_cumulative(position)
            else:
                cursor.ack(position)
                unblocked |= dispatcher.acked(position, by)
            continue
        if not batch_acks:
            if cumulative:
                cursor.ack_cumulative(before_entry(position))
            continue
        unacked = ack_set_bits(message_id.ack_set)
        if cumulative:
            cursor.ack_cumulative_partially(position, unacked)
        elif not cursor.is_acked(position):
            left = cursor.ack_partially(position, unacked)
            if left:
                unblocked |= dispatcher.acked_partially(position, left.bit_count(), by)
            else:
                unblocked |= dispatcher.acked(position, by)
                completed.append(position)
    return AckEffect(unblocked, completed)
