"""Positions that must be read once more, first the earliest."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from readonly_engine.topic.position import Position

if TYPE_CHECKING:
    from collections.abc import Callable


class RedeliveryQueue:
    """A set of positions that gives its first one. What is taken out of the set leaves the heap when it comes to its top."""

    def __init__(self) -> None:
        self._heap: list[Position] = []
        self._members: set[Position] = set()

    def __contains__(self, position: Position) -> bool:
        return position in self._members

    def __len__(self) -> int:
        return len(self._members)

    def add(self, position: Position) -> None:
        """Put a position in."""
        if position not in self._members:
            self._members.add(position)
            heapq.heappush(self._heap, position)

    def discard(self, position: Position) -> None:
        """Take a position out, if it is in."""
        self._members.discard(position)

    def first(self, wanted: Callable[[Position], bool]) -> Position | None:
        """The earliest position; those that are not wanted any more are taken out."""
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
        """How many positions that follow one another, from one of this set on, are in it; at most so many."""
        ledger_id, entry_id = first
        count = 1
        while count < limit and Position(ledger_id, entry_id + count) in self._members:
            count += 1
        return count

    def clear(self) -> None:
        """Take everything out."""
        self._heap.clear()
        self._members.clear()
