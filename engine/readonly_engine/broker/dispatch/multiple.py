"""What Shared and Key_Shared have in common: who has what pending, how much of it, and what is delivered again."""

from __future__ import annotations

import sys
from bisect import insort_right
from typing import TYPE_CHECKING, NamedTuple

from readonly_engine.broker.dispatch.delayed import DelayedEntries
from readonly_engine.broker.dispatch.receiver import Delivery
from readonly_engine.topic.position import Position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_engine.broker.cursor import CursorCopy
    from readonly_engine.broker.dispatch.receiver import Receiver, Run
    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.entries import TopicEntry


class UnackedLimits(NamedTuple):
    """How many messages may be delivered and not acked; 0 for no limit.

    Attributes:
        consumer: of one consumer, which then gets nothing until it has acked half (maxUnackedMessagesPerConsumer).
        subscription: of all of them, which then get nothing new until half is acked (maxUnackedMessagesPerSubscription).
    """

    consumer: int = 50_000
    subscription: int = 200_000


DEFAULT_LIMITS = UnackedLimits()
"""A stock broker's (broker.conf)."""


class MultipleDispatcher:
    """Keeps the accounts of several consumers (PersistentDispatcherMultipleConsumers, Consumer, PendingAcksMap).

    Args:
        chain: the topic's ledgers.
        cursor: what is acked.
        limits: how much may be unacked.
        delayed: whether messages wait for their time; else they come at once.
    """

    def __init__(
        self, chain: LedgerChain, cursor: CursorCopy, limits: UnackedLimits = DEFAULT_LIMITS, *, delayed: bool = True
    ) -> None:
        self.receivers: list[Receiver] = []
        self._chain = chain
        self._cursor = cursor
        self._limits = limits
        self._most_of_consumer = limits.consumer or sys.maxsize
        self._most = limits.subscription or sys.maxsize
        self._delays = delayed
        self._delayed = DelayedEntries()
        self._next = cursor.first_unacked()
        self._redeliveries: dict[Position, int] = {}
        self._withheld: dict[Position, int] = {}  # with the slots of their keys
        self._unacked = 0
        self._blocked = False

    # For subclasses to say

    def _replay(self, position: Position, slot: int = 0) -> None:
        """Read an entry once more."""
        raise NotImplementedError

    def _forget_replays(self) -> None:
        """Read nothing once more."""
        raise NotImplementedError

    def _slot_of(self, position: Position) -> int:
        """The slot of a pending entry's key, where keys matter."""
        del position
        return 0

    def _slot_unseen(self) -> int | None:
        """The slot of an entry that was not looked into; None where nothing but its key tells."""
        return 0

    def _freed(self, position: Position) -> bool:
        """An entry is not pending any more; returns whether others waited for that."""
        del position
        return False

    def _freed_any(self, entries: Sequence[tuple[int, int]]) -> bool:
        """Entries are not pending any more; as `_freed` for each."""
        del entries
        return False

    def offer_plainly(self, entries: Sequence[TopicEntry]) -> list[Run] | None:
        """Hand out new entries in runs, where that does the same as to `offer` them; None where it may not.

        Args:
            entries: without markers and transactions, not delayed, and no parts of large messages.
        """
        del entries
        return None

    # Consumers

    def add(self, receiver: Receiver) -> None:
        """A consumer arrived, and has its place behind those of its priority; the first one starts over."""
        if not self.receivers:
            self._redeliveries.clear()
            self.rewind()
        insort_right(self.receivers, receiver, key=lambda other: other.priority)

    def remove(self, receiver: Receiver) -> None:
        """A consumer left. What it had pending goes to others; that does not count as a redelivery (measured)."""
        if receiver in self.receivers:
            self.receivers.remove(receiver)
            for position in sorted(receiver.pending):
                self._give_back(receiver, position)

    # Acks

    def acked(self, position: Position, by: Receiver | None = None) -> bool:
        """Whoever had it pending has it no more: any consumer may ack any entry."""
        self._redeliveries.pop(position, None)
        holder = self._holder(position, by)
        if holder is None:
            return False
        holder.acked += holder.pending[position]
        return self._take(holder, position)

    def has_pending(self, receiver: Receiver, entries: Sequence[tuple[int, int]]) -> bool:
        """Whether a consumer has all of these entries, each named once."""
        pending = receiver.pending
        if len(entries) == 1:
            return entries[0] in pending
        return len(chosen := set(entries)) == len(entries) and chosen <= pending.keys()

    def acked_entries(self, receiver: Receiver, entries: Sequence[tuple[int, int]]) -> bool:
        """A consumer has acked entries that it has pending; as `acked` for each."""
        redeliveries, pending = self._redeliveries, receiver.pending
        if redeliveries:
            for entry in entries:
                redeliveries.pop(Position(*entry), None)
        messages = sum([pending.pop(entry) for entry in entries])  # type: ignore[call-overload]  # equal to a Position
        receiver.acked += messages
        receiver.unacked -= messages
        self._unacked -= messages
        freed = self._freed_any(entries)
        if receiver.blocked or self._blocked:
            return self._unblock(receiver) or freed
        return freed

    def acked_in_part(self, position: Position, left: int, by: Receiver | None = None) -> bool:
        """The rest stays pending."""
        # The owner forgets the count with every ack of the entry (InMemoryRedeliveryTracker.removeBatch).
        self._redeliveries.pop(position, None)
        holder = self._holder(position, by)
        if holder is None:
            return False
        acked = holder.pending[position] - left
        holder.acked += acked
        holder.unacked -= acked
        self._unacked -= acked
        holder.pending[position] = left
        return self._unblock(holder)

    def withhold(self, position: Position, by: Receiver | None = None) -> bool:
        """An entry was acked in a transaction: nobody has it pending, and it may come back."""
        holder = self._holder(position, by)
        if holder is None:
            return False
        self._withheld[position] = self._slot_of(position)
        return self._take(holder, position)

    def restore(self, positions: list[Position]) -> bool:
        """Deliver again what was withheld; what was withheld before it was ever delivered here only where keys do not matter."""
        known = True
        for position in positions:
            slot = self._withheld.pop(position, None)
            if slot is None and position < self._next:
                slot = self._slot_unseen()
                known = known and slot is not None
            if slot is not None:
                self._redeliveries[position] = self._redeliveries.get(position, 0) + 1
                self._replay(position, slot)
        return known

    def cursor_moved(self) -> None:
        """Forget what the cursor has passed."""
        is_acked = self._cursor.is_acked
        for position in [position for position in self._withheld if position <= self._cursor.mark_delete]:
            del self._withheld[position]
        for receiver in self.receivers:
            for position in [position for position in receiver.pending if is_acked(position)]:
                self._take(receiver, position)
        for position in [position for position in self._redeliveries if is_acked(position)]:
            del self._redeliveries[position]

    def redeliver(self, receiver: Receiver, positions: list[Position]) -> None:
        """Deliver again what the consumer has pending of these."""
        for position in sorted(set(positions) if positions else receiver.pending):
            if position in receiver.pending and not self._cursor.is_acked(position):
                self._redeliveries[position] = self._redeliveries.get(position, 0) + 1
            self._give_back(receiver, position)
        receiver.blocked = False

    def rewind(self) -> None:
        """Start over at the first entry that is not acked; nobody has anything pending then."""
        for receiver in self.receivers:
            for position in list(receiver.pending):
                self._take(receiver, position)
        self._delayed.clear()
        self._forget_replays()
        self._next = self._cursor.first_unacked()

    @property
    def outstanding(self) -> bool:
        """Whether a consumer has something that it has not acked."""
        return any(receiver.pending for receiver in self.receivers)

    @property
    def next_due(self) -> int | None:
        """When the next delayed message is due."""
        return self._delayed.next_due

    # For subclasses to use

    def _wanted(self, position: Position) -> bool:
        """Whether an entry must still be delivered: neither acked nor trimmed."""
        if not self._cursor.is_acked(position) and self._chain.ledger(position.ledger_id) is not None:
            return True
        self._redeliveries.pop(position, None)
        return False

    def _release_due(self, now: int) -> None:
        """Read once more what is due."""
        due = self._delayed.next_due
        if due is not None and due <= now:
            for position, slot in self._delayed.due(now):
                self._replay(position, slot)

    def _must_wait(self, entry: TopicEntry, now: int) -> bool:
        """Whether an entry's time has not come."""
        if self._delays and entry.deliver_at > now:
            return True
        if self._delayed.heap:
            self._delayed.passed()
        return False

    @property
    def _reads_on(self) -> bool:
        """Whether new entries may be read."""
        return not self._blocked and not (self._delayed.heap and self._delayed.full)

    def _hand_out(self, receiver: Receiver, entry: TopicEntry) -> Delivery:
        position = entry.position
        unacked = self._cursor.unacked_of(position)
        messages = unacked.bit_count() if unacked else entry.messages
        receiver.permits -= messages
        receiver.pending[position] = messages
        receiver.unacked += messages
        self._unacked += messages
        if receiver.unacked >= self._most_of_consumer:
            receiver.blocked = True
        if self._unacked >= self._most:
            self._blocked = True
        return Delivery(receiver, entry, self._redeliveries.get(position, 0), unacked)

    def _holder(self, position: Position, by: Receiver | None) -> Receiver | None:
        if by is not None and position in by.pending:
            return by
        return next((receiver for receiver in self.receivers if position in receiver.pending), None)

    def _give_back(self, receiver: Receiver, position: Position) -> None:
        if position in receiver.pending:
            slot = self._slot_of(position)
            self._take(receiver, position)
            if not self._cursor.is_acked(position):
                self._replay(position, slot)

    def _take(self, receiver: Receiver, position: Position) -> bool:
        """An entry is not pending any more; returns whether something can be delivered because of that."""
        messages = receiver.pending.pop(position)
        receiver.unacked -= messages
        self._unacked -= messages
        freed = self._freed(position)
        if receiver.blocked or self._blocked:
            return self._unblock(receiver) or freed
        return freed

    def _unblock(self, receiver: Receiver) -> bool:
        unblocked = False
        if receiver.blocked and receiver.unacked <= self._limits.consumer // 2:
            receiver.blocked, unblocked = False, True
        if self._blocked and self._unacked < self._limits.subscription // 2:
            self._blocked, unblocked = False, True
        return unblocked
