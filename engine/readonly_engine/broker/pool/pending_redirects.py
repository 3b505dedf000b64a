"""Consumers that another broker of the pool redirects to this one. For a moment they are not connected to the owner. Pure.

An owner refuses an UNSUBSCRIBE while the subscription has other consumers. So this broker waits for redirected consumers first.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from readonly_engine.broker.pool.claims import ClaimKey

MAX_REDIRECT_DELAY_S = 5.0
"""A broker redirects a client right after it has relayed its consumer here. A consumer that leaves later was closed."""

ARRIVAL_TIMEOUT_S = 5.0
"""Limit of the wait for a redirected client. It connects at once, or not at all."""


class PendingRedirects:
    """Tracks expected consumers by subscription. Times are in seconds of any clock."""

    def __init__(self) -> None:
        self._expected: dict[ClaimKey, deque[float]] = {}
        self._ends: deque[tuple[float, ClaimKey]] = deque()  # end of each wait; some consumers have arrived before it

    def expect(self, key: ClaimKey, relayed_at: float, now: float) -> None:
        """Expect a consumer that another broker had relayed, after it has left within MAX_REDIRECT_DELAY_S.

        Args:
            key: its subscription.
            relayed_at: time when it was relayed here.
            now: the time.
        """
        while self._ends and self._ends[0][0] <= now:
            self._expire(self._ends.popleft()[1], now)
        if now - relayed_at <= MAX_REDIRECT_DELAY_S:
            self._expected.setdefault(key, deque()).append(now + ARRIVAL_TIMEOUT_S)
            self._ends.append((now + ARRIVAL_TIMEOUT_S, key))

    def arrived(self, key: ClaimKey) -> None:
        """Count a consumer whose client has connected here."""
        waits = self._expected.get(key)
        if waits is not None:
            waits.popleft()
            if not waits:
                del self._expected[key]

    def expected(self, key: ClaimKey, now: float) -> bool:
        """Return whether a consumer of the subscription is expected."""
        waits = self._expected.get(key)
        return waits is not None and waits[-1] > now

    def _expire(self, key: ClaimKey, now: float) -> None:
        """Remove expired entries."""
        waits = self._expected.get(key)
        while waits and waits[0] <= now:
            waits.popleft()
        if waits is not None and not waits:
            del self._expected[key]
