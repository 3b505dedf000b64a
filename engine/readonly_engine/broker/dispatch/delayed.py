"""Delayed delivery: positions of entries are held until they are due."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

from readonly_engine.topic.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOK_AHEAD = 50_000
"""So many entries that all came in the order of their times tell that nothing earlier follows: no more are read until one is
due (delayedDeliveryFixedDelayDetectionLookahead)."""

MAX_DELAYED = 1_000_000
"""Beyond this no more are read until some are due, in whatever order they come: memory is bounded."""

TICK_MS = 1000
"""Times that differ by less are in order (delayedDeliveryTickTimeMillis)."""


class DelayedEntry(NamedTuple):
    """An entry that is held; ordered by time, then by position.

    Attributes:
        deliver_at: when it is due, in ms since the epoch.
        ledger_id: its ledger.
        entry_id: its place there.
        slot: the hash of its key, for Key_Shared.
    """

    deliver_at: int
    ledger_id: int
    entry_id: int
    slot: int


class DelayedDeliveryTracker:
    """Tracks delayed entries until they are due.

    Nothing of this is stored: the cursor does not pass an entry that is not acked, so a broker that starts finds all of them.
    Unlike the owner, which delivers up to a tick too early unless isDelayedDeliveryDeliverAtTimeStrict is set, it never is early.

    Attributes:
        heap: what is held, the first one due first.
    """

    def __init__(self) -> None:
        self.heap: list[DelayedEntry] = []
        self._highest = 0
        self._in_order = True

    def __len__(self) -> int:
        return len(self.heap)

    def add(self, position: Position, deliver_at: int, slot: int = 0) -> None:
        """Add a delayed entry."""
        heapq.heappush(self.heap, DelayedEntry(deliver_at, position.ledger_id, position.entry_id, slot))
        if deliver_at < self._highest - TICK_MS:
            self._in_order = False
        self._highest = max(self._highest, deliver_at)

    def mark_unordered(self) -> None:
        """Note an entry without delay: delivery times are not in the order of entries."""
        self._in_order = False

    def take_due(self, now: int) -> Iterator[tuple[Position, int]]:
        """Remove and return the due entries: positions and slots, in the order of their times."""
        heap = self.heap
        while heap and heap[0].deliver_at <= now:
            _, ledger_id, entry_id, slot = heapq.heappop(heap)
            yield Position(ledger_id, entry_id), slot
        if not heap:
            self._highest, self._in_order = 0, True

    def clear(self) -> None:
        """Remove all entries."""
        self.heap.clear()
        self._highest, self._in_order = 0, True

    @property
    def next_due(self) -> int | None:
        """Return when the first entry is due, in ms since the epoch; None if there is none."""
        return self.heap[0].deliver_at if self.heap else None

    @property
    def full(self) -> bool:
        """Return whether reads must pause until an entry is due."""
        return len(self.heap) >= (LOOK_AHEAD if self._in_order else MAX_DELAYED)
