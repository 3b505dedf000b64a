"""Positions in a topic, and sets of them."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from readonly_engine.wire.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["EARLIEST", "Position", "PositionRanges"]

EARLIEST = Position(-1, -1)
"""Before every entry."""

_NOTHING: Final[list[Position]] = []
"""Nothing is ever put into it: most sets are empty, and there may be very many."""


class PositionRanges:
    """A set of positions as disjoint ranges (lower, upper], in which a million acks in a row are one range.

    A range may span ledgers, as a cursor's individually deleted messages do (ManagedCursorInfo).
    """

    __slots__ = ("_lowers", "_uppers")

    def __init__(self) -> None:
        self._lowers = _NOTHING
        self._uppers = _NOTHING

    def __contains__(self, position: Position) -> bool:
        index = bisect_left(self._uppers, position)
        return index < len(self._uppers) and self._lowers[index] < position

    def __iter__(self) -> Iterator[tuple[Position, Position]]:
        return iter(zip(self._lowers, self._uppers, strict=True))

    def __len__(self) -> int:
        return len(self._lowers)

    def add(self, position: Position) -> None:
        """Add one position."""
        self.add_range(Position(position.ledger_id, position.entry_id - 1), position)

    def add_range(self, lower: Position, upper: Position) -> None:
        """Add all positions after `lower` up to and including `upper`."""
        if lower >= upper:
            return
        if not self._lowers:
            self._lowers, self._uppers = [lower], [upper]
            return
        first = bisect_left(self._uppers, lower)  # the first range that touches or follows the new one
        end = first
        while end < len(self._lowers) and self._lowers[end] <= upper:
            lower = min(lower, self._lowers[end])
            upper = max(upper, self._uppers[end])
            end += 1
        self._lowers[first:end] = [lower]
        self._uppers[first:end] = [upper]

    def remove_up_to(self, position: Position) -> None:
        """Forget every position up to and including this one."""
        keep = bisect_left(self._uppers, position)
        if keep < len(self._uppers) and self._uppers[keep] == position:
            keep += 1
        if keep == len(self._uppers):
            self._lowers = self._uppers = _NOTHING
            return
        del self._lowers[:keep]
        del self._uppers[:keep]
        self._lowers[0] = max(self._lowers[0], position)

    def any_after(self, position: Position) -> bool:
        """Whether a position behind this one is in the set."""
        return bool(self._uppers) and self._uppers[-1] > position

    def upper_of(self, position: Position) -> Position | None:
        """The end of the range that holds a position; None where it is in none."""
        index = bisect_left(self._uppers, position)
        if index < len(self._uppers) and self._lowers[index] < position:
            return self._uppers[index]
        return None
