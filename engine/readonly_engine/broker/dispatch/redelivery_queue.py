"""Positions to read again, earliest first."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from readonly_engine.topic.position import Position

if TYPE_CHECKING:
    from collections.abc import Callable


class RedeliveryQueue:
    """An ordered set of positions. A discarded position leaves the heap when it reaches the top."""

    def __init__(self) -> None:
        self._heap: list[Position] = []
        self._members: set[Position] = set()

    def __contains__(self, position: Position) -> bool:
        return position in self._members

    def __len__(self) -> int:
        return len(self._members)

    def add(self, position: Position) -> None:
        """Add a position."""
        if position not in self._members:
            self._members.add(position)
            heapq.heappush(self._heap, position)

    def discard(self, position: Position) -> None:
        """Remove a position, if present."""
        self._members.discard(position)

    def first(self, wanted: Callable[[Position], bool]) -> Position | None:
        """Return the earliest wanted position; unwanted ones before it are removed."""
        heap, members = self._heap, self._members
        while heap:
            position = heap[0]
            if position in members:
                if wanted(position):
                    return position
                members.discard(position)
            heapq.heappop(heap)
        return None

    def run_length(self, first: Position, limit: int) -> int:
        """Return the number of consecutive positions from `first` on in the set, at most `limit`."""
        ledger_id, entry_id = first
        count = 1
        while count < limit and Position(ledger_id, entry_id + count) in self._members:
            count += 1
        return count

    def take_all(self) -> list[Position]:
        """Remove all positions; return them, in order."""
        taken = sorted(self._members)
        self.clear()
        return taken

    def clear(self) -> None:
        """Remove all positions."""
        self._heap.clear()
        self._members.clear()
