"""Synchronization of a subscription's copy of the cursor with the owner's cursor, which is authoritative.

An owner confirms acks before it stores them, and loses the last ones when it dies. An unload closes the consumers, then stores
the cursors (ManagedCursorImpl.asyncClose). A reset also closes the consumers first. So answered acks are sent again only after
the death of an owner. In other cases they could undo a reset.

A non-durable cursor exists only in its owner's memory. There the copy is authoritative, and the consumer sends its position to a
new owner.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.broker.subscription.resume_context import ResumeContext, covered
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.owner.errors import OwnerUnavailableError, RelayError
from readonly_engine.topic.position import EARLIEST, Position, PositionRanges
from readonly_engine.wire.pulsar_pb2 import CommandAck

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from readonly_engine.broker.dispatch.cursor import CursorReplica
    from readonly_engine.broker.subscription.cursor_queries import CursorQueries, OtherBrokers, OwnerCursorRanges
    from readonly_engine.owner.consumer_events import OwnerCursorState
    from readonly_engine.owner.cursor_consumer import CursorConsumer
    from readonly_engine.owner.grouped_acks import GroupedAckSender
    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.view import TopicView
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

log = logging.getLogger(__name__)

BACKOFF_S = (0.1, 5.0)

MAX_ATTEMPTS = 6

NO_ENTRY = -1

FIRST_ENTRY_TIMEOUT_S = 1.0

MAX_ACKS_PER_COMMAND = 1000


async def begins_with_batch(view: TopicView, state: OwnerCursorState) -> bool:
    """Return whether the first unacked entry is a batch; False if it cannot be read within FIRST_ENTRY_TIMEOUT_S."""
    if state.mark_delete is None:
        return False
    try:
        async with asyncio.timeout(FIRST_ENTRY_TIMEOUT_S):
            entries = await view.read(view.chain.after(state.mark_delete), 1)
    except (BookKeeperError, TimeoutError):
        return False
    return bool(entries) and entries[0].messages > 1


class CursorSync:
    """Keeps the copy of a cursor in sync with the owner's.

    Args:
        name: topic and subscription, as fields for logs.
        view: the topic, or its compacted view.
        cursor: the copy.
        queries: the questions to the owner.
        on_last_entry: called with the owner's last entry after each answer.
        on_moved: called after the copy has followed the owner's cursor.
    """

    __slots__ = ("_compared_at", "_comparing", "_cursor", "_name", "_on_last_entry", "_on_moved", "_queries", "_view")

    def __init__(
        self,
        name: str,
        view: TopicView,
        cursor: CursorReplica,
        queries: CursorQueries,
        on_last_entry: Callable[[Position], None],
        on_moved: Callable[[OwnerCursorState], None],
    ) -> None:
        self._name = name
        self._view = view
        self._cursor = cursor
        self._queries = queries
        self._on_last_entry = on_last_entry
        self._on_moved = on_moved
        self._compared_at = 0.0
        self._comparing = asyncio.Lock()

    async def catch_up(self, owner_consumer: CursorConsumer) -> OwnerCursorState:
        """Apply the owner's cursor to the copy. Retries until the owner answers.

        Args:
            owner_consumer: the consumer for the request.
        """
        return await self._catch_up_through(lambda: owner_consumer)

    async def refresh(self, owner_consumers: Callable[[], Iterable[CursorConsumer]]) -> OwnerCursorState:
        """Apply the owner's cursor to the copy. Retries until the owner answers.

        Args:
            owner_consumers: returns the consumers for the request; the first one on the owner is used.
        """
        return await self._catch_up_through(lambda: _first_subscribed(owner_consumers()))

    async def _catch_up_through(self, choose: Callable[[], CursorConsumer]) -> OwnerCursorState:
        pause = BACKOFF_S[0]
        while True:
            try:
                owner_consumer = choose()
                state = await self._queries.state(owner_consumer)
                acked = await self._queries.acked()
                behind = state.mark_delete is None or self._view.chain.after(state.mark_delete) <= state.last
                batches = (
                    await self._queries.batches(
                        owner_consumer, state.last, partial(begins_with_batch, self._view, state)
                    )
                    if behind
                    else []
                )
            except RelayError as error:
                log.info("cursor not read: %s retry_in=%.1fs error=%s", self._name, pause, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, BACKOFF_S[1])
            else:
                break
        self._on_last_entry(state.last)
        if state.mark_delete is not None and self._view.chain.covers_acks(state.mark_delete):
            self._cursor.ack_cumulative(state.mark_delete)
            self._cursor.owner_mark_delete = max(self._cursor.owner_mark_delete, state.mark_delete)
        self._cursor.load_acked_ranges(acked)
        self._cursor.load_batches(batches)
        return state

    async def can_resume(
        self,
        owner_consumer: CursorConsumer,
        observed_at: float,
        state: OwnerCursorState,
        newest_ledger: int,
        consumers: Sequence[CursorConsumer],
        grouped_acks: GroupedAckSender | None,
        other_brokers: OtherBrokers | None = None,
    ) -> bool:
        """Compare the copy with the owner's cursor after a consumer has subscribed again.

        Args:
            owner_consumer: the consumer.
            observed_at: time of the owner's answer (time.monotonic).
            state: the owner's answer.
            newest_ledger: last ledger of the topic before the owner moved.
            consumers: all consumers of the subscription.
            grouped_acks: their grouped acks; None if acks are not grouped.
            other_brokers: the other brokers that serve the subscription; None without any.

        Returns:
            Whether delivery can continue with the copy. After a reset the consumers must subscribe again, as on the owner.
        """
        async with self._comparing:
            if observed_at < self._compared_at:
                return True  # a later answer, through another consumer, was compared already
            context = ResumeContext.of(
                self._cursor.owner_mark_delete, state, newest_ledger, owner_consumer, consumers, grouped_acks
            )
            if other_brokers is not None:
                lost_at = owner_consumer.lost_at
                acks = [] if lost_at is None else ack_commands(other_brokers.possibly_lost(lost_at))
                context.possibly_lost.extend((self._cursor.owner_mark_delete, ack) for ack in acks)
                context = context._replace(compared_elsewhere=not other_brokers.compares_cursor)
            self._on_last_entry(state.last)
            if context.resumed_at is None:
                resumable = await self._compare(owner_consumer, context, consumers)
            else:
                resumable = await self._compare_non_durable(context, context.resumed_at)
            self._compared_at = time.monotonic()
            return resumable

    def ack(self, owner_consumer: CursorConsumer, positions: list[Position]) -> None:
        """Send acks of entries that are acked in the copy to the owner."""
        for ack in ack_commands(positions):
            owner_consumer.ack(ack)

    async def _compare_non_durable(self, context: ResumeContext, resumed_at: Position) -> bool:
        """Compare a non-durable cursor: the copy is authoritative, unless the owner has kept the cursor and has reset it."""
        chain, mark_delete = self._view.chain, context.state.mark_delete
        if mark_delete is None or not chain.covers_acks(mark_delete):
            return True
        behind = chain.after(mark_delete) < chain.after(resumed_at)
        if not behind and chain.after(mark_delete) <= chain.after(self._cursor.mark_delete):
            return True
        try:
            await self._view.reload()
        except MetadataError as error:
            log.warning("ledgers unknown, assuming the same cursor: %s error=%s", self._name, error)
            return True
        if chain.newest_ledger > context.newest_ledger:
            return True
        if not behind and follow_owner(self._cursor, chain, context.state):
            self._on_moved(context.state)
        return not behind

    async def _compare(
        self, owner_consumer: CursorConsumer, context: ResumeContext, consumers: Sequence[CursorConsumer]
    ) -> bool:
        state, cursor = context.state, self._cursor
        if state.mark_delete is None:
            return True
        if follow_owner(cursor, self._view.chain, state):
            self._on_moved(state)
        missing = self._missing(context)  # before the first await: later acks are on their way to the owner, too
        if context.compared_elsewhere:
            missing = missing.common(covered(context.possibly_lost))
        if not self._any(missing) and not cursor.batches:
            return True  # the owner lacks only unanswered acks
        at_owner = await self._cursor_at_owner()
        if at_owner is None:
            return False
        known = PositionRanges()
        known.add_ranges(at_owner.acked)
        missing = missing.without(known)
        anew = self._view.chain.newest_ledger > context.newest_ledger
        if not anew and cursor.batches:
            # The owner does not report acks of single messages, so a reset to a later position could not be detected.
            return False
        if not self._any(missing):
            return True
        # An owner that closes its consumers stores or resets the cursor then. An owner that dies loses the acks of its last
        # seconds, and the next owner does not store the cursor before an ack or a reset.
        lost = not context.closed_by_owner and anew and at_owner.not_persisted
        if not lost or self._any(missing.without(covered(context.possibly_lost))):
            log.info("owner's cursor was reset or has lost acks: %s", self._name)
            return False
        log.info("sending lost acks again: %s acks=%d", self._name, len(context.possibly_lost))
        cursor.owner_mark_delete = state.mark_delete
        for one in consumers:
            one.forget_answers()
        for _, ack in context.possibly_lost:
            owner_consumer.ack(ack)
        return True

    def _missing(self, context: ResumeContext) -> PositionRanges:
        """Return the acked ranges of the copy after the owner's mark-delete position, without unanswered acks."""
        assert context.state.mark_delete is not None
        acked = self._cursor.acked_beyond(context.state.mark_delete)
        return acked.without(covered(context.unanswered))

    def _any(self, ranges: PositionRanges) -> bool:
        """Return whether ranges contain entries. Ranges may exceed the ends of ledgers."""
        return any(self._view.chain.any_readable(lower, upper) for lower, upper in ranges)

    async def _cursor_at_owner(self) -> OwnerCursorRanges | None:
        """Return the owner's cursor, after a reload of the topic's ledgers; None after MAX_ATTEMPTS failures.

        An owner that has just loaded the topic may be slow to answer.
        """
        pause = BACKOFF_S[0]
        for _ in range(MAX_ATTEMPTS):
            try:
                known = await self._queries.cursor()
                await self._view.reload()
            except (RelayError, MetadataError) as error:
                log.warning("cursor not read: %s retry_in=%.1fs error=%s", self._name, pause, error)
                await asyncio.sleep(pause)
                pause *= 2
            else:
                return known
        return None


