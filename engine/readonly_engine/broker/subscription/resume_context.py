"""Acks that an owner has not answered, or may have lost, when a subscription is subscribed on the owner again. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from readonly_engine.topic.position import Position, PositionRanges
from readonly_engine.wire.pulsar_pb2 import CommandAck

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from readonly_engine.owner.consumer_events import OwnerCursorState
    from readonly_engine.owner.cursor_consumer import CursorConsumer
    from readonly_engine.owner.grouped_acks import GroupedAckSender


class ResumeContext(NamedTuple):
    """State of a subscription that was subscribed on the owner again.

    Attributes:
        state: the owner's answer, before any ack is sent to it.
        newest_ledger: last ledger of the topic before the owner moved.
        unanswered: the unanswered acks, each with a position up to which the owner had all entries as acked.
        possibly_lost: the same for acks that the owner answered shortly before the connection broke.
        closed_by_owner: whether the owner has closed a consumer meanwhile.
        resumed_at: position after which the consumer has asked to continue; None for a durable subscription.
        compared_elsewhere: whether another broker of the pool compares the whole cursor. Then only acks of this one count.
    """

    state: OwnerCursorState
    newest_ledger: int
    unanswered: list[tuple[Position, CommandAck]]
    possibly_lost: list[tuple[Position, CommandAck]]
    closed_by_owner: bool
    resumed_at: Position | None
    compared_elsewhere: bool = False

    @classmethod
    def of(
        cls,
        owner_mark_delete: Position,
        state: OwnerCursorState,
        newest_ledger: int,
        owner_consumer: CursorConsumer,
        consumers: Sequence[CursorConsumer],
        grouped_acks: GroupedAckSender | None,
    ) -> ResumeContext:
        """Collect the state of a subscription. `owner_mark_delete` is the owner's last known mark-delete position."""
        confirmed = _confirmed_up_to(owner_mark_delete, consumers)
        unanswered = unanswered_acks(owner_mark_delete, consumers, grouped_acks)
        lost = [(before or owner_mark_delete, ack) for one in consumers for before, ack in one.possibly_lost]
        if grouped_acks is not None and owner_consumer.lost_at is not None:
            lost += [(confirmed, ack) for ack in grouped_acks.possibly_lost(owner_consumer.lost_at)]
        closed_by_owner = any(one.closed_by_owner for one in consumers)
        return cls(state, newest_ledger, unanswered, lost, closed_by_owner, owner_consumer.resumed_at)


def unanswered_acks(
    owner_mark_delete: Position, consumers: Iterable[CursorConsumer], grouped_acks: GroupedAckSender | None
) -> list[tuple[Position, CommandAck]]:
    """Return the acks that the owner has not answered, each with a position up to which it had answered all acks.

    Args:
        owner_mark_delete: the owner's last known mark-delete position.
        consumers: all consumers of the subscription.
        grouped_acks: their grouped acks; None if acks are not grouped.
    """
    consumers = list(consumers)
    confirmed = _confirmed_up_to(owner_mark_delete, consumers)
    unanswered = [(confirmed, ack) for one in consumers for ack in one.unanswered]
    if grouped_acks is not None:
        unanswered.append((confirmed, grouped_acks.unanswered))
    return unanswered


def _confirmed_up_to(owner_mark_delete: Position, consumers: Iterable[CursorConsumer]) -> Position:
    answered = (one.confirmed_up_to for one in consumers)
    return max([owner_mark_delete, *(position for position in answered if position is not None)])


def covered(acks: Iterable[tuple[Position, CommandAck]]) -> PositionRanges:
    """Return the ranges of complete entries that acks cover.

    Args:
        acks: acks, each with a position up to which all entries were acked before. A cumulative ack covers only later entries.
    """
    covered = PositionRanges()
    covered.add_ranges(
        (
            confirmed
            if ack.ack_type == CommandAck.Cumulative
            else Position(message_id.ledger_id, message_id.entry_id - 1),
            upper,
        )
        for confirmed, ack in acks
        for message_id in ack.message_id
        for upper in (Position(message_id.ledger_id, message_id.entry_id - bool(message_id.ack_set)),)
    )
    return covered
