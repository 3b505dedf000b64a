"""How far the owner may delete a topic: the position of the guard, a durable subscription of the pool at the owner. Pure.

One guard holds the retention for all cursors of one partition in one topic. It stands at the beginning of a ledger, because the
owner deletes whole ledgers, and so it moves seldom. Only the broker that has the partition moves it. Where the owner counts its
backlog (guard_policies.py), it also follows the slowest cursor inside of a ledger.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from readonly_engine.topic.position import EARLIEST, Position

if TYPE_CHECKING:
    from collections.abc import Iterable

LATE_POSITIONS: Final = 2
"""Positions past a cursor that a late move explains: its own, and that of an expiry before it, which looks the same."""


def ledger_begin(mark_delete: Position) -> Position:
    """Return the mark-delete position at the beginning of a position's ledger; EARLIEST for the beginning of the topic."""
    return EARLIEST if mark_delete.ledger_id < 0 else Position(mark_delete.ledger_id, -1)


class Guard:
    """The guard of one topic.

    Args:
        former: the lowest mark-delete position of the stored cursors now; None without a cursor.

    Attributes:
        mark_delete: its mark-delete position, with the end of a ledger as the beginning of the next one; None while the owner has
            no such subscription.
    """

    def __init__(self, former: Position | None = None) -> None:
        self.mark_delete: Position | None = None
        self._expected: Counter[Position] = Counter()
        self._late = former
        self._late_positions = 0 if former is None else LATE_POSITIONS

    @property
    def expected(self) -> Iterable[Position]:
        """The mark-delete positions of cursors that are about to be there."""
        return self._expected.keys()

    def expect(self, mark_delete: Position) -> None:
        """Hold the retention for a cursor that will be there; `arrived` must follow."""
        self._expected[mark_delete] += 1

    def arrived(self, mark_delete: Position) -> None:
        """Handle that an expected cursor is there, or will not come."""
        self._expected[mark_delete] -= 1
        if not self._expected[mark_delete]:
            del self._expected[mark_delete]

    def target(self, slowest: Position | None, *, follow: bool = False) -> Position | None:
        """Return where the guard has to be; None for no guard.

        Args:
            slowest: the lowest mark-delete position of the stored cursors; None without a cursor.
            follow: whether it moves on inside of a ledger.
        """
        needed = self._needed(slowest)
        if needed is None:
            return None
        begin, present = ledger_begin(needed), self.mark_delete
        if present is None or not begin <= present <= needed:
            return begin
        return needed if follow else present

    def lag(self, slowest: Position | None) -> int:
        """Return the number of entries by which it may move on inside of a ledger."""
        needed, present = self._needed(slowest), self.mark_delete
        if needed is None or present is None or needed.ledger_id != present.ledger_id:
            return 0
        return max(0, needed.entry_id - present.entry_id)

    def _needed(self, slowest: Position | None) -> Position | None:
        return min((*self._expected, *(() if slowest is None else (slowest,))), default=None)

    def retains(self, mark_delete: Position) -> bool:
        """Return whether the owner retains everything after a position already."""
        return self.mark_delete is not None and self.mark_delete <= mark_delete

    def expired(self, at_owner: Position, slowest: Position | None) -> bool:
        """Return whether the owner has moved the guard past a cursor: by expiry (TTL), by a backlog quota, or by its admin API.

        Only a position that was known before can show that. An owner creates a subscription at the end of the topic, and then
        moves it to the position of the request (PersistentTopicsBase); one that dies in between leaves it at the end.

        Args:
            at_owner: its mark-delete position at the owner.
            slowest: the lowest mark-delete position of the stored cursors; None without a cursor.
        """
        return slowest is not None and self.mark_delete is not None and at_owner > max(slowest, self.mark_delete)

    def unanswered(self, target: Position) -> None:
        """Record that a move was sent, and that the owner may carry it out at any time."""
        self.mark_delete = None
        self._late = target if self._late is None else max(self._late, target)
        self._late_positions += LATE_POSITIONS

    def take_late(self, at_owner: Position) -> bool:
        """Return whether a late move of the pool may have brought the guard to a position; as often as there may be such moves.

        The owner does not fence moves: one of a former holder of the partition, which was frozen or was not answered, may be
        carried out after a cursor was moved back here. It ends behind stored cursors, so at most at those that were found here.
        """
        late = self._late is not None and at_owner <= self._late and self._late_positions > 0
        self._late_positions -= late
        return late
