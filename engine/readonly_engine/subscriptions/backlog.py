"""Backlogs of cursors: how many entries a topic has that a cursor has not acked. Pure."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_engine.broker.cursors.local_cursor import LocalCursor
    from readonly_engine.topic.position import Position


class TopicEntries:
    """The entries of a topic.

    Args:
        ledgers: each ledger with its number of entries, in order; that of the last one does not count.
        last_confirmed: the last entry; before the first one of the last ledger if that is empty.
    """

    def __init__(self, ledgers: Sequence[tuple[int, int]], last_confirmed: Position) -> None:
        counts = [entries for _, entries in ledgers]
        self._ids = [ledger for ledger, _ in ledgers]
        if ledgers:
            counts[-1] = last_confirmed.entry_id + 1 if last_confirmed.ledger_id == self._ids[-1] else 0
        self._counts = counts
        self._before = [0, *accumulate(counts)]

    def backlog(self, cursor: LocalCursor) -> int:
        """Return the number of entries that a cursor has not acked, as `msgBacklog` of Pulsar's statistics counts them."""
        acked = self._up_to(cursor.mark_delete)
        acked += sum(self._up_to(upper) - self._up_to(lower) for lower, upper in cursor.ranges)
        return self._before[-1] - acked

    def _up_to(self, position: Position) -> int:
        index = bisect_left(self._ids, position.ledger_id)
        found = self._before[index]
        if index < len(self._ids) and self._ids[index] == position.ledger_id:
            found += min(position.entry_id + 1, self._counts[index])
        return found
