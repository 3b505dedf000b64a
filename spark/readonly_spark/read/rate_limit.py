"""A limit in bytes a second. Pure."""

from __future__ import annotations

from typing import Final

BURST_S: Final = 1.0
"""What was not used of so many seconds may be used at once."""


class Pace:
    """Says how long to pause so that on the average no more is used than allowed.

    Args:
        bytes_per_second: what is allowed.
        now: the time, in seconds of any monotonic clock.
    """

    def __init__(self, bytes_per_second: float, now: float) -> None:
        self._rate = bytes_per_second
        self._paid_until = now - BURST_S

    def used(self, count: int, now: float) -> float:
        """Learn that so many bytes were used; the seconds to pause."""
        self._paid_until = max(self._paid_until, now - BURST_S) + count / self._rate
        return max(self._paid_until - now, 0.0)
