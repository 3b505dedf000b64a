"""Dispatch rate limit: token buckets. Pure; the time is an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from readonly_engine.config.limits import DispatchRate


class RateLimit:
    """Two token buckets, for messages and bytes. Each holds the tokens of one second, and refills continuously.

    The cost of entries is known only after their read, so a bucket can become negative. Then delivery pauses until it is positive
    again, which keeps the rate on average (as the owner's DispatchRateLimiter).

    Args:
        rate: the limit.
        now: seconds of any clock that never goes back.
    """

    def __init__(self, rate: DispatchRate, now: float) -> None:
        self._rate = rate
        self._filled = now
        self._messages = float(rate.messages)
        self._bytes = float(rate.bytes)

    def delay(self, now: float) -> float:
        """Return the seconds until the next delivery; 0 for now."""
        self._fill(now)
        delay = 0.0
        # Wait for a whole token, because `allowance` is one message at least.
        if self._rate.messages and self._messages < 1:
            delay = (1 - self._messages) / self._rate.messages
        if self._rate.bytes and self._bytes <= 0:
            delay = max(delay, (1 - self._bytes) / self._rate.bytes)
        return delay

    def allowance(self, limit: int) -> int:
        """Return the number of messages, at most `limit`, that may be delivered now. Call it after `delay` has returned 0."""
        return max(1, min(limit, int(self._messages))) if self._rate.messages else limit

    def consume(self, messages: int, bytes_: int) -> None:
        """Take the tokens of delivered messages."""
        self._messages -= messages
        self._bytes -= bytes_

    def _fill(self, now: float) -> None:
        passed, self._filled = max(now - self._filled, 0.0), max(now, self._filled)
        self._messages = min(self._messages + passed * self._rate.messages, float(self._rate.messages))
        self._bytes = min(self._bytes + passed * self._rate.bytes, float(self._rate.bytes))
