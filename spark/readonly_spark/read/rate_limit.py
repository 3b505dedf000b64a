"""A rate limit in bytes per second. Pure."""

from __future__ import annotations

from typing import Final

BURST_S: Final = 1.0
"""The unused allowance of this many seconds may be used at once."""


class RateLimiter:
    """Compute the pauses that keep the average rate at or below a limit.

    Args:
        bytes_per_second: the limit.
        now: seconds of any monotonic clock.
    """

    def __init__(self, bytes_per_second: float, now: float) -> None:
        self._rate = bytes_per_second
        self._paid_until = now - BURST_S

    def record(self, count: int, now: float) -> float:
        """Record used bytes; return the seconds to pause."""
        self._paid_until = max(self._paid_until, now - BURST_S) + count / self._rate
        return max(self._paid_until - now, 0.0)
