"""How a subscription's copy of the cursor is kept with the owner's, which is the truth.

An owner confirms acks before it stores them, and loses the last ones when it dies. An unload closes the consumers, then stores
the cursors (ManagedCursorImpl.asyncClose). A reset closes the consumers first, too. So acks that the owner had answered are sent
again after its death only: else they would undo a reset.

A non-durable cursor is in its owner's memory only: there the copy is the truth, and a new owner is told where to go on.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from readonly_engine.metadata.errors import MetadataError
from readonly_engine.owner.errors import OwnerUnavailableError, RelayError
from readonly_engine.topic.position import EARLIEST, Position, PositionRanges
from readonly_engine.wire.pulsar_pb2 import CommandAck

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from readonly_engine.broker.dispatch.cursor import CursorReplica
    from readonly_engine.broker.subscription.pending_acks import PendingAckSource
    from readonly_engine.owner.consumer import OwnerConsumer
    from readonly_engine.owner.consumer_events import OwnerCursorState
    from readonly_engine.owner.grouped_acks import GroupedAckSender
    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.view import TopicView
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

log = logging.getLogger(__name__)

BACKOFF_S = (0.1, 5.0)

MAX_ATTEMPTS = 6

NO_ENTRY = -1

MAX_ACKS_PER_COMMAND = 1000


class OwnerCursorRanges(NamedTuple):
    """A cursor as its owner has it now.

    Attributes:
        acked: ranges (lower, upper].
        not_persisted: whether the owner has stored nothing of it since it has loaded the topic.
    """

    acked: list[tuple[Position, Position]]
    not_persisted: bool


class ResumeContext(NamedTuple):
    """What is known of a subscription that is at the owner again.

    Attributes:
        state: what the owner says now, before any ack is sent to it.
        newest_ledger: the topic's last ledger before the owner moved.
        unanswered: the acks that are under way, each with the position up to which the owner is known to have had all as acked.
        possibly_lost: the same of acks that the owner had answered shortly before the connection to it broke.
        closed_by_owner: whether it has closed a consumer meanwhile.
        resumed_at: after which position the consumer has asked to go on, of a non-durable subscription.
    """

    state: OwnerCursorState
    newest_ledger: int
    unanswered: list[tuple[Position, CommandAck]]
    possibly_lost: list[tuple[Position, CommandAck]]
    closed_by_owner: bool
    resumed_at: Position | None

    @classmethod
    def of(
        cls,
        owner_mark_delete: Position,
        state: OwnerCursorState,
        newest_ledger: int,
        owner_consumer: OwnerConsumer,
        consumers: Sequence[OwnerConsumer],
        grouped_acks: GroupedAckSender | None,
    ) -> ResumeContext:
        """What is known of a subscription; `told` is up to where the owner had said before that all is acked."""
        answered = (one.confirmed_up_to for one in consumers)
        confirmed = max([owner_mark_delete, *(position for position in answered if position is not None)])
        unanswered = [(confirmed, ack) for one in consumers for ack in one.unanswered]
        lost = [(before or owner_mark_delete, ack) for one in consumers for before, ack in one.possibly_lost]
        if grouped_acks is not None:
            unanswered.append((confirmed, grouped_acks.unanswered))
            if owner_consumer.lost_at is not None:
                lost += [(confirmed, ack) for ack in grouped_acks.possibly_lost(owner_consumer.lost_at)]
        closed_by_owner = any(one.closed_by_owner for one in consumers)
        return cls(state, newest_ledger, unanswered, lost, closed_by_owner, owner_consumer.resumed_at)


class CursorQueries(Protocol):
    """Asks the owner, and the pool, about one subscription."""

    async def state(self, owner_consumer: OwnerConsumer) -> OwnerCursorState:
        """Where the owner says that the subscription stands, asked through one of its consumers."""

    async def acked(self) -> list[tuple[Position, Position]]:
        """What is acked at the owner: ranges (lower, upper]."""

    async def cursor(self) -> OwnerCursorRanges:
        """As `acked`, and whether the owner has stored the cursor since it has loaded the topic."""

    async def batches(self) -> list[tuple[Position, int]]:
        """Batches that other brokers of the pool know to be acked in part, with the bits of the messages that are not."""

    def pending_ack_source(self) -> PendingAckSource:
        """Where the owner's log of acks in transactions is found."""


