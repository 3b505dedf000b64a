"""Positions in a topic, and sets of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from readonly_engine.wire.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["EARLIEST", "LATEST", "Position", "PositionRanges"]

EARLIEST = Position(-1, -1)
"""Before every entry."""

LATEST = Position(1 << 63, 0)
"""After every entry."""

_NOTHING: Final[list[Position]] = []
"""Shared by all empty sets and never changed: there may be very many of them."""


class PositionRanges:
    """A set of positions as disjoint ranges (lower, upper]: a million consecutive acks are one range.

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

    def add_ranges(self, ranges: Iterable[tuple[Position, Position]]) -> None:
        """Add many ranges (lower, upper] in one pass: O(n) if they are in order, or nearly so."""
        together = sorted((*self, *((lower, upper) for lower, upper in ranges if lower < upper)))
        if not together:
            return
        lowers, uppers = [together[0][0]], [together[0][1]]
        for lower, upper in together:
            if lower > uppers[-1]:
                lowers.append(lower)
                uppers.append(upper)
            elif upper > uppers[-1]:
                uppers[-1] = upper
        self._lowers, self._uppers = lowers, uppers

    def without(self, other: PositionRanges) -> PositionRanges:
        """Return the positions of this set that are not in another. Few ranges of the other cost O(log n) each, and a copy."""
        left = PositionRanges()
        if not self._lowers:
            return left
        mine, ends, count = self._lowers, self._uppers, len(self._lowers)
        lowers: list[Position] = []
        uppers: list[Position] = []
        at, begin = 0, mine[0]  # the first range that is not done, and where the rest of it begins
        for index in range(bisect_right(other._uppers, begin), len(other._uppers)):
            lower, upper = other._lowers[index], other._uppers[index]
            whole = bisect_right(ends, lower, at)  # the ranges before this one end before the other's begins
            if whole > at:
                lowers.append(begin)
                lowers += mine[at + 1 : whole]
                uppers += ends[at:whole]
                if whole == count:
                    at = count
                    break
                at, begin = whole, mine[whole]
            if begin < lower:
                lowers.append(begin)
                uppers.append(lower)
            at = bisect_right(ends, upper, at)
            if at == count:
                break
            begin = max(mine[at], upper)
        if at < count:
            lowers.append(begin)
            lowers += mine[at + 1 :]
            uppers += ends[at:]
        if lowers:
            left._lowers, left._uppers = lowers, uppers
        return left

    def common(self, other: PositionRanges) -> PositionRanges:
        """Return the positions of both sets. Each range of the set with fewer ranges costs O(log n)."""
        few, (starts, ends) = (self, (other._lowers, other._uppers))
        if len(ends) < len(self):
            few, (starts, ends) = (other, (self._lowers, self._uppers))
        both = PositionRanges()
        lowers: list[Position] = []
        uppers: list[Position] = []
        at, count = 0, len(ends)
        for lower, upper in few:
            index = at = bisect_right(ends, lower, at)
            while index < count and starts[index] < upper:
                lowers.append(max(lower, starts[index]))
                uppers.append(min(upper, ends[index]))
                index += 1
        if lowers:
            both._lowers, both._uppers = lowers, uppers
        return both

    def after(self, position: Position) -> Iterator[tuple[Position, Position]]:
        """Yield the ranges after a position, in order."""
        for index in range(bisect_right(self._uppers, position), len(self._uppers)):
            yield max(self._lowers[index], position), self._uppers[index]

    def copy_after(self, position: Position) -> tuple[tuple[Position, Position], ...]:
        """Return the ranges after a position. It is quick also with very many: a million need some 50 ms."""
        index = bisect_right(self._uppers, position)
        lowers = self._lowers[index:]
        if lowers and lowers[0] < position:
            lowers[0] = position
        return tuple(zip(lowers, self._uppers[index:], strict=True))

    def remove_up_to(self, position: Position) -> None:
        """Remove every position up to and including this one."""
        keep = bisect_left(self._uppers, position)
        if keep < len(self._uppers) and self._uppers[keep] == position:
            keep += 1
        if keep == len(self._uppers):
            self._lowers = self._uppers = _NOTHING
            return
        del self._lowers[:keep]
        del self._uppers[:keep]
        self._lowers[0] = max(self._lowers[0], position)

    def any_between(self, lower: Position, upper: Position) -> bool:
        """Whether a position after `lower` up to and including `upper` is in the set."""
        index = bisect_right(self._uppers, lower)
        return index < len(self._uppers) and self._lowers[index] < upper

    def upper_of(self, position: Position) -> Position | None:
        """Return the end of the range that contains a position; None without one."""
        index = bisect_left(self._uppers, position)
        if index < len(self._uppers) and self._lowers[index] < position:
            return self._uppers[index]
        return None
