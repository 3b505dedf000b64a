"""Delayed delivery: the tracker keeps positions of entries until they are due."""

from __future__ import annotations

import heapq
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from readonly_engine.topic.position import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOOK_AHEAD = 50_000
"""Tracked entries at which reads pause until one is due, if all entries were in the order of their times. Then the next ones are
expected to be due later, too (delayedDeliveryFixedDelayDetectionLookahead)."""

MAX_DELAYED = 1_000_000
"""Tracked entries at which reads pause in any order, to bound memory."""

TICK_MS = 1000
"""Difference of times up to which entries count as ordered (delayedDeliveryTickTimeMillis)."""


class DeliveryClock(Protocol):
    """Time by which delayed messages are due."""

    def delivery_ms(self) -> int:
        """Return the time, in ms since the epoch."""

    def seconds_until(self, deliver_at: int) -> float | None:
        """Return how long it takes until this time; None for never, unless the clock is changed."""


class MachineClock:
    """The time of this machine."""

    @staticmethod
    def delivery_ms() -> int:
        """Return the time, in ms since the epoch."""
        return time.time_ns() // 1_000_000

    def seconds_until(self, deliver_at: int) -> float:
        """Return how long it takes until this time."""
        return (deliver_at - self.delivery_ms()) / 1000


MACHINE_CLOCK: Final = MachineClock()


class DelayedEntry(NamedTuple):
    """A tracked entry. Entries are ordered by time, then by position.

    Attributes:
        deliver_at: time of delivery, in ms since the epoch.
        ledger_id: id of the ledger.
        entry_id: id of the entry.
        slot: slot of its key (KeySelector), for Key_Shared.
    """

    deliver_at: int
    ledger_id: int
    entry_id: int
    slot: int


class DelayedDeliveryTracker:
    """Tracks delayed entries until they are due.

    Nothing is stored: the cursor does not pass unacked entries, so a broker that starts finds all of them again. Delivery is
    never early. An owner may be early by a tick, unless isDelayedDeliveryDeliverAtTimeStrict is set.

    Attributes:
        heap: heap of the tracked entries.
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
        """Record an entry without delay, after which delivery times are not in the order of entries."""
        self._in_order = False

    def on_timer(self, now: int) -> Iterator[tuple[Position, int]]:
        """Remove the due entries and yield their positions and slots, in the order of their times."""
        heap = self.heap
        while heap and heap[0].deliver_at <= now:
            _, ledger_id, entry_id, slot = heapq.heappop(heap)
            yield Position(ledger_id, entry_id), slot
        if not heap:
            self._highest, self._in_order = 0, True

    def keep(self, wanted: Callable[[DelayedEntry], bool]) -> None:
        """Remove all other entries."""
        if self.heap:
            self.heap = [entry for entry in self.heap if wanted(entry)]
            heapq.heapify(self.heap)

    def take_after(self, deliver_at: int, limit: int) -> list[DelayedEntry]:
        """Remove entries that are due after a time; return them, `limit` at most."""
        taken = [entry for entry in self.heap if entry.deliver_at > deliver_at][:limit]
        if taken:
            gone = set(taken)
            self.keep(lambda entry: entry not in gone)
        return taken

    def clear(self) -> None:
        """Remove all entries."""
        self.heap.clear()
        self._highest, self._in_order = 0, True

    def next_timer(self) -> int | None:
        """Return the time of the first entry, in ms since the epoch; None without one."""
        return self.heap[0].deliver_at if self.heap else None

    @property
    def full(self) -> bool:
        """Whether reads must pause until an entry is due."""
        return len(self.heap) >= (LOOK_AHEAD if self._in_order else MAX_DELAYED)