class CursorSync:
    """Follows the owner's cursor.

    Args:
        name: of the subscription, for messages.
        view: what the subscription reads.
        cursor: the copy.
        queries: how to ask.
        on_last_entry: called when the owner has said where topic and subscription stand.
        on_moved: called when the copy has followed the owner's cursor.
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

    async def catch_up(self, owner_consumer: OwnerConsumer) -> OwnerCursorState:
        """Bring the copy to where the owner's cursor stands now, however long the owner takes to say so.

        Args:
            owner_consumer: through whom to ask.
        """
        return await self._catch_up_through(lambda: owner_consumer)

    async def refresh(self, owner_consumers: Callable[[], Iterable[OwnerConsumer]]) -> OwnerCursorState:
        """Bring the copy to where the owner's cursor stands now, however long the owner takes to say so.

        Args:
            owner_consumers: through whom to ask: any of these that is at the owner by then.
        """
        return await self._catch_up_through(lambda: _first_subscribed(owner_consumers()))

    async def _catch_up_through(self, choose: Callable[[], OwnerConsumer]) -> OwnerCursorState:
        pause = BACKOFF_S[0]
        while True:
            try:
                state = await self._queries.state(choose())
                acked = await self._queries.acked()
                batches = await self._queries.batches()
            except RelayError as error:
                log.info("%s: %s; trying again in %.1f s", self._name, error, pause)
                await asyncio.sleep(pause)
                pause = min(2 * pause, BACKOFF_S[1])
            else:
                break
        self._on_last_entry(state.last)
        if state.mark_delete is not None and self._view.chain.says_acked(state.mark_delete):
            self._cursor.ack_cumulative(state.mark_delete)
            self._cursor.owner_mark_delete = max(self._cursor.owner_mark_delete, state.mark_delete)
        self._cursor.load_acked_ranges(acked)
        self._cursor.load_batches(batches)
        return state

    async def can_resume(
        self,
        owner_consumer: OwnerConsumer,
        observed_at: float,
        state: OwnerCursorState,
        newest_ledger: int,
        consumers: Sequence[OwnerConsumer],
        grouped_acks: GroupedAckSender | None,
    ) -> bool:
        """Compare with the owner's cursor after it came back.

        Args:
            owner_consumer: the consumer that is back.
            observed_at: when the owner has said where it stands (time.monotonic).
            state: what it has said.
            newest_ledger: the topic's last ledger before the owner moved.
            consumers: those of the subscription.
            grouped_acks: the acks that they send together.

        Returns:
            Whether the copy can go on. After a reset it cannot: the consumers must subscribe again, as they would at the owner.
        """
        async with self._comparing:
            if observed_at < self._compared_at:
                return True  # through another consumer that is back at the owner, later than this one
            context = ResumeContext.of(
                self._cursor.owner_mark_delete, state, newest_ledger, owner_consumer, consumers, grouped_acks
            )
            self._on_last_entry(state.last)
            if context.resumed_at is None:
                resumable = await self._compare(owner_consumer, context, consumers)
            else:
                resumable = await self._compare_non_durable(context, context.resumed_at)
            self._compared_at = time.monotonic()
            return resumable

    def ack(self, owner_consumer: OwnerConsumer, positions: list[Position]) -> None:
        """Ack entries, which are acked here, at the owner."""
        for start in range(0, len(positions), MAX_ACKS_PER_COMMAND):
            ack = CommandAck(ack_type=CommandAck.Individual)
            for position in positions[start : start + MAX_ACKS_PER_COMMAND]:
                ack.message_id.add(ledger_id=position.ledger_id, entry_id=position.entry_id)
            owner_consumer.ack(ack)

    async def _compare_non_durable(self, context: ResumeContext, resumed_at: Position) -> bool:
        """The copy is the truth, unless the owner has kept the cursor: then an administrator has moved it."""
        chain, mark_delete = self._view.chain, context.state.mark_delete
        if mark_delete is None or not chain.says_acked(mark_delete):
            return True
        behind = chain.after(mark_delete) < chain.after(resumed_at)
        if not behind and chain.after(mark_delete) <= chain.after(self._cursor.mark_delete):
            return True
        try:
            await self._view.reload()
        except MetadataError as error:
            log.warning("%s: %s; the cursor is taken for the one before", self._name, error)
            return True
        if chain.newest_ledger > context.newest_ledger:
            return True
        if not behind and follow_owner(self._cursor, chain, context.state):
            self._on_moved(context.state)
        return not behind

    async def _compare(
        self, owner_consumer: OwnerConsumer, context: ResumeContext, consumers: Sequence[OwnerConsumer]
    ) -> bool:
        state, cursor = context.state, self._cursor
        if state.mark_delete is None:
            return True
        if follow_owner(cursor, self._view.chain, state):
            self._on_moved(state)
        missing = self._missing(context)  # before anything is awaited: what is acked meanwhile is under way too
        if not self._any(missing) and not cursor.batches:
            return True  # the owner lacks what is under way, and nothing else
        at_owner = await self._cursor_at_owner()
        if at_owner is None:
            return False
        known = PositionRanges()
        known.add_ranges(at_owner.acked)
        missing = missing.without(known)
        anew = self._view.chain.newest_ledger > context.newest_ledger
        if not anew and cursor.batches:
            # The owner tells nobody what is acked of a batch; a reset forward would show nowhere else.
            return False
        if not self._any(missing):
            return True
        # After it has closed its consumers an owner stores the cursor, or resets it. One that dies loses acks of its last
        # seconds, and the next owner stores nothing of the cursor before somebody acks or resets it.
        lost = not context.closed_by_owner and anew and at_owner.not_persisted
        if not lost or self._any(missing.without(_covered(context.possibly_lost))):
            log.info("%s: the owner's cursor is not the one from before: it was reset, or has lost acks", self._name)
            return False
        log.info("%s: %d acks that the owner has lost are sent again", self._name, len(context.possibly_lost))
        cursor.owner_mark_delete = state.mark_delete
        for one in consumers:
            one.forget_answers()
        for _, ack in context.possibly_lost:
            owner_consumer.ack(ack)
        return True

    def _missing(self, context: ResumeContext) -> PositionRanges:
        """What is acked here behind the owner's mark-delete position and not under way to it."""
        assert context.state.mark_delete is not None
        acked = self._cursor.acked_beyond(context.state.mark_delete)
        return acked.without(_covered(context.unanswered))

    def _any(self, ranges: PositionRanges) -> bool:
        """Whether there are entries in ranges; they may reach over the ends of ledgers."""
        return any(self._view.chain.any_readable(lower, upper) for lower, upper in ranges)

    async def _cursor_at_owner(self) -> OwnerCursorRanges | None:
        """The cursor as the owner has it; the topic's ledgers are known anew. None if nobody tells.

        An owner that has just come back may be slow to tell.
        """
        pause = BACKOFF_S[0]
        for _ in range(MAX_ATTEMPTS):
            try:
                known = await self._queries.cursor()
                await self._view.reload()
            except (RelayError, MetadataError) as error:
                log.warning("%s: %s; trying again in %.1f s", self._name, error, pause)
                await asyncio.sleep(pause)
                pause *= 2
            else:
                return known
        return None