def ack_commands(positions: list[Position]) -> Iterator[CommandAck]:
    """Yield acks of entries, of at most MAX_ACKS_PER_COMMAND each."""
    for start in range(0, len(positions), MAX_ACKS_PER_COMMAND):
        ack = CommandAck(ack_type=CommandAck.Individual)
        for position in positions[start : start + MAX_ACKS_PER_COMMAND]:
            ack.message_id.add(ledger_id=position.ledger_id, entry_id=position.entry_id)
        yield ack


def start_position(subscribe: CommandSubscribe, state: OwnerCursorState) -> Position:
    """Return the initial mark-delete position of a subscription on this broker."""
    start = state.mark_delete or state.last
    if not subscribe.read_compacted or (subscribe.durable and start.entry_id != NO_ENTRY):
        return start
    # The ledgers of the first compacted entries may be deleted, and the owner's cursor is after them, before the remaining
    # ledgers (PersistentDispatcherSingleActiveConsumer.readMoreEntries, Consumer).
    first = subscribe.start_message_id
    earliest = not subscribe.HasField("start_message_id") or (first.ledger_id, first.entry_id) == EARLIEST
    return EARLIEST if earliest else start


def follow_owner(cursor: CursorReplica, chain: LedgerChain, state: OwnerCursorState) -> bool:
    """Move the copy to the owner's mark-delete position, unless the copy is ahead. Return whether the copy is not ahead."""
    if state.mark_delete is None or not chain.covers_acks(state.mark_delete):
        return False
    # The owner may use the start of a ledger for the end of the previous one, so compare the next positions.
    if chain.after(state.mark_delete) < chain.after(cursor.mark_delete):
        return False
    cursor.ack_cumulative(state.mark_delete)
    cursor.owner_mark_delete = max(cursor.owner_mark_delete, state.mark_delete)
    return True


def _first_subscribed(owner_consumers: Iterable[CursorConsumer]) -> CursorConsumer:
    for one in owner_consumers:
        if one.subscribed:
            return one
    raise OwnerUnavailableError("no consumer of the subscription is connected to the owner")
