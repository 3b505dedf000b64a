"""Shared: entries go round to all consumers with permits; what one leaves unacked goes to others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.broker.dispatch.multiple import DEFAULT_LIMITS, MultipleDispatcher, UnackedLimits
from readonly_engine.broker.dispatch.receiver import Run, permits_of
from readonly_engine.broker.dispatch.replay import ReplayQueue

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from readonly_engine.broker.cursor import CursorCopy
    from readonly_engine.broker.dispatch.receiver import Delivery, Receiver
    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.position import Position

MOST_CHUNKED = 10_000
"""Chunked messages of which it is remembered who has their first chunks; those that were begun longest ago are forgotten."""


class SharedDispatcher(MultipleDispatcher):
    """Serves the consumers of the highest priority in turn, and the next ones when those have no permits.

    Of a message in chunks one consumer gets all (SharedConsumerAssignor).
    """

    BATCH = 20
    """Entries for one consumer before the next gets its turn (dispatcherMaxRoundRobinBatchSize)."""

    def __init__(
        self, chain: LedgerChain, cursor: CursorCopy, limits: UnackedLimits = DEFAULT_LIMITS, *, delayed: bool = True
    ) -> None:
        super().__init__(chain, cursor, limits, delayed=delayed)
        self._replays = ReplayQueue()
        self._turn = 0
        self._turn_used = 0
        self._chunked: dict[str, Receiver] = {}
        self._waiting_chunks: dict[Position, Receiver] = {}

    def remove(self, receiver: Receiver) -> None:
        """A consumer left."""
        super().remove(receiver)
        self._chunked = {uuid: holder for uuid, holder in self._chunked.items() if holder is not receiver}
        self._release_chunks()

    def want(self, now: int) -> tuple[Position, int] | None:
        """Where to read on: first what must be delivered again."""
        self._release_due(now)
        permits = permits_of(self.receivers)
        if not permits:
            return None
        if self._waiting_chunks:
            self._release_chunks()
        first = self._replays.first(self._wanted)
        if first is not None:
            return first, self._replays.run(first, permits)
        if not self._reads_on:
            return None
        self._next = self._cursor.next_unacked(self._next)
        return self._next, permits

    def offer(self, entries: Iterable[TopicEntry], now: int) -> list[Delivery]:
        """Hand out entries."""
        deliveries: list[Delivery] = []
        cursor, replays, begin, passed = self._cursor, self._replays, self._next, None
        mark_delete, sparse = cursor.mark_delete, cursor.sparse
        for entry in entries:
            position = entry.position
            new = position >= begin
            if not new and position not in replays:
                continue
            if not (entry.marker or position <= mark_delete or (sparse and cursor.is_acked(position))):
                if new and not self._reads_on:
                    break
                if (entry.deliver_at or self._delayed.heap) and self._must_wait(entry, now):
                    self._delayed.hold(position, entry.deliver_at)
                elif entry.chunk is not None:
                    if not self._hand_out_chunk(entry, deliveries):
                        break
                else:
                    receiver = self._choose()
                    if receiver is None:
                        break
                    deliveries.append(self._hand_out(receiver, entry))
            if new:
                passed = position
            else:
                replays.discard(position)
        if passed is not None:
            self._next = self._chain.after(passed)
        return deliveries

    def offer_plainly(self, entries: Sequence[TopicEntry]) -> list[Run] | None:
        """As `offer`."""
        first = entries[0].position
        if (
            first != self._next
            or self._redeliveries
            or len(self._replays)
            or self._delayed.heap
            or not self._reads_on
            or not self._cursor.untouched(first)
        ):
            return None
        runs: list[Run] = []
        at, count = 0, len(entries)
        while at < count and not self._blocked:
            receiver = self._choose()
            if receiver is None:
                break
            more = self.BATCH - self._turn_used if receiver.priority == self.receivers[0].priority else 0
            run = self._hand_out_run(receiver, entries, at, min(count, at + 1 + more))
            self._turn_used += len(run.entries) - 1
            at += len(run.entries)
            runs.append(run)
        if at:
            self._next = self._chain.after(entries[at - 1].position)
        return runs

    def _hand_out_run(self, receiver: Receiver, entries: Sequence[TopicEntry], at: int, end: int) -> Run:
        """The entries from `at` to `end`, or as many as the consumer can take; at least one."""
        pending = receiver.pending
        permits = receiver.permits
        room = min(self._most_of_consumer - receiver.unacked, self._most - self._unacked)
        begin, messages = at, 0
        for entry in entries[at:end]:
            held = pending[entry.position] = entry.messages
            messages += held
            at += 1
            if messages >= permits or messages >= room:
                break
        receiver.permits = permits - messages
        receiver.unacked += messages
        self._unacked += messages
        receiver.blocked = receiver.unacked >= self._most_of_consumer
        self._blocked = self._unacked >= self._most
        return Run(receiver, entries[begin:at], messages)

    def _replay(self, position: Position, slot: int = 0) -> None:
        del slot
        self._replays.add(position)

    def _forget_replays(self) -> None:
        self._replays.clear()
        self._waiting_chunks.clear()
        self._chunked.clear()

    # Turns

    def _choose(self) -> Receiver | None:
        """The consumer whose turn it is, or the next one of the highest priority that can take an entry."""
        receivers = self.receivers
        count = len(receivers)
        if not count:
            return None
        if self._turn >= count:
            self._turn = self._turn_used = 0
        current = receivers[self._turn]
        highest = receivers[0].priority
        if self._turn_used < self.BATCH and current.ready and current.priority == highest:
            self._turn_used += 1
            return current
        chosen = -1
        for step in range(1, count + 1):
            index = (self._turn + step) % count
            receiver = receivers[index]
            if receiver.ready and (chosen < 0 or receiver.priority < receivers[chosen].priority):
                chosen = index
                if receiver.priority == highest:
                    break
        if chosen < 0:
            return None
        self._turn, self._turn_used = chosen, 1
        return receivers[chosen]

    # Chunks

    def _hand_out_chunk(self, entry: TopicEntry, deliveries: list[Delivery]) -> bool:
        """Give a chunk to the consumer that has the others, now or when that has permits; False where nobody can have it now."""
        assert entry.chunk is not None
        uuid, index, count = entry.chunk
        receiver = self._chunked.get(uuid)
        if receiver is None:
            receiver = self._choose()
            if receiver is None:
                return False
            if index < count - 1:
                self._chunked[uuid] = receiver
                if len(self._chunked) > MOST_CHUNKED:
                    del self._chunked[next(iter(self._chunked))]
        elif not receiver.ready:
            self._waiting_chunks[entry.position] = receiver
            return True
        if index >= count - 1:
            self._chunked.pop(uuid, None)
        deliveries.append(self._hand_out(receiver, entry))
        return True

    def _release_chunks(self) -> None:
        """Read once more the chunks whose consumer has permits, or is gone."""
        ready = [p for p, receiver in self._waiting_chunks.items() if receiver.ready or receiver not in self.receivers]
        for position in ready:
            del self._waiting_chunks[position]
            self._replays.add(position)