def start_position(subscribe: CommandSubscribe, state: OwnerCursorState) -> Position:
    """Up to where all is acked when a subscription begins here."""
    start = state.mark_delete or state.last
    if not subscribe.read_compacted or (subscribe.durable and start.entry_id != NO_ENTRY):
        return start
    # The ledgers of the first compacted entries may be gone, and the owner's cursor stands before those that are left
    # (PersistentDispatcherSingleActiveConsumer.readMoreEntries, Consumer).
    first = subscribe.start_message_id
    earliest = not subscribe.HasField("start_message_id") or (first.ledger_id, first.entry_id) == EARLIEST
    return EARLIEST if earliest else start


def follow_owner(cursor: CursorReplica, chain: LedgerChain, state: OwnerCursorState) -> bool:
    """Have the copy follow the owner's cursor where that is ahead. Returns whether it is ahead, or as far."""
    if state.mark_delete is None or not chain.says_acked(state.mark_delete):
        return False
    # The owner may name the start of a ledger for the end of the one before: compare what comes next.
    if chain.after(state.mark_delete) < chain.after(cursor.mark_delete):
        return False
    cursor.ack_cumulative(state.mark_delete)
    cursor.owner_mark_delete = max(cursor.owner_mark_delete, state.mark_delete)
    return True


def _first_subscribed(owner_consumers: Iterable[OwnerConsumer]) -> OwnerConsumer:
    for one in owner_consumers:
        if one.subscribed:
            return one
    raise OwnerUnavailableError("no consumer of the subscription is at the owner")


def _covered(acks: Iterable[tuple[Position, CommandAck]]) -> PositionRanges:
    """The entries that acks are of, each as a whole.

    Args:
        acks: each with the position up to which all was acked before: a cumulative ack is not the reason.
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
