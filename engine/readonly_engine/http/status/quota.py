"""Bound of the work for status pages, so that they take little from the clients of the broker. Pure."""

from __future__ import annotations

from typing import Final

MAX_CONCURRENT: Final = 2
"""Pages that are made at once."""

SHARE: Final = 0.1
"""Share of the event loop's time for pages, in the long run."""

BURST_S: Final = 1.0
"""Seconds of work that are possible at once, after a quiet time."""


class PageQuota:
    """Admits pages while few are being made, and while those before did not take more than their share of time.

    The time of a page is known at its end only. So the quota may be in debt, and then it admits no page for a while.
    """

    def __init__(self) -> None:
        self._running = 0
        self._left = BURST_S
        self._at: float | None = None

    def enter(self, now: float) -> float:
        """Admit a page; `leave` must follow.

        Args:
            now: the time, in seconds of any one clock.

        Returns:
            0 if it is admitted; otherwise the seconds after which another attempt may succeed, and nothing was admitted.
        """
        if self._at is not None:
            self._left = min(self._left + max(now - self._at, 0.0) * SHARE, BURST_S)
        self._at = now
        if self._left <= 0:
            return max(-self._left / SHARE, 1.0)
        if self._running >= MAX_CONCURRENT:
            return 1.0
        self._running += 1
        return 0.0

    def charge(self, spent_s: float) -> None:
        """Record work for pages that is not a page.

        Args:
            spent_s: seconds of the event loop that it took.
        """
        self._left -= spent_s

    def leave(self, spent_s: float) -> None:
        """Record the end of a page.

        Args:
            spent_s: seconds of the event loop that it took.
        """
        self._running -= 1
        self.charge(spent_s)
