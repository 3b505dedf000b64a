"""Acks that an owner has answered, and ignored.

An owner's BookKeeper client counts an entry as confirmed, and tells the bookies, before the managed ledger does so in another
thread (OpAddEntry.addComplete and run). A cursor ignores acks of entries after the managed ledger's end, and the answer does not
say so (ManagedCursorImpl.asyncDelete, Consumer.individualAckNormal). A stock broker delivers no such entry. A read-only broker
reads the bookies, so under load a fast client can ack an entry before its owner counts it. The ack would be lost: the message
comes again after a restart, and its ledger is kept until then (measured on 4.0.8, with that thread stopped).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.broker.subscription.resume_context import covered, unanswered_acks
from readonly_engine.topic.position import Position, PositionRanges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_engine.broker.dispatch.cursor import CursorReplica
    from readonly_engine.broker.subscription.cursor_queries import CursorQueries
    from readonly_engine.owner.consumer_events import OwnerCursorState
    from readonly_engine.owner.cursor_consumer import CursorConsumer
    from readonly_engine.owner.grouped_acks import GroupedAckSender
    from readonly_engine.topic.chain import LedgerChain

MAX_POSITIONS: Final = 10_000
"""Number of acks that one check sends again; the next check finds the others."""


class SentAcks(NamedTuple):
    """The acks of a subscription at one moment.

    Attributes:
        mark_delete: mark-delete position of the copy of the cursor.
        unanswered: ranges of the acks that the owner has not answered.
    """

    mark_delete: Position
    unanswered: PositionRanges

    @classmethod
    def of(
        cls, cursor: CursorReplica, consumers: Sequence[CursorConsumer], grouped_acks: GroupedAckSender | None
    ) -> SentAcks:
        """Return the acks of now."""
        unanswered = unanswered_acks(cursor.owner_mark_delete, consumers, grouped_acks)
        return cls(cursor.mark_delete, covered(unanswered))


async def find_ignored_acks(
    sent: SentAcks, state: OwnerCursorState, cursor: CursorReplica, chain: LedgerChain, queries: CursorQueries
) -> list[Position]:
    """Return entries whose acks the owner has answered and ignored, in order, at most MAX_POSITIONS.

    An ack after an unacked entry is checked when the mark-delete position of the copy has passed it.

    Args:
        sent: acks before the request for `state`. Those that were answered by then are in force at the owner, or were ignored.
        state: the owner's answer.
        cursor: the copy of the cursor. Its `owner_mark_delete` becomes `sent.mark_delete` if no ack is missing.
        chain: the topic's ledgers.
        queries: questions to the owner.

    Raises:
        RelayError: the owner's cursor cannot be read.
    """
    if state.mark_delete is None or not chain.covers_acks(state.mark_delete):
        return []
    cursor.owner_mark_delete = max(cursor.owner_mark_delete, state.mark_delete)
    behind = PositionRanges()
    behind.add_ranges([(state.mark_delete, sent.mark_delete)])
    if not positions_in(behind.without(sent.unanswered), chain, 1):
        if not positions_in(behind, chain, 1):
            cursor.owner_mark_delete = max(cursor.owner_mark_delete, sent.mark_delete)
        return []
    at_owner = PositionRanges()
    at_owner.add_ranges((await queries.cursor()).acked)
    missing = positions_in(behind.without(sent.unanswered).without(at_owner), chain, MAX_POSITIONS)
    if not missing and not sent.unanswered:
        cursor.owner_mark_delete = max(cursor.owner_mark_delete, sent.mark_delete)
    return missing


async def ignored_of(acked: PositionRanges, chain: LedgerChain, queries: CursorQueries) -> list[Position]:
    """Return acked entries that the owner's cursor does not have, in order, at most MAX_POSITIONS.

    Args:
        acked: ranges whose acks the owner has answered.
        chain: the topic's ledgers.
        queries: questions to the owner.

    Raises:
        RelayError: the owner's cursor cannot be read.
    """
    at_owner = PositionRanges()
    at_owner.add_ranges((await queries.cursor()).acked)
    return positions_in(acked.without(at_owner), chain, MAX_POSITIONS)


def positions_in(ranges: PositionRanges, chain: LedgerChain, limit: int) -> list[Position]:
    """Return the first readable positions of ranges, at most `limit`."""
    found: list[Position] = []
    for lower, upper in ranges:
        position = chain.after(lower)
        while len(found) < limit and position <= upper and chain.readable(position):
            found.append(position)
            position = chain.after(position)
    return found
