"""Common part of Shared and Key_Shared: pending entries, limits of unacked messages, redelivery, delayed delivery."""

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
    """Limits of delivered unacked messages; 0 for no limit.

    Attributes:
        consumer: limit of one consumer. At the limit it gets no messages until it has acked half (maxUnackedMessagesPerConsumer).
        subscription: limit of all consumers. At the limit they get no new messages until fewer than half are unacked
            (maxUnackedMessagesPerSubscription).
    """

    consumer: int = 50_000
    subscription: int = 200_000


DEFAULT_LIMITS = UnackedLimits()
"""Limits of a stock broker (broker.conf)."""


class MultipleDispatcher:
    """Tracks the entries of several consumers (PersistentDispatcherMultipleConsumers, Consumer, PendingAcksMap).

    Args:
        chain: the topic's ledgers.
        cursor: the copy of the cursor.
        limits: limits of unacked messages.
        delayed: whether delayed delivery is enabled; otherwise delayed messages are delivered at once.
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
        self._withheld: dict[Position, int] = {}  # entries in open transactions, with their slots
        self._unacked = 0
        self._blocked = False

    def follow(self, limits: UnackedLimits, *, delayed: bool) -> None:
        """Apply policies that have changed. A consumer or a subscription at its new limit gets nothing more until it acks."""
        self._limits = limits
        self._max_unacked_per_consumer = limits.consumer or sys.maxsize
        self._max_unacked = limits.subscription or sys.maxsize
        self._delays_enabled = delayed
        for consumer in self.consumers:
            consumer.blocked = consumer.unacked >= self._max_unacked_per_consumer
        self._blocked = self._unacked >= self._max_unacked

    # Overridden by subclasses

    def _replay(self, position: Position, slot: int = 0) -> None:
        """Read an entry again."""
        raise NotImplementedError

    def _forget_replays(self) -> None:
        """Drop all entries to read again."""
        raise NotImplementedError

    def _slot_of(self, position: Position) -> int:
        """Return the slot of a pending entry; 0 without keys."""
        del position
        return 0

    def _slot_unseen(self) -> int | None:
        """Return the slot of an entry that was not read here; None if only its key determines the slot."""
        return 0

    def _on_removed(self, position: Position) -> bool:
        """Handle the removal of a pending entry; return whether other entries waited for it."""
        del position
        return False

    def _on_removed_all(self, entries: Sequence[tuple[int, int]]) -> bool:
        """Handle the removal of pending entries; as `_on_removed` for each."""
        del entries
        return False

    def dispatch_uniform(self, entries: Sequence[TopicEntry]) -> list[EntryRun] | None:
        """Fast path: dispatch new entries in runs, with the same result as `dispatch`; return None if a precondition fails.

        Args:
            entries: consecutive entries without markers, transactions, delays and chunks of large messages.
        """
        del entries
        return None

    # Consumers

    def add(self, consumer: ConsumerState) -> None:
        """Add a consumer after those of the same priority. The first consumer starts at the first unacked entry."""
        if not self.consumers:
            self._redeliveries.clear()
            self.rewind()
        insort_right(self.consumers, consumer, key=lambda other: other.priority)

    def remove(self, consumer: ConsumerState) -> None:
        """Remove a consumer. Others get its pending entries, with the same redelivery counts (as measured on a stock broker)."""
        if consumer in self.consumers:
            self.consumers.remove(consumer)
            for position in sorted(consumer.pending):
                self._return_pending(consumer, position)

    # Acks

    def acked(self, position: Position, by: ConsumerState | None = None) -> bool:
        """Remove an acked entry from the consumer that has it pending. Any consumer may ack any entry."""
        self._redeliveries.pop(position, None)
        holder = self._holder(position, by)
        if holder is None:
            return False
        holder.acked += holder.pending[position]
        return self._remove_pending(holder, position)

    def take_pending(self, consumer: ConsumerState, entries: Sequence[tuple[int, int]]) -> int | None:
        """Remove acked entries from the pending ones of a consumer; `acked_entries` must follow.

        Args:
            consumer: the consumer.
            entries: ledger id and entry id of each.

        Returns:
            The number of their messages. None, without any change, unless the consumer has all entries pending and each is
            named once.
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
        """Count acked entries of a consumer after `take_pending`; returns as `acked` for each.

        Args:
            consumer: the consumer.
            entries: ledger id and entry id of each.
            messages: number of their messages, from `take_pending`.
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
        """Count the acked messages of a batch; the entry stays pending."""
        # The owner drops the redelivery count at every ack of the entry (InMemoryRedeliveryTracker.removeBatch).
        self._redeliveries.pop(position, None)
        holder = self._holder(position, by)
        if holder is None:
            return False
        left = min(left, holder.pending[position])  # a client can send bits of messages that the batch does not have
        acked = holder.pending[position] - left
        holder.acked += acked
        holder.unacked -= acked
        self._unacked -= acked
        holder.pending[position] = left
        return self._unblock(holder)

    def withhold(self, position: Position, by: ConsumerState | None = None) -> bool:
        """Remove a pending entry after an ack in a transaction, and keep its slot for `restore`."""
        holder = self._holder(position, by)
        if holder is None:
            return False
        self._withheld[position] = self._slot_of(position)
        return self._remove_pending(holder, position)

    def restore(self, positions: list[Position]) -> bool:
        """Deliver withheld entries again. Return False if one was withheld before its delivery here and needs its slot."""
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
        """Remove pending and withheld entries that the cursor has passed."""
        is_acked = self._cursor.is_acked
        for position in [position for position in self._withheld if position <= self._cursor.mark_delete]:
            del self._withheld[position]
        for consumer in self.consumers:
            for position in [position for position in consumer.pending if is_acked(position)]:
                self._remove_pending(consumer, position)
        for position in [position for position in self._redeliveries if is_acked(position)]:
            del self._redeliveries[position]

    def redeliver(self, consumer: ConsumerState, positions: list[Position]) -> None:
        """Deliver those of the entries again that the consumer has pending, and unblock it."""
        for position in sorted(set(positions) if positions else consumer.pending):
            if position in consumer.pending and not self._cursor.is_acked(position):
                self._redeliveries[position] = self._redeliveries.get(position, 0) + 1
            self._return_pending(consumer, position)
        consumer.blocked = False

    def rewind(self) -> None:
        """Start again at the first unacked entry, without pending entries."""
        for consumer in self.consumers:
            for position in list(consumer.pending):
                self._remove_pending(consumer, position)
        self._delayed.clear()
        self._forget_replays()
        self._next = self._cursor.first_unacked()

    @property
    def outstanding(self) -> bool:
        """Whether a consumer has unacked entries."""
        return any(consumer.pending for consumer in self.consumers)

    def next_timer(self) -> int | None:
        """Return the time of the next delayed message, in ms since the epoch; None without one."""
        return self._delayed.next_timer()

    def on_timer(self, now: int) -> None:
        """Read the delayed entries again that are due; `next_read` does so, too."""
        due = self._delayed.next_timer()
        if due is not None and due <= now:
            for position, slot in self._delayed.on_timer(now):
                self._replay(position, slot)

    # Used by subclasses

    def _wanted(self, position: Position) -> bool:
        """Return whether an entry is neither acked nor trimmed."""
        if not self._cursor.is_acked(position) and self._chain.ledger(position.ledger_id) is not None:
            return True
        self._redeliveries.pop(position, None)
        return False

    def _is_delayed(self, entry: TopicEntry, now: int) -> bool:
        """Return whether an entry must be delivered later."""
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
        """Remove a pending entry; return whether entries that waited for it can be delivered now."""
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
