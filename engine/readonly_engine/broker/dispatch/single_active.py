"""Exclusive and Failover: every entry, in order, to the one active consumer."""

from __future__ import annotations

from itertools import accumulate, takewhile
from typing import TYPE_CHECKING

from readonly_engine.broker.dispatch.consumer_state import Delivery
from readonly_engine.broker.dispatch.key_selectors import HashRangeSelector
from readonly_engine.wire.entry_view import summarize

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_engine.broker.dispatch.consumer_state import ConsumerState
    from readonly_engine.broker.dispatch.cursor import CursorReplica
    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.position import Position
    from readonly_engine.topic.tail_batch import TailBatch

BACKLOG_ENTRIES = 500
"""Entries asked for at once: half of a stock client's permits, which it asks for again together. They go out as one chunk."""


class SingleActiveDispatcher:
    """Serves one consumer at a time (PersistentDispatcherSingleActiveConsumer). Delayed messages come at once, as at the owner.

    Args:
        chain: the topic's ledgers.
        cursor: what is acked.
        elected: whether the owner says who is active (Failover); else the only consumer is.
    """

    __slots__ = ("_chain", "_cursor", "_elected", "_keys", "_next", "active", "consumers")

    next_due = None

    def __init__(self, chain: LedgerChain, cursor: CursorReplica, *, elected: bool) -> None:
        self._chain = chain
        self._cursor = cursor
        self._elected = elected
        self._next = cursor.first_unacked()
        self._keys: HashRangeSelector | None = None
        self.consumers: list[ConsumerState] = []
        self.active: ConsumerState | None = None

    def add(self, consumer: ConsumerState) -> None:
        """A consumer arrived."""
        self.consumers.append(consumer)
        if not self._elected:
            self.activate(consumer)

    def remove(self, consumer: ConsumerState) -> None:
        """A consumer left."""
        if consumer in self.consumers:
            self.consumers.remove(consumer)
        self.deactivate(consumer)

    def activate(self, consumer: ConsumerState) -> None:
        """The owner chose this consumer; a new one starts at the first entry that is not acked."""
        if consumer is self.active:
            return
        self.active = consumer
        self._keys = None
        if consumer.ranges and not self._elected:
            # A reader of some keys: the other entries are left out, and are not acked.
            self._keys = HashRangeSelector()
            self._keys.add(consumer)
        self.rewind()

    def deactivate(self, consumer: ConsumerState) -> None:
        """The owner chose another."""
        if consumer is self.active:
            self.active = None

    def next_read(self, now: int) -> tuple[Position, int] | None:
        """Where to read on."""
        del now
        if self.active is None or not self.active.ready:
            return None
        self._next = self._cursor.next_unacked(self._next)
        return self._next, min(self.active.permits, BACKLOG_ENTRIES)

    def dispatch(self, entries: Iterable[TopicEntry], now: int) -> list[Delivery]:
        """Hand out entries."""
        del now
        deliveries: list[Delivery] = []
        active, cursor, keys = self.active, self._cursor, self._keys
        if active is None or not active.ready:
            return deliveries
        permits, passed, mark_delete, sparse = active.permits, None, cursor.mark_delete, cursor.sparse
        for entry in entries:
            if permits <= 0:
                break
            passed = position = entry.position
            if entry.marker or position <= mark_delete or (sparse and cursor.is_acked(position)):
                continue
            if keys is not None and keys.select(keys.slot(entry.sticky_hash)) is None:
                continue
            unacked = cursor.unacked_bits(position)
            permits -= unacked.bit_count() if unacked else entry.messages
            deliveries.append(Delivery(active, entry, 0, unacked))
        active.permits = permits
        if passed is not None:
            self._next = self._chain.after(passed)
        return deliveries

    def within_permits(self, entries: list[TopicEntry]) -> list[TopicEntry]:
        """Return those of the next entries for which the active consumer has permits, the first one at least.

        Of the last one it may get more messages than it has permits for, as a batch is not divided.
        """
        permits = 0 if self.active is None else self.active.permits
        if summarize(entries)[0] <= permits:
            return entries
        costs = accumulate(entry.messages for entry in entries)
        return entries[: 1 + sum(1 for _ in takewhile(permits.__gt__, costs))]

    def dispatch_batch(self, batch: TailBatch, permits: int = 0) -> ConsumerState | None:
        """Dispatch a whole batch at once, as `dispatch` does with entries of which none is filtered.

        Args:
            batch: the entries.
            permits: what the consumer must have for them; 0 for one for each message.

        Returns:
            The consumer that gets it; None if the slow path must be taken.
        """
        active = self.active
        if (
            active is None
            or self._next != batch.first
            or active.permits < (permits or batch.messages)
            or not active.ready
            or self._keys is not None
            or not self._cursor.nothing_acked_after(batch.first)
        ):
            return None
        active.permits -= batch.messages
        self._next = batch.following
        return active

    def advance_to(self, following: Position) -> None:
        """Note that the active consumer got all entries before this position by the fan-out."""
        self._next = following

    def acked(self, position: Position, by: ConsumerState | None = None) -> bool:
        """Nothing is kept for an entry."""
        del position, by
        return False

    def acked_partially(self, position: Position, left: int, by: ConsumerState | None = None) -> bool:
        """Nothing is kept for an entry."""
        del position, left, by
        return False

    def withhold(self, position: Position, by: ConsumerState | None = None) -> bool:
        """Nothing is kept for an entry."""
        del position, by
        return False

    def restore(self, positions: list[Position]) -> bool:
        """Start over, as the owner does."""
        del positions
        self.rewind()
        return True

    def cursor_moved(self) -> None:
        """Nothing is kept for an entry; what the cursor has passed is left out when it comes."""

    def redeliver(self, consumer: ConsumerState, positions: list[Position]) -> None:
        """Start over: these types cannot redeliver single entries (PersistentDispatcherSingleActiveConsumer)."""
        del positions
        if consumer is self.active:
            self.rewind()

    def rewind(self) -> None:
        """Start over at the first entry that is not acked."""
        self._next = self._cursor.first_unacked()

    @property
    def outstanding(self) -> bool:
        """Whether the active consumer has something that it has not acked."""
        return self.active is not None and self._cursor.first_unacked() < self._next
