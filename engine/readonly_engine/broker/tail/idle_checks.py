"""Decides when a topic that the owner pushes is compared with its bookies, pure. Times are seconds of any one clock.

An owner delivers neither markers nor messages of aborted transactions. Consumers must ack them all the same, as the owner's
dispatcher does. Otherwise a topic at rest has a backlog that nobody reads.
"""

from __future__ import annotations

from typing import Final

AFTER_S: Final = (1.0, 5.0, 30.0)
"""Times after a pushed entry at which a topic that had gaps between pushed entries is compared."""

ENDLESS_S: Final = 60.0
"""Interval of later comparisons on clusters with transactions: the owner pushes nothing of a transaction that is aborted."""


class IdleChecks:
    """Times of the comparisons of one topic.

    Args:
        now: the time.
    """

    __slots__ = ("_done", "_next", "_since")

    def __init__(self, now: float) -> None:
        self._since = now
        self._done = 0
        self._next = now + AFTER_S[0]

    def pushed(self, now: float) -> None:
        """Handle a pushed entry."""
        self._since, self._done = now, 0
        self._next = now + AFTER_S[0]

    def next(self, *, endless: bool) -> float | None:
        """Return the time of the next comparison; None for no more.

        Args:
            endless: whether comparisons go on while nothing is pushed.
        """
        return self._next if endless or self._done < len(AFTER_S) else None

    def checked(self, now: float) -> None:
        """Handle a comparison that has begun."""
        self._done += 1
        self._next = self._since + AFTER_S[self._done] if self._done < len(AFTER_S) else now + ENDLESS_S
