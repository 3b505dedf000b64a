"""How a subscription's copy of the cursor is kept with the owner's, which is the truth.

An owner confirms acks before they are stored, and loses the last ones when the topic is unloaded or the owner dies: they are
acked again. A topic that was loaded anew has a new ledger (ManagedLedgerImpl). Without one the cursor was reset.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Protocol

from readonly_engine.metadata.errors import MetadataError
from readonly_engine.relay.errors import OwnerUnavailableError, RelayError
from readonly_engine.topic.position import EARLIEST, Position, PositionRanges
from readonly_engine.wire.pulsar_pb2 import CommandAck

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from readonly_engine.broker.cursor import CursorCopy
    from readonly_engine.broker.txn_acks import TxnAckSource
    from readonly_engine.relay.consumer import OwnerState, RelayedConsumer
    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.view import TopicView
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

log = logging.getLogger(__name__)

NO_ENTRY = -1

BACKOFF_S = (0.1, 5.0)

ASKED_TIMES = 6

MOST_ACKED_AGAIN = 1_000_000
"""An owner stores its cursors every second (managedLedgerDefaultMarkDeleteRateLimit): it cannot have lost more."""

ACKS_A_COMMAND = 1000


class Questions(Protocol):
    """What the owner, and the pool, can be asked of a subscription."""

    async def state(self, relayed: RelayedConsumer) -> OwnerState:
        """Where the owner says that the subscription stands, asked through one of its consumers."""

    async def acked(self) -> list[tuple[Position, Position]]:
        """What is acked at the owner: ranges (lower, upper]."""

    async def batches(self) -> list[tuple[Position, int]]:
        """Batches that other brokers of the pool know to be acked in part, with the bits of the messages that are not."""

    def txn_ack_source(self) -> TxnAckSource:
        """Where the owner's log of acks in transactions is found."""


