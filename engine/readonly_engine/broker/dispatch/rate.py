"""How much may be delivered in a second: token buckets, with the time as an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from readonly_engine.config.limits import DispatchRate


class RateLimit:
    """Two buckets that hold what one second allows, and fill up steadily.

    What is taken is known only after it was read, so the buckets can go below nothing: then nothing may be delivered until they
    are above it again, and in the long run the rate is kept (as the owner's DispatchRateLimiter does it).

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
        """Seconds until something may be delivered; 0 for now."""
        self._fill(now)
        delay = 0.0
        # A full message, so that a slow rate is no burst of tiny parts.
        if self._rate.messages and self._messages < 1:
            delay = (1 - self._messages) / self._rate.messages
        if self._rate.bytes and self._bytes <= 0:
            delay = max(delay, (1 - self._bytes) / self._rate.bytes)
        return delay

    def allowance(self, limit: int) -> int:
        """How many messages may be delivered now, of so many; asked for after `delay` said 0."""
        return max(1, min(limit, int(self._messages))) if self._rate.messages else limit

    def consume(self, messages: int, bytes_: int) -> None:
        """So much was delivered."""
        self._messages -= messages
        self._bytes -= bytes_

    def _fill(self, now: float) -> None:
        passed, self._filled = max(now - self._filled, 0.0), max(now, self._filled)
        self._messages = min(self._messages + passed * self._rate.messages, float(self._rate.messages))
        self._bytes = min(self._bytes + passed * self._rate.bytes, float(self._rate.bytes))
