"""Comparison of two cursors of one topic: whether one has acked everything that the other has. Pure.

An owner and a pool may write one and the same state in two forms: the position after a ledger's last entry is also the position
before the first entry of the next ledger. Comparisons use the later form.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from readonly_engine.topic.position import EARLIEST, Position, PositionRanges

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from readonly_engine.wire.cursor_records import Range


class Ledgers:
    """The ledgers of a topic.

    Args:
        ledgers: each ledger with its number of entries, in order; that of the last one does not count.
    """

    def __init__(self, ledgers: Sequence[tuple[int, int]]) -> None:
        self._ids = [ledger for ledger, _ in ledgers]
        self._closed = dict(ledgers[:-1])
        self._following = {one: other for (one, _), (other, _) in pairwise(ledgers)}

    def latest_form(self, position: Position) -> Position:
        """Return the last position before the same next entry."""
        if not self._ids or position.ledger_id < self._ids[0]:
            return position
        while (entries := self._closed.get(position.ledger_id)) is not None and position.entry_id >= entries - 1:
            position = Position(self._following[position.ledger_id], -1)
        return position

    def held_form(self, position: Position) -> Position:
        """Return the last position before the same next entry, of those that the topic still has."""
        return self.latest_form(max(position, Position(self._ids[0], -1))) if self._ids else position

    def last_entry(self, position: Position) -> Position | None:
        """Return the last entry up to a position; None if the topic has no entry there any more."""
        if position.entry_id >= 0:
            return position
        for ledger, entries in reversed(self._closed.items()):
            if ledger < position.ledger_id and entries:
                return Position(ledger, entries - 1)
        return None

    def entries_in(self, lower: Position, upper: Position) -> Iterator[Position]:
        """Yield the entries of a range (lower, upper] that the topic still has."""
        for ledger in self._ids:
            if lower.ledger_id <= ledger <= upper.ledger_id:
                begin = lower.entry_id + 1 if ledger == lower.ledger_id else 0
                end = self._closed.get(ledger, upper.entry_id + 1)
                if ledger == upper.ledger_id:
                    end = min(end, upper.entry_id + 1)
                yield from (Position(ledger, entry) for entry in range(max(begin, 0), end))

    def count_in(self, ranges: Iterable[Range]) -> int:
        """Return an upper bound of the number of entries in ranges."""
        total = 0
        for lower, upper in ranges:
            if lower.ledger_id == upper.ledger_id:
                total += upper.entry_id - lower.entry_id
            else:
                total += upper.entry_id + 1
                total += sum(
                    entries for ledger, entries in self._closed.items() if lower.ledger_id <= ledger < upper.ledger_id
                )
        return total

    def set_of(self, ranges: Iterable[Range]) -> PositionRanges:
        """Return ranges as a set, in the later form, from the first entry that the topic still has."""
        begin = Position(self._ids[0], -1) if self._ids else EARLIEST
        found = PositionRanges()
        found.add_ranges(
            (max(self.latest_form(lower), begin), max(self.latest_form(upper), begin)) for lower, upper in ranges
        )
        return found


def up_to(mark_delete: Position) -> Range:
    """Return the range of everything up to a mark-delete position."""
    return EARLIEST, mark_delete


def covers(ledgers: Ledgers, covering: Iterable[Range], covered: Iterable[Range]) -> bool:
    """Return whether a cursor has acked everything that another one has.

    Args:
        ledgers: the topic's ledgers.
        covering: all acked ranges of the first cursor, from the beginning of the topic.
        covered: those of the second one.
    """
    return not len(ledgers.set_of(covered).without(ledgers.set_of(covering)))