class OwnerCursor:
    """Follows the owner's cursor.

    Args:
        name: of the subscription, for messages.
        view: what the subscription reads.
        cursor: the copy.
        questions: how to ask.
        told: called when the owner has said where topic and subscription stand.
        moved: called when the copy has followed the owner's cursor.
    """

    __slots__ = ("_compared_at", "_comparing", "_cursor", "_moved", "_name", "_questions", "_told", "_view")

    def __init__(
        self,
        name: str,
        view: TopicView,
        cursor: CursorCopy,
        questions: Questions,
        told: Callable[[Position], None],
        moved: Callable[[OwnerState], None],
    ) -> None:
        self._name = name
        self._view = view
        self._cursor = cursor
        self._questions = questions
        self._told = told
        self._moved = moved
        self._compared_at = 0.0
        self._comparing = asyncio.Lock()

    async def take_over(self, relayed: RelayedConsumer) -> OwnerState:
        """Bring the copy to where the owner's cursor stands now, however long the owner takes to say so.

        Args:
            relayed: through whom to ask.
        """
        return await self._catch_up(lambda: relayed)

    async def refresh(self, relayed: Callable[[], Iterable[RelayedConsumer]]) -> OwnerState:
        """Bring the copy to where the owner's cursor stands now, however long the owner takes to say so.

        Args:
            relayed: through whom to ask: any of these that is at the owner by then.
        """
        return await self._catch_up(lambda: _attached(relayed()))

    async def _catch_up(self, choose: Callable[[], RelayedConsumer]) -> OwnerState:
        pause = BACKOFF_S[0]
        while True:
            try:
                state = await self._questions.state(choose())
                acked = await self._questions.acked()
                batches = await self._questions.batches()
            except RelayError as error:
                log.info("%s: %s; trying again in %.1f s", self._name, error, pause)
                await asyncio.sleep(pause)
                pause = min(2 * pause, BACKOFF_S[1])
            else:
                break
        self._told(state.last)
        if state.mark_delete is not None:
            self._cursor.ack_up_to(state.mark_delete)
        self._cursor.load_holes(acked)
        self._cursor.load_batches(batches)
        return state

    async def goes_on(
        self,
        relayed: RelayedConsumer,
        state: OwnerState,
        newest_ledger: int,
        unanswered: Callable[[], Iterable[CommandAck]],
    ) -> bool:
        """Compare with the owner's cursor after it came back.

        Args:
            relayed: through whom to ack; its own acks that were under way have been sent again.
            state: what the owner says now.
            newest_ledger: the topic's last ledger before the owner moved.
            unanswered: the acks that are under way.

        Returns:
            Whether the copy can go on. After a reset it cannot: the consumers must subscribe again, as they would at the owner.
        """
        begun = time.monotonic()
        async with self._comparing:
            if begun < self._compared_at:
                return True  # through another consumer that is back at the owner, later than this one
            self._compared_at = time.monotonic()
            return await self._compare(relayed, state, newest_ledger, unanswered)

    def ack(self, relayed: RelayedConsumer, positions: list[Position]) -> None:
        """Ack entries, which are acked here, at the owner."""
        for start in range(0, len(positions), ACKS_A_COMMAND):
            ack = CommandAck(ack_type=CommandAck.Individual)
            for position in positions[start : start + ACKS_A_COMMAND]:
                ack.message_id.add(ledger_id=position.ledger_id, entry_id=position.entry_id)
            relayed.ack(ack)

    async def _compare(
        self,
        relayed: RelayedConsumer,
        state: OwnerState,
        newest_ledger: int,
        unanswered: Callable[[], Iterable[CommandAck]],
    ) -> bool:
        self._told(state.last)
        if state.mark_delete is None:
            return True
        if follow(self._cursor, self._view.chain, state):
            self._moved(state)
            if not self._cursor.has_holes and not self._cursor.batches:
                return True
        again = self._cursor.acked_after(state.mark_delete, MOST_ACKED_AGAIN)
        known = await self._acked_at_owner()
        if known is None:
            return False
        for ack in unanswered():
            _add_acked(known, ack)
        again = [position for position in again if position not in known]
        anew = self._view.chain.newest_ledger > newest_ledger
        if not anew and self._cursor.batches:
            # The owner tells nobody what is acked of a batch; a reset forward would show nowhere else.
            return False
        if not again:
            return True
        if not anew:
            return False
        log.info("%s: %d acks that the owner has lost are sent again", self._name, len(again))
        self.ack(relayed, again)
        return True

    async def _acked_at_owner(self) -> PositionRanges | None:
        """What is acked at the owner; the topic's ledgers are known anew. None if nobody tells.

        An owner that has just come back may be slow to tell.
        """
        pause = BACKOFF_S[0]
        for _ in range(ASKED_TIMES):
            known = PositionRanges()
            try:
                for lower, upper in await self._questions.acked():
                    known.add_range(lower, upper)
                await self._view.reload()
            except (RelayError, MetadataError) as error:
                log.warning("%s: %s; trying again in %.1f s", self._name, error, pause)
                await asyncio.sleep(pause)
                pause *= 2
            else:
                return known
        return None


def follow(cursor: CursorCopy, chain: LedgerChain, state: OwnerState) -> bool:
    """Have the copy follow the owner's cursor where that is ahead. Returns whether it is ahead, or as far."""
    # The owner may name the start of a ledger for the end of the one before: compare what comes next.
    if state.mark_delete is None or chain.after(state.mark_delete) < chain.after(cursor.mark_delete):
        return False
    cursor.ack_up_to(state.mark_delete)
    return True


def _attached(relayed: Iterable[RelayedConsumer]) -> RelayedConsumer:
    for one in relayed:
        if one.attached:
            return one
    raise OwnerUnavailableError("no consumer of the subscription is at the owner")


def start_of(subscribe: CommandSubscribe, state: OwnerState) -> Position:
    """Up to where all is acked when a subscription begins here."""
    start = state.mark_delete or state.last
    if not subscribe.read_compacted or (subscribe.durable and start.entry_id != NO_ENTRY):
        return start
    # The ledgers of the first compacted entries may be gone, and the owner's cursor stands before those that are left
    # (PersistentDispatcherSingleActiveConsumer.readMoreEntries, Consumer).
    first = subscribe.start_message_id
    earliest = not subscribe.HasField("start_message_id") or (first.ledger_id, first.entry_id) == EARLIEST
    return EARLIEST if earliest else start


def _add_acked(known: PositionRanges, ack: CommandAck) -> None:
    """Add what an ack covers."""
    for message_id in ack.message_id:
        position = Position(message_id.ledger_id, message_id.entry_id)
        if ack.ack_type == CommandAck.Cumulative:
            known.add_range(EARLIEST, position)
        else:
            known.add(position)
