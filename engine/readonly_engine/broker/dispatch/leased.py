"""Shared, where another broker of the pool decides which entries are dispatched here: only those of leased runs."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from readonly_engine.broker.dispatch.consumer_state import total_permits
from readonly_engine.broker.dispatch.multiple import DEFAULT_LIMITS, UnackedLimits
from readonly_engine.broker.dispatch.shared import SharedDispatcher
from readonly_engine.topic.position import LATEST, Position, PositionRanges

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_engine.broker.dispatch.consumer_state import Delivery
    from readonly_engine.broker.dispatch.cursor import CursorReplica
    from readonly_engine.broker.dispatch.delayed import DelayedEntry
    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.entries import TopicEntry

NOWHERE: Final = LATEST
"""After every entry: the next new entry of a dispatcher without leases."""


class LeasedDispatcher(SharedDispatcher):
    """Dispatches the entries of leased runs to the consumers on this broker, in the order of the leases.

    The coordinator counts the unacked messages of all brokers. It leases entries before their messages are known, so this broker
    stops at the limit of the subscription, too.

    Attributes:
        indivisible: whether one broker must serve the subscription alone. A chunk of a large message sets it: all chunks of a
            message must go to one consumer, and their leases may be at several brokers, so none is dispatched.
        leased_to: the last entry that was ever leased; None before. The coordinator has leased it, so it is confirmed.
    """

    def __init__(
        self, chain: LedgerChain, cursor: CursorReplica, limits: UnackedLimits = DEFAULT_LIMITS, *, delayed: bool = True
    ) -> None:
        super().__init__(chain, cursor, limits, delayed=delayed)
        self.indivisible = False
        self._runs: deque[tuple[Position, Position]] = deque()
        self._end = NOWHERE
        self._next = NOWHERE
        self.leased_to: Position | None = None

    # Leases

    def lease(self, first: Position, last: Position, redelivery_count: int = 0) -> None:
        """Add a run of entries. One that continues the last run joins it: they are read together.

        Args:
            first: its first entry.
            last: its last entry, of the same ledger.
            redelivery_count: the redelivery count of each.
        """
        begin, end = self._runs[-1] if self._runs else (NOWHERE, NOWHERE)
        if end == _before(first):
            self._runs[-1] = begin, last
        else:
            self._runs.append((first, last))
        self.leased_to = last if self.leased_to is None else max(self.leased_to, last)
        if redelivery_count:
            for entry_id in range(first.entry_id, last.entry_id + 1):
                self._redeliveries[Position(first.ledger_id, entry_id)] = redelivery_count

    @property
    def undelivered(self) -> int:
        """Number of entries that wait for permits: of the leased runs, and those to deliver again."""
        return (
            self._left
            + sum(last.entry_id - first.entry_id + 1 for first, last in self._runs)
            + len(self._redelivery_queue)
        )

    @property
    def _left(self) -> int:
        """Number of entries of the current run that were not dispatched yet."""
        return self._end.entry_id - self._next.entry_id + 1 if self._next <= self._end < NOWHERE else 0

    def left_from(self, position: Position) -> int:
        """Return the number of entries from a position on to the end of their run, if it is the next new one; otherwise 0."""
        return self._left if position == self._next else 0

    @property
    def ready(self) -> bool:
        """Whether a consumer can get a message now."""
        return total_permits(self.consumers) > 0

    def take_undelivered(self) -> tuple[PositionRanges, dict[Position, int]]:
        """Give up the entries that wait for permits; return them, and the redelivery counts of those that have any."""
        taken = PositionRanges()
        if self._left:
            taken.add_range(_before(self._next), self._end)
        taken.add_ranges((_before(first), last) for first, last in self._runs)
        taken.add_ranges((_before(position), position) for position in self._redelivery_queue.take_all())
        self._runs.clear()
        self._end = self._next = NOWHERE
        counts = {position: count for position, count in self._redeliveries.items() if position in taken}
        for position in counts:
            del self._redeliveries[position]
        return taken, counts

    @property
    def redelivery_counts(self) -> dict[Position, int]:
        """The redelivery counts of entries that were not acked."""
        return {
            position: count for position, count in self._redeliveries.items() if not self._cursor.is_acked(position)
        }

    def take_delayed(self, deliver_at: int, limit: int) -> list[DelayedEntry]:
        """Give up delayed entries that are due after a time, in ms since the epoch; return them, `limit` at most."""
        return self._delayed.take_after(deliver_at, limit)

    def rewind(self) -> None:
        """Forget all leases."""
        super().rewind()
        self._runs.clear()
        self._end = self._next = NOWHERE

    # Dispatch

    def next_read(self, now: int) -> tuple[Position, int] | None:
        """Return the next read: first the entries for redelivery, then those of the leases. None once it is indivisible."""
        if self.indivisible:
            return None
        self.on_timer(now)
        permits = total_permits(self.consumers)
        if not permits:
            return None
        first = self._redelivery_queue.first(self._wanted)
        if first is not None:
            return first, self._redelivery_queue.run_length(first, permits)
        if not self._may_read_new or not self._find_next():
            return None
        return self._next, min(permits, self._left)

    def _find_next(self) -> bool:
        """Go to the next leased unacked entry; return False without one."""
        while True:
            if self._next <= self._end < NOWHERE:
                position = self._cursor.next_unacked(self._next)
                if position <= self._end:
                    self._next = position
                    return True
            if not self._runs:
                self._end = self._next = NOWHERE
                return False
            self._next, self._end = self._runs.popleft()

    def dispatch(self, entries: Iterable[TopicEntry], now: int) -> list[Delivery]:
        """Dispatch entries; see Dispatcher."""
        found = list(entries)
        following = self._next
        redelivery = bool(found) and found[0].position in self._redelivery_queue
        if redelivery or not found or found[0].position != following:
            self._next = NOWHERE  # an entry after the leased ones is none of them
            try:
                return super().dispatch(found, now)
            finally:
                self._next = following
        return super().dispatch([entry for entry in found if entry.position <= self._end], now)

    def restore(self, positions: list[Position]) -> bool:
        """Deliver withheld entries of this broker again; the coordinator's broker restores the others."""
        return super().restore([position for position in positions if position in self._withheld])

    def _assign_chunk(self, entry: TopicEntry, deliveries: list[Delivery]) -> bool:
        del entry, deliveries
        self.indivisible = True
        return False


def _before(position: Position) -> Position:
    return Position(position.ledger_id, position.entry_id - 1)
