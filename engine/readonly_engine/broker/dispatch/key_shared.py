"""Key_Shared: entries with the same key go to one consumer, in order."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from readonly_engine.broker.dispatch.keys import KeyRanges, KeyRing
from readonly_engine.broker.dispatch.multiple import DEFAULT_LIMITS, MultipleDispatcher, UnackedLimits
from readonly_engine.broker.dispatch.receiver import READ_ENTRIES, permits_of
from readonly_engine.topic.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from readonly_engine.broker.cursor import CursorCopy
    from readonly_engine.broker.dispatch.keys import KeySelector
    from readonly_engine.broker.dispatch.receiver import Delivery, Receiver
    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.entries import TopicEntry

LOOK_AHEAD_PER_CONSUMER = 2000
"""Entries that wait for their consumer, times the number of consumers (keySharedLookAheadMsgInReplayThresholdPerConsumer)."""

LOOK_AHEAD = 20_000
"""Such entries in all (keySharedLookAheadMsgInReplayThresholdPerSubscription)."""


class KeySharedDispatcher(MultipleDispatcher):
    """Serves each consumer the keys that are its own (PersistentStickyKeyDispatcherMultipleConsumers).

    Entries whose consumer has no permits wait, as positions, while others' entries are read on; so does everything behind them
    with the same key. With AUTO_SPLIT keys change hands as consumers come and go: one that has something pending at a consumer
    is draining, and nothing of it goes to another before that is acked or given back (PIP-379).

    Args:
        chain: the topic's ledgers.
        cursor: what is acked.
        limits: how much may be unacked.
        delayed: whether messages wait for their time.
        sticky: whether the consumers name their ranges of hashes; else the ring assigns them.
        any_order: whether the order of a key does not matter (allow_out_of_order_delivery).
    """

    def __init__(
        self,
        chain: LedgerChain,
        cursor: CursorCopy,
        limits: UnackedLimits = DEFAULT_LIMITS,
        *,
        delayed: bool = True,
        sticky: bool = False,
        any_order: bool = False,
    ) -> None:
        super().__init__(chain, cursor, limits, delayed=delayed)
        self._selector: KeySelector = KeyRanges() if sticky else KeyRing()
        self._drains = not sticky and not any_order
        self._any_order = any_order
        self._slots: dict[Position, int] = {}  # of what is pending
        self._pending_at: dict[int, tuple[Receiver, int]] = {}  # by slot: who has how many entries of it
        self._waiting: dict[Position, int] = {}  # what must be read once more, with its slot
        self._waiting_of: dict[int, int] = {}  # by slot: how many of these
        self._queues: dict[Receiver, list[Position]] = {}  # heaps of what waits for a consumer
        self._parked: dict[
            int, list[Position]
        ] = {}  # by slot: what waits until the slot is drained, or belongs to somebody

    def add(self, receiver: Receiver) -> None:
        """A consumer arrived, and takes over a part of the keys."""
        super().add(receiver)
        self._queues[receiver] = []
        self._selector.add(receiver)
        self._assign_again()

    def remove(self, receiver: Receiver) -> None:
        """A consumer left; its keys go to the others, with what it had pending."""
        if receiver not in self.receivers:
            return
        self._selector.remove(receiver)
        super().remove(receiver)
        del self._queues[receiver]
        self._assign_again()

    def want(self, now: int) -> tuple[Position, int] | None:
        """Where to read on: first what waits for a consumer that can take it."""
        self._release_due(now)
        permits = permits_of(self.receivers)
        if not permits:
            return None
        if self._waiting:
            heads = [self._head(receiver) for receiver in self.receivers if receiver.ready]
            first = min((head for head in heads if head is not None), default=None)
            if first is not None:
                return first, self._run(first, permits)
        room = self._look_ahead - len(self._waiting)
        if not self._reads_on or room <= 0:
            return None
        self._next = self._cursor.next_unacked(self._next)
        return self._next, min(READ_ENTRIES, room)

    def offer(self, entries: Iterable[TopicEntry], now: int) -> list[Delivery]:
        """Hand out entries."""
        deliveries: list[Delivery] = []
        cursor, begin, passed = self._cursor, self._next, None
        mark_delete, sparse = cursor.mark_delete, cursor.sparse
        for entry in entries:
            position = entry.position
            new = position >= begin
            if not new and position not in self._waiting:
                continue
            if entry.marker or position <= mark_delete or (sparse and cursor.is_acked(position)):
                self._no_more_waiting(position)
            elif new:
                if not self._offer_new(entry, now, deliveries):
                    break
            else:
                self._offer_again(entry, now, deliveries)
            if new:
                passed = position
        if passed is not None:
            self._next = self._chain.after(passed)
        return deliveries

    def _offer_new(self, entry: TopicEntry, now: int, deliveries: list[Delivery]) -> bool:
        """Hand out an entry, or keep its position; False where neither can be done now."""
        if not self._reads_on:
            return False
        position = entry.position
        slot = self._selector.slot(entry.sticky_hash)
        if (entry.deliver_at or self._delayed.heap) and self._must_wait(entry, now):
            self._delayed.hold(position, entry.deliver_at, slot)
            return True
        receiver = self._selector.select(slot)
        if (
            receiver is not None
            and receiver.ready
            and (self._any_order or slot not in self._waiting_of)
            and self._may_have(receiver, slot)
        ):
            self._hand_over(receiver, entry, slot, deliveries)
        elif len(self._waiting) < self._look_ahead:
            self._replay(position, slot)
        else:
            return False
        return True

    def _offer_again(self, entry: TopicEntry, now: int, deliveries: list[Delivery]) -> None:
        """Hand out an entry that waited, if it is the first that its consumer waits for."""
        position = entry.position
        slot = self._waiting[position]
        if self._must_wait(entry, now):
            self._no_more_waiting(position)
            self._delayed.hold(position, entry.deliver_at, slot)
            return
        receiver = self._selector.select(slot)
        if receiver is not None and receiver.ready and self._head(receiver) == position:
            self._no_more_waiting(position)
            self._hand_over(receiver, entry, slot, deliveries)

    @property
    def _look_ahead(self) -> int:
        return min(LOOK_AHEAD_PER_CONSUMER * len(self.receivers), LOOK_AHEAD)

    # What is pending

    def _hand_over(self, receiver: Receiver, entry: TopicEntry, slot: int, deliveries: list[Delivery]) -> None:
        self._slots[entry.position] = slot
        if self._drains:
            _, count = self._pending_at.get(slot, (receiver, 0))
            self._pending_at[slot] = (receiver, count + 1)
        deliveries.append(self._hand_out(receiver, entry))

    def _may_have(self, receiver: Receiver, slot: int) -> bool:
        """Whether nobody else has something of this slot pending."""
        holder = self._pending_at.get(slot)
        return holder is None or holder[0] is receiver

    def _slot_unseen(self) -> int | None:
        return None

    def _slot_of(self, position: Position) -> int:
        return self._slots[position]

    def _freed(self, position: Position) -> bool:
        slot = self._slots.pop(position)
        if not self._drains:
            return False
        receiver, count = self._pending_at[slot]
        if count > 1:
            self._pending_at[slot] = (receiver, count - 1)
            return False
        del self._pending_at[slot]
        parked = self._parked.pop(slot, None)
        if parked is None:
            return False
        for waiting in parked:
            self._enqueue(waiting, slot)
        return True

    def _freed_any(self, entries: Sequence[tuple[int, int]]) -> bool:
        freed = False
        for entry in entries:
            freed |= self._freed(Position(*entry))
        return freed

    # What waits

    def _replay(self, position: Position, slot: int = 0) -> None:
        if position not in self._waiting:
            self._waiting[position] = slot
            self._waiting_of[slot] = self._waiting_of.get(slot, 0) + 1
            self._enqueue(position, slot)

    def _forget_replays(self) -> None:
        self._waiting.clear()
        self._waiting_of.clear()
        self._parked.clear()
        for queue in self._queues.values():
            queue.clear()

    def _enqueue(self, position: Position, slot: int) -> None:
        receiver = self._selector.select(slot)
        if receiver is None:
            self._parked.setdefault(slot, []).append(position)
        else:
            heapq.heappush(self._queues[receiver], position)

    def _no_more_waiting(self, position: Position) -> None:
        """Its place in a queue is given up when it comes to the top."""
        slot = self._waiting.pop(position, None)
        if slot is None:
            return
        if self._waiting_of[slot] > 1:
            self._waiting_of[slot] -= 1
        else:
            del self._waiting_of[slot]

    def _head(self, receiver: Receiver) -> Position | None:
        """The first entry that waits for a consumer and that it may have now."""
        queue = self._queues[receiver]
        while queue:
            position = queue[0]
            slot = self._waiting.get(position)
            if slot is None:
                heapq.heappop(queue)
            elif not self._wanted(position):
                self._no_more_waiting(position)
            elif self._may_have(receiver, slot):
                return position
            else:
                self._parked.setdefault(slot, []).append(heapq.heappop(queue))
        return None

    def _run(self, first: Position, most: int) -> int:
        count = 1
        while count < most and type(first)(first.ledger_id, first.entry_id + count) in self._waiting:
            count += 1
        return count

    def _assign_again(self) -> None:
        """Keys have changed hands: so does what waits."""
        self._parked.clear()
        for queue in self._queues.values():
            queue.clear()
        for position, slot in self._waiting.items():
            self._enqueue(position, slot)
