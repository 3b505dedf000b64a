"""What Shared and Key_Shared have in common: who has what pending, how much of it, and what is delivered again."""

from __future__ import annotations

import sys
from bisect import insort_right
from typing import TYPE_CHECKING, NamedTuple

from readonly_engine.broker.dispatch.consumer_state import Delivery
from readonly_engine.broker.dispatch.delayed import DelayedDeliveryTracker
from readonly_engine.topic.position import Position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_engine.broker.dispatch.consumer_state import ConsumerState, EntryRun
    from readonly_engine.broker.dispatch.cursor import CursorReplica
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
        self, chain: LedgerChain, cursor: CursorReplica, limits: UnackedLimits = DEFAULT_LIMITS, *, delayed: bool = True
    ) -> None:
        self.consumers: list[ConsumerState] = []
        self._chain = chain
        self._cursor = cursor
        self._limits = limits
        self._max_unacked_per_consumer = limits.consumer or sys.maxsize
        self._max_unacked = limits.subscription or sys.maxsize
        self._delays_enabled = delayed
        self._delayed = DelayedDeliveryTracker()
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

    def _on_removed(self, position: Position) -> bool:
        """An entry is not pending any more; returns whether others waited for that."""
        del position
        return False

    def _on_removed_all(self, entries: Sequence[tuple[int, int]]) -> bool:
        """Entries are not pending any more; as `_on_removed` for each."""
        del entries
        return False

    def dispatch_uniform(self, entries: Sequence[TopicEntry]) -> list[EntryRun] | None:
        """Hand out new entries in runs, where that does the same as to `dispatch` them; None where it may not.

        Args:
            entries: without markers and transactions, not delayed, and no parts of large messages.
        """
        del entries
        return None

    # Consumers

    def add(self, consumer: ConsumerState) -> None:
        """A consumer arrived, and has its place behind those of its priority; the first one starts over."""
        if not self.consumers:
            self._redeliveries.clear()
            self.rewind()
        insort_right(self.consumers, consumer, key=lambda other: other.priority)

    def remove(self, consumer: ConsumerState) -> None:
        """A consumer left. What it had pending goes to others; that does not count as a redelivery (measured)."""
        if consumer in self.consumers:
            self.consumers.remove(consumer)
            for position in sorted(consumer.pending):
                self._return_pending(consumer, position)

    # Acks

    def acked(self, position: Position, by: ConsumerState | None = None) -> bool:
        """Whoever had it pending has it no more: any consumer may ack any entry."""
        self._redeliveries.pop(position, None)
        holder = self._holder(position, by)
        if holder is None:
            return False
        holder.acked += holder.pending[position]
        return self._remove_pending(holder, position)

    def take_pending(self, consumer: ConsumerState, entries: Sequence[tuple[int, int]]) -> int | None:
        """Take entries that a consumer acks out of what it has pending; `acked_entries` must follow.

        Args:
            consumer: the consumer.
            entries: ledger and entry of each.

        Returns:
            The number of their messages. None unless the consumer has all of these entries pending, each named once; then
            nothing has changed.
        """
        pending = consumer.pending
        taken: list[int] = [pending.pop(entry, -1) for entry in entries]  # type: ignore[call-overload]  # equal to a Position
        if -1 in taken:
            for entry, messages in zip(entries, taken, strict=True):
                if messages >= 0:
                    pending[Position(*entry)] = messages
            return None
        return sum(taken)

    def acked_entries(self, consumer: ConsumerState, entries: Sequence[tuple[int, int]], messages: int) -> bool:
        """A consumer has acked entries; as `acked` for each.

        Args:
            consumer: the consumer.
            entries: ledger and entry of each.
            messages: what `take_pending` has returned for them.
        """
        if self._redeliveries:
            for entry in entries:
                self._redeliveries.pop(Position(*entry), None)
        consumer.acked += messages
        consumer.unacked -= messages
        self._unacked -= messages
        freed = self._on_removed_all(entries)
        if consumer.blocked or self._blocked:
            return self._unblock(consumer) or freed
        return freed

    def acked_partially(self, position: Position, left: int, by: ConsumerState | None = None) -> bool:
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

    def withhold(self, position: Position, by: ConsumerState | None = None) -> bool:
        """An entry was acked in a transaction: nobody has it pending, and it may come back."""
        holder = self._holder(position, by)
        if holder is None:
            return False
        self._withheld[position] = self._slot_of(position)
        return self._remove_pending(holder, position)

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
        for consumer in self.consumers:
            for position in [position for position in consumer.pending if is_acked(position)]:
                self._remove_pending(consumer, position)
        for position in [position for position in self._redeliveries if is_acked(position)]:
            del self._redeliveries[position]

    def redeliver(self, consumer: ConsumerState, positions: list[Position]) -> None:
        """Deliver again what the consumer has pending of these."""
        for position in sorted(set(positions) if positions else consumer.pending):
            if position in consumer.pending and not self._cursor.is_acked(position):
                self._redeliveries[position] = self._redeliveries.get(position, 0) + 1
            self._return_pending(consumer, position)
        consumer.blocked = False

    def rewind(self) -> None:
        """Start over at the first entry that is not acked; nobody has anything pending then."""
        for consumer in self.consumers:
            for position in list(consumer.pending):
                self._remove_pending(consumer, position)
        self._delayed.clear()
        self._forget_replays()
        self._next = self._cursor.first_unacked()

    @property
    def outstanding(self) -> bool:
        """Whether a consumer has something that it has not acked."""
        return any(consumer.pending for consumer in self.consumers)

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
            for position, slot in self._delayed.take_due(now):
                self._replay(position, slot)

    def _is_delayed(self, entry: TopicEntry, now: int) -> bool:
        """Whether an entry's time has not come."""
        if self._delays_enabled and entry.deliver_at > now:
            return True
        if self._delayed.heap:
            self._delayed.mark_unordered()
        return False

    @property
    def _may_read_new(self) -> bool:
        """Whether new entries may be read."""
        return not self._blocked and not (self._delayed.heap and self._delayed.full)

    def _assign(self, consumer: ConsumerState, entry: TopicEntry) -> Delivery:
        position = entry.position
        unacked = self._cursor.unacked_bits(position)
        messages = unacked.bit_count() if unacked else entry.messages
        consumer.permits -= messages
        consumer.pending[position] = messages
        consumer.unacked += messages
        self._unacked += messages
        if consumer.unacked >= self._max_unacked_per_consumer:
            consumer.blocked = True
        if self._unacked >= self._max_unacked:
            self._blocked = True
        return Delivery(consumer, entry, self._redeliveries.get(position, 0), unacked)

    def _holder(self, position: Position, by: ConsumerState | None) -> ConsumerState | None:
        if by is not None and position in by.pending:
            return by
        return next((consumer for consumer in self.consumers if position in consumer.pending), None)

    def _return_pending(self, consumer: ConsumerState, position: Position) -> None:
        if position in consumer.pending:
            slot = self._slot_of(position)
            self._remove_pending(consumer, position)
            if not self._cursor.is_acked(position):
                self._replay(position, slot)

    def _remove_pending(self, consumer: ConsumerState, position: Position) -> bool:
        """An entry is not pending any more; returns whether something can be delivered because of that."""
        messages = consumer.pending.pop(position)
        consumer.unacked -= messages
        self._unacked -= messages
        freed = self._on_removed(position)
        if consumer.blocked or self._blocked:
            return self._unblock(consumer) or freed
        return freed

    def _unblock(self, consumer: ConsumerState) -> bool:
        unblocked = False
        if consumer.blocked and consumer.unacked <= self._limits.consumer // 2:
            consumer.blocked, unblocked = False, True
        if self._blocked and self._unacked < self._limits.subscription // 2:
            self._blocked, unblocked = False, True
        return unblocked
