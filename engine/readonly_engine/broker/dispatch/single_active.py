"""Exclusive and Failover: one active consumer gets all entries, in order."""

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
"""Largest number of entries of one read: half of a stock client's permits, which it renews together. One write sends them."""


class SingleActiveDispatcher:
    """Serves one consumer at a time (PersistentDispatcherSingleActiveConsumer). Ignores delays of messages, as the owner does.

    Args:
        chain: the topic's ledgers.
        cursor: the copy of the cursor.
        elected: whether the owner elects the active consumer (Failover); otherwise the newest consumer is active.

    Attributes:
        consumers: all consumers.
        active: the active consumer; None without one.
    """

    __slots__ = ("_chain", "_cursor", "_elected", "_keys", "_next", "active", "consumers")

    def __init__(self, chain: LedgerChain, cursor: CursorReplica, *, elected: bool) -> None:
        self._chain = chain
        self._cursor = cursor
        self._elected = elected
        self._next = cursor.first_unacked()
        self._keys: HashRangeSelector | None = None
        self.consumers: tuple[ConsumerState, ...] = ()
        self.active: ConsumerState | None = None

    def add(self, consumer: ConsumerState) -> None:
        """Add a consumer; activate it unless the owner elects."""
        self.consumers += (consumer,)
        if not self._elected:
            self.activate(consumer)

    def remove(self, consumer: ConsumerState) -> None:
        """Remove a consumer."""
        self.consumers = tuple([one for one in self.consumers if one is not consumer])
        self.deactivate(consumer)

    def activate(self, consumer: ConsumerState) -> None:
        """Make a consumer the active one. It starts at the first unacked entry."""
        if consumer is self.active:
            return
        self.active = consumer
        self._keys = None
        if consumer.ranges and not self._elected:
            # A reader of some keys skips the other entries, without an ack.
            self._keys = HashRangeSelector()
            self._keys.add(consumer)
        self.rewind()

    def deactivate(self, consumer: ConsumerState) -> None:
        """Stop serving a consumer, if it is the active one."""
        if consumer is self.active:
            self.active = None

    def next_read(self, now: int) -> tuple[Position, int] | None:
        """Return the next read; None if the active consumer is not ready."""
        del now
        if self.active is None or not self.active.ready:
            return None
        self._next = self._cursor.next_unacked(self._next)
        return self._next, min(self.active.permits, BACKLOG_ENTRIES)

    def dispatch(self, entries: Iterable[TopicEntry], now: int) -> list[Delivery]:
        """Dispatch entries; see Dispatcher."""
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
        """Return the first entries for which the active consumer has permits, one at least.

        The last one may have more messages than the consumer has permits, because a batch is not divided.
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
            permits: permits that the consumer must have; 0 for one per message.

        Returns:
            The consumer that gets the batch; None if the slow path is necessary.
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
        """Continue at this position: the active consumer got all entries before it by fan-out."""
        self._next = following

    def acked(self, position: Position, by: ConsumerState | None = None) -> bool:
        """Do nothing: this dispatcher does not track single entries."""
        del position, by
        return False

    def acked_partially(self, position: Position, left: int, by: ConsumerState | None = None) -> bool:
        """Do nothing, as `acked`."""
        del position, left, by
        return False

    def withhold(self, position: Position, by: ConsumerState | None = None) -> bool:
        """Do nothing, as `acked`."""
        del position, by
        return False

    def restore(self, positions: list[Position]) -> bool:
        """Start again at the first unacked entry, as the owner does."""
        del positions
        self.rewind()
        return True

    def cursor_moved(self) -> None:
        """Do nothing: `dispatch` skips entries that the cursor has passed."""

    def redeliver(self, consumer: ConsumerState, positions: list[Position]) -> None:
        """Start again at the first unacked entry, for any positions (PersistentDispatcherSingleActiveConsumer)."""
        del positions
        if consumer is self.active:
            self.rewind()

    def rewind(self) -> None:
        """Start again at the first unacked entry."""
        self._next = self._cursor.first_unacked()

    def next_timer(self) -> int | None:
        """Return None: it delays no message."""
        return None

    @property
    def outstanding(self) -> bool:
        """Whether the active consumer has unacked entries."""
        return self.active is not None and self._cursor.first_unacked() < self._next
