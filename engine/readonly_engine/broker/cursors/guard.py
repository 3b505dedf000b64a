"""How far the owner may delete a topic: the position of the guard, a durable subscription of the pool at the owner. Pure.

One guard holds the retention for all cursors of one partition in one topic. It stands at the begin of a ledger, because the owner
deletes whole ledgers, and so it moves seldom. Only the broker that has the partition moves it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from readonly_engine.topic.position import EARLIEST, Position

if TYPE_CHECKING:
    from collections.abc import Iterable


def ledger_begin(mark_delete: Position) -> Position:
    """Return the mark-delete position at the begin of a position's ledger; EARLIEST for the begin of the topic."""
    return EARLIEST if mark_delete.ledger_id < 0 else Position(mark_delete.ledger_id, -1)


class Guard:
    """The guard of one topic.

    Attributes:
        mark_delete: its mark-delete position, or a later one in the same ledger; None while the owner has no such subscription.
    """

    def __init__(self) -> None:
        self.mark_delete: Position | None = None
        self._expected: Counter[Position] = Counter()

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

    def target(self, slowest: Position | None) -> Position | None:
        """Return where the guard has to be; None for no guard.

        Args:
            slowest: the lowest mark-delete position of the stored cursors; None without a cursor.
        """
        needed = [*self._expected, *([] if slowest is None else [slowest])]
        return ledger_begin(min(needed)) if needed else None

    def retains(self, mark_delete: Position) -> bool:
        """Return whether the owner retains everything after a position already."""
        return self.mark_delete is not None and self.mark_delete <= ledger_begin(mark_delete)

    def expired(self, at_owner: Position) -> bool:
        """Return whether the owner has moved the guard: by expiry (TTL), by a backlog quota, or by its admin API.

        Args:
            at_owner: its mark-delete position at the owner.
        """
        return self.mark_delete is not None and at_owner > self.mark_delete
