"""Key_Shared: entries with the same key go to one consumer, in order."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

from readonly_engine.broker.dispatch.consumer_state import READ_ENTRIES, EntryRun, total_permits
from readonly_engine.broker.dispatch.key_selectors import ConsistentHashSelector, HashRangeSelector
from readonly_engine.broker.dispatch.multiple import DEFAULT_LIMITS, MultipleDispatcher, UnackedLimits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from readonly_engine.broker.dispatch.consumer_state import ConsumerState, Delivery
    from readonly_engine.broker.dispatch.cursor import CursorReplica
    from readonly_engine.broker.dispatch.key_selectors import KeySelector
    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.position import Position


class LookAhead(NamedTuple):
    """Waiting entries at which reads pause; 0 for no limit. The defaults are those of Pulsar 4.0 and 4.2; 5.0 doubles them.

    Attributes:
        per_consumer: number for each consumer (keySharedLookAheadMsgInReplayThresholdPerConsumer).
        per_subscription: number for all consumers (keySharedLookAheadMsgInReplayThresholdPerSubscription).
    """

    per_consumer: int = 2000
    per_subscription: int = 20_000

    def limit(self, consumers: int, unacked: UnackedLimits) -> int:
        """Return the limit for a number of consumers (getEffectiveLookAheadLimit).

        Args:
            consumers: number of consumers.
            unacked: limits of unacked messages, which apply instead if both limits are off.
        """
        ahead = [count for count in (self.per_consumer * consumers, self.per_subscription) if count > 0]
        unacked_limits = [count for count in (unacked.consumer * consumers, unacked.subscription) if count > 0]
        return min(ahead or unacked_limits, default=MAX_WAITING)


DEFAULT_LOOK_AHEAD = LookAhead()

MAX_WAITING = 1_000_000
"""Waiting entries at which reads pause without a limit, to bound memory."""


class KeySharedDispatcher(MultipleDispatcher):
    """Dispatches the entries of each key to its consumer (PersistentStickyKeyDispatcherMultipleConsumers).

    An entry whose consumer has no permits waits, and so do later entries of its slot. The dispatcher keeps their positions, and
    reads on for other consumers. With AUTO_SPLIT, slots move when consumers come and go. A slot with pending entries drains
    first: another consumer gets its entries only after those are acked or returned (PIP-379).

    Args:
        chain: the topic's ledgers.
        cursor: the copy of the cursor.
        limits: limits of unacked messages.
        delayed: whether delayed delivery is enabled.
        sticky: whether the consumers name their ranges of hashes (STICKY); otherwise consistent hashing assigns them.
        any_order: whether the order of a key may be ignored (allow_out_of_order_delivery).
        look_ahead: limits of waiting entries.
    """

    def __init__(
        self,
        chain: LedgerChain,
        cursor: CursorReplica,
        limits: UnackedLimits = DEFAULT_LIMITS,
        *,
        delayed: bool = True,
        sticky: bool = False,
        any_order: bool = False,
        look_ahead: LookAhead = DEFAULT_LOOK_AHEAD,
    ) -> None:
        super().__init__(chain, cursor, limits, delayed=delayed)
        self._selector: KeySelector = HashRangeSelector() if sticky else ConsistentHashSelector()
        self._drains = not sticky and not any_order
        self._any_order = any_order
        self._limits_ahead = look_ahead
        self._slots: dict[Position, int] = {}  # slots of pending entries
        self._pending_at: dict[
            int, tuple[ConsumerState, int]
        ] = {}  # by slot: the consumer and its number of pending entries
        self._waiting: dict[Position, int] = {}  # entries to read again, with their slots
        self._waiting_of: dict[int, int] = {}  # by slot: number of waiting entries
        self._queues: dict[ConsumerState, list[Position]] = {}  # heaps of entries that wait for a consumer
        self._parked: dict[int, list[Position]] = {}  # by slot: entries that wait until it drains or has a consumer

    def add(self, consumer: ConsumerState) -> None:
        """Add a consumer, and assign a part of the slots to it."""
        super().add(consumer)
        self._queues[consumer] = []
        self._selector.add(consumer)
        self._reassign_waiting()

    def look_ahead_by(self, limits: LookAhead) -> None:
        """Apply limits of waiting entries that have changed."""
        self._limits_ahead = limits

    def remove(self, consumer: ConsumerState) -> None:
        """Remove a consumer. Other consumers get its slots and pending entries."""
        if consumer not in self.consumers:
            return
        self._selector.remove(consumer)
        super().remove(consumer)
        del self._queues[consumer]
        self._reassign_waiting()

    def next_read(self, now: int) -> tuple[Position, int] | None:
        """Return the next read: first the earliest waiting entry with a ready consumer."""
        self.on_timer(now)
        permits = total_permits(self.consumers)
        if not permits:
            return None
        if self._waiting:
            heads = [self._head(consumer) for consumer in self.consumers if consumer.ready]
            first = min((head for head in heads if head is not None), default=None)
            if first is not None:
                return first, self._run_length(first, permits)
        room = self._look_ahead - len(self._waiting)
        if not self._may_read_new or room <= 0:
            return None
        self._next = self._cursor.next_unacked(self._next)
        return self._next, min(READ_ENTRIES, room)

    def dispatch(self, entries: Iterable[TopicEntry], now: int) -> list[Delivery]:
        """Dispatch entries; see Dispatcher."""
        deliveries: list[Delivery] = []
        cursor, begin, passed = self._cursor, self._next, None
        mark_delete, sparse = cursor.mark_delete, cursor.sparse
        for entry in entries:
            position = entry.position
            new = position >= begin
            if not new and position not in self._waiting:
                continue
            if entry.marker or position <= mark_delete or (sparse and cursor.is_acked(position)):
                self._remove_waiting(position)
            elif new:
                if not self._dispatch_new(entry, now, deliveries):
                    break
            else:
                self._dispatch_waiting(entry, now, deliveries)
            if new:
                passed = position
        if passed is not None:
            self._next = self._chain.after(passed)
        return deliveries

    def dispatch_uniform(self, entries: Sequence[TopicEntry]) -> list[EntryRun] | None:
        """Dispatch new entries, those of each consumer together. Preconditions: no redelivery, no delayed entry, none acked."""
        if not self._is_uniform(entries):
            return None
        runs, taken = self._assign_runs(entries)
        if taken:
            self._next = self._chain.after(entries[taken - 1].position)
        return runs

    def _is_uniform(self, entries: Sequence[TopicEntry]) -> bool:
        first = entries[0].position
        return (
            first == self._next
            and not (self._redeliveries or self._delayed.heap)
            and self._cursor.nothing_acked_in(first, entries[-1].position)
        )

    def _assign_runs(self, entries: Sequence[TopicEntry]) -> tuple[list[EntryRun], int]:
        """As `_dispatch_new` for each entry, in one loop; return what each consumer gets, and how many entries were handled."""
        select, slot_of = self._selector.select, self._selector.slot
        waiting_of, pending_at, slots = self._waiting_of, self._pending_at, self._slots
        most, drains, any_order = self._max_unacked_per_consumer, self._drains, self._any_order
        runs: dict[ConsumerState, list[TopicEntry]] = {}
        taken = 0
        for entry in entries:
            if self._blocked:
                break
            position, slot = entry.position, slot_of(entry.sticky_hash)
            consumer, holder = select(slot), pending_at.get(slot)
            if (
                consumer is None
                or consumer.permits <= 0
                or consumer.blocked
                or not consumer.writable
                or (slot in waiting_of and not any_order)
                or (holder is not None and holder[0] is not consumer)
            ):
                if len(self._waiting) >= self._look_ahead:
                    break
                self._replay(position, slot)
            else:
                messages = entry.messages
                slots[position] = slot
                if drains:
                    pending_at[slot] = (consumer, 1 if holder is None else holder[1] + 1)
                consumer.pending[position] = messages
                consumer.permits -= messages
                consumer.unacked += messages
                self._unacked += messages
                consumer.blocked = consumer.unacked >= most
                self._blocked = self._unacked >= self._max_unacked
                if consumer in runs:
                    runs[consumer].append(entry)
                else:
                    runs[consumer] = [entry]
            taken += 1
        return [EntryRun(one, run, sum(entry.messages for entry in run)) for one, run in runs.items()], taken

    def _dispatch_new(self, entry: TopicEntry, now: int, deliveries: list[Delivery]) -> bool:
        """Dispatch a new entry, or keep its position. Return False if neither is possible now."""
        if not self._may_read_new:
            return False
        position = entry.position
        slot = self._selector.slot(entry.sticky_hash)
        if (entry.deliver_at or self._delayed.heap) and self._is_delayed(entry, now):
            self._delayed.add(position, entry.deliver_at, slot)
            return True
        consumer = self._selector.select(slot)
        if (
            consumer is not None
            and consumer.ready
            and (self._any_order or slot not in self._waiting_of)
            and self._may_receive(consumer, slot)
        ):
            self._assign_slot(consumer, entry, slot, deliveries)
        elif len(self._waiting) < self._look_ahead:
            self._replay(position, slot)
        else:
            return False
        return True

    def _dispatch_waiting(self, entry: TopicEntry, now: int, deliveries: list[Delivery]) -> None:
        """Dispatch a waiting entry, if it is the first one for its consumer."""
        position = entry.position
        slot = self._waiting[position]
        if self._is_delayed(entry, now):
            self._remove_waiting(position)
            self._delayed.add(position, entry.deliver_at, slot)
            return
        consumer = self._selector.select(slot)
        if consumer is not None and consumer.ready and self._head(consumer) == position:
            self._remove_waiting(position)
            self._assign_slot(consumer, entry, slot, deliveries)

    @property
    def _look_ahead(self) -> int:
        return self._limits_ahead.limit(len(self.consumers), self._limits)

    # Pending entries

    def _assign_slot(self, consumer: ConsumerState, entry: TopicEntry, slot: int, deliveries: list[Delivery]) -> None:
        self._slots[entry.position] = slot
        if self._drains:
            _, count = self._pending_at.get(slot, (consumer, 0))
            self._pending_at[slot] = (consumer, count + 1)
        deliveries.append(self._assign(consumer, entry))

    def _may_receive(self, consumer: ConsumerState, slot: int) -> bool:
        """Return whether no other consumer has pending entries of this slot."""
        holder = self._pending_at.get(slot)
        return holder is None or holder[0] is consumer

    def _slot_unseen(self) -> int | None:
        return None

    def _slot_of(self, position: Position) -> int:
        return self._slots[position]

    def _on_removed(self, position: Position) -> bool:
        return self._on_removed_all((position,))

    def _release(self, slot: int) -> bool:
        """Remove a pending entry of a slot; return whether entries that waited for it can be delivered now."""
        consumer, count = self._pending_at[slot]
        if count > 1:
            self._pending_at[slot] = (consumer, count - 1)
            return False
        del self._pending_at[slot]
        parked = self._parked.pop(slot, None)
        if parked is None:
            return False
        for waiting in parked:
            self._enqueue(waiting, slot)
        return True

    def _on_removed_all(self, entries: Sequence[tuple[int, int]]) -> bool:
        slots, freed = self._slots, False
        for entry in entries:
            slot = slots.pop(entry)  # type: ignore[call-overload]  # equal to a Position
            if self._drains and self._release(slot):
                freed = True
        return freed

    # Waiting entries

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
        consumer = self._selector.select(slot)
        if consumer is None:
            self._parked.setdefault(slot, []).append(position)
        else:
            heapq.heappush(self._queues[consumer], position)

    def _remove_waiting(self, position: Position) -> None:
        """Remove a waiting entry. `_head` removes it from its queue later."""
        slot = self._waiting.pop(position, None)
        if slot is None:
            return
        if self._waiting_of[slot] > 1:
            self._waiting_of[slot] -= 1
        else:
            del self._waiting_of[slot]

    def _head(self, consumer: ConsumerState) -> Position | None:
        """Return the first waiting entry that a consumer may get now; park those of slots that drain."""
        queue = self._queues[consumer]
        while queue:
            position = queue[0]
            slot = self._waiting.get(position)
            if slot is None:
                heapq.heappop(queue)
            elif not self._wanted(position):
                self._remove_waiting(position)
            elif self._may_receive(consumer, slot):
                return position
            else:
                self._parked.setdefault(slot, []).append(heapq.heappop(queue))
        return None

    def _run_length(self, first: Position, limit: int) -> int:
        count = 1
        while count < limit and type(first)(first.ledger_id, first.entry_id + count) in self._waiting:
            count += 1
        return count

    def _reassign_waiting(self) -> None:
        """Queue all waiting entries again after a change of slots."""
        self._parked.clear()
        for queue in self._queues.values():
            queue.clear()
        for position, slot in self._waiting.items():
            self._enqueue(position, slot)
