"""Shared: round robin over the consumers with permits; others get the unacked entries of a consumer that leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.broker.dispatch.consumer_state import EntryRun, total_permits
from readonly_engine.broker.dispatch.multiple import DEFAULT_LIMITS, MultipleDispatcher, UnackedLimits
from readonly_engine.broker.dispatch.redelivery_queue import RedeliveryQueue

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from readonly_engine.broker.dispatch.consumer_state import ConsumerState, Delivery
    from readonly_engine.broker.dispatch.cursor import CursorReplica
    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.position import Position

MAX_CHUNKED = 10_000
"""Bound of chunked messages with a known consumer. The one that began first is dropped."""


class SharedDispatcher(MultipleDispatcher):
    """Serves the consumers of the highest priority in turn, and those of the next priority when the former have no permits.

    All chunks of a message go to one consumer (SharedConsumerAssignor).
    """

    ROUND_ROBIN_BATCH = 20
    """Consecutive entries for one consumer (dispatcherMaxRoundRobinBatchSize)."""

    def __init__(
        self, chain: LedgerChain, cursor: CursorReplica, limits: UnackedLimits = DEFAULT_LIMITS, *, delayed: bool = True
    ) -> None:
        super().__init__(chain, cursor, limits, delayed=delayed)
        self._redelivery_queue = RedeliveryQueue()
        self._turn = 0
        self._turn_used = 0
        self._chunked: dict[str, ConsumerState] = {}
        self._waiting_chunks: dict[Position, ConsumerState] = {}

    def remove(self, consumer: ConsumerState) -> None:
        """Remove a consumer. Its waiting chunks go to another one."""
        super().remove(consumer)
        self._chunked = {uuid: holder for uuid, holder in self._chunked.items() if holder is not consumer}
        self._release_chunks()

    def next_read(self, now: int) -> tuple[Position, int] | None:
        """Return the next read: first the entries for redelivery."""
        self.on_timer(now)
        permits = total_permits(self.consumers)
        if not permits:
            return None
        if self._waiting_chunks:
            self._release_chunks()
        first = self._redelivery_queue.first(self._wanted)
        if first is not None:
            return first, self._redelivery_queue.run_length(first, permits)
        if not self._may_read_new:
            return None
        self._next = self._cursor.next_unacked(self._next)
        return self._next, permits

    def dispatch(self, entries: Iterable[TopicEntry], now: int) -> list[Delivery]:
        """Dispatch entries; see Dispatcher."""
        deliveries: list[Delivery] = []
        cursor, redelivery_queue, begin, passed = self._cursor, self._redelivery_queue, self._next, None
        mark_delete, sparse = cursor.mark_delete, cursor.sparse
        for entry in entries:
            position = entry.position
            new = position >= begin
            if not new and position not in redelivery_queue:
                continue
            if not (entry.marker or position <= mark_delete or (sparse and cursor.is_acked(position))):
                if new and not self._may_read_new:
                    break
                if (entry.deliver_at or self._delayed.heap) and self._is_delayed(entry, now):
                    self._delayed.add(position, entry.deliver_at)
                elif entry.chunk is not None:
                    if not self._assign_chunk(entry, deliveries):
                        break
                else:
                    consumer = self._next_consumer()
                    if consumer is None:
                        break
                    deliveries.append(self._assign(consumer, entry))
            if new:
                passed = position
            else:
                redelivery_queue.discard(position)
        if passed is not None:
            self._next = self._chain.after(passed)
        return deliveries

    def dispatch_uniform(self, entries: Sequence[TopicEntry]) -> list[EntryRun] | None:
        """Dispatch new entries in runs. Preconditions: no redelivery, no delayed entry, none acked."""
        first = entries[0].position
        if (
            first != self._next
            or self._redeliveries
            or len(self._redelivery_queue)
            or self._delayed.heap
            or not self._may_read_new
            or not self._cursor.nothing_acked_in(first, entries[-1].position)
        ):
            return None
        runs: list[EntryRun] = []
        at, count = 0, len(entries)
        while at < count and not self._blocked:
            consumer = self._next_consumer()
            if consumer is None:
                break
            more = self.ROUND_ROBIN_BATCH - self._turn_used if consumer.priority == self.consumers[0].priority else 0
            run = self._assign_run(consumer, entries, at, min(count, at + 1 + more))
            self._turn_used += len(run.entries) - 1
            at += len(run.entries)
            runs.append(run)
        if at:
            self._next = self._chain.after(entries[at - 1].position)
        return runs

    def _assign_run(self, consumer: ConsumerState, entries: Sequence[TopicEntry], at: int, end: int) -> EntryRun:
        """Assign the entries from `at` to `end` to a consumer, or as many as its permits and limits allow; at least one."""
        pending = consumer.pending
        permits = consumer.permits
        room = min(self._max_unacked_per_consumer - consumer.unacked, self._max_unacked - self._unacked)
        begin, messages = at, 0
        for entry in entries[at:end]:
            held = pending[entry.position] = entry.messages
            messages += held
            at += 1
            if messages >= permits or messages >= room:
                break
        consumer.permits = permits - messages
        consumer.unacked += messages
        self._unacked += messages
        consumer.blocked = consumer.unacked >= self._max_unacked_per_consumer
        self._blocked = self._unacked >= self._max_unacked
        return EntryRun(consumer, entries[begin:at], messages)

    def _replay(self, position: Position, slot: int = 0) -> None:
        del slot
        self._redelivery_queue.add(position)

    def _forget_replays(self) -> None:
        self._redelivery_queue.clear()
        self._waiting_chunks.clear()
        self._chunked.clear()

    # Round robin

    def _next_consumer(self) -> ConsumerState | None:
        """Return the current consumer for up to ROUND_ROBIN_BATCH entries, then the next ready one of the highest priority."""
        consumers = self.consumers
        count = len(consumers)
        if not count:
            return None
        if self._turn >= count:
            self._turn = self._turn_used = 0
        current = consumers[self._turn]
        highest = consumers[0].priority
        if self._turn_used < self.ROUND_ROBIN_BATCH and current.ready and current.priority == highest:
            self._turn_used += 1
            return current
        chosen = -1
        for step in range(1, count + 1):
            index = (self._turn + step) % count
            consumer = consumers[index]
            if consumer.ready and (chosen < 0 or consumer.priority < consumers[chosen].priority):
                chosen = index
                if consumer.priority == highest:
                    break
        if chosen < 0:
            return None
        self._turn, self._turn_used = chosen, 1
        return consumers[chosen]

    # Chunks

    def _assign_chunk(self, entry: TopicEntry, deliveries: list[Delivery]) -> bool:
        """Assign a chunk to the consumer of the earlier chunks, or let it wait for that one. Return False without a consumer."""
        assert entry.chunk is not None
        uuid, index, count = entry.chunk
        consumer = self._chunked.get(uuid)
        if consumer is None:
            consumer = self._next_consumer()
            if consumer is None:
                return False
            if index < count - 1:
                self._chunked[uuid] = consumer
                if len(self._chunked) > MAX_CHUNKED:
                    del self._chunked[next(iter(self._chunked))]
        elif not consumer.ready:
            self._waiting_chunks[entry.position] = consumer
            return True
        if index >= count - 1:
            self._chunked.pop(uuid, None)
        deliveries.append(self._assign(consumer, entry))
        return True

    def _release_chunks(self) -> None:
        """Read the waiting chunks again whose consumer is ready or has left."""
        ready = [p for p, consumer in self._waiting_chunks.items() if consumer.ready or consumer not in self.consumers]
        for position in ready:
            del self._waiting_chunks[position]
            self._redelivery_queue.add(position)
