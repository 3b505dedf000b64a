"""Sizes the permits of a pushed topic, so that an owner sends many messages in groups, pure. Times are seconds of any one clock.

An owner reads and sends each entry alone to a consumer that has permits: some four changes of threads and a timer
(PersistentDispatcherSingleActiveConsumer, ManagedCursorImpl.asyncReadEntriesOrWait). Without permits, entries wait there. The next
FLOW then brings all of them by one read and one write. So while messages are many, the owner gets permits once per flush
interval, for about as many messages as have come meanwhile.
"""

from __future__ import annotations

from typing import Final

WINDOW: Final = 100
"""Permits that an owner has while messages are few. It also bounds one group."""

PACED_ABOVE: Final = 400.0
"""Rate in entries per second above which they come in groups: FLOWs every 4 ms then cost less than single deliveries."""

SINGLE_BELOW: Final = 250.0
"""Rate below which they come singly again: one entry per flush interval."""

MAX_RATE: Final = 4 * PACED_ABOVE
"""Bound of a measured rate, so that a burst is forgotten soon."""

RATE_WEIGHT: Final = 0.5
"""Weight of the newest group in the average rate."""

FIRST_INTERVAL_S: Final = 4e-3
"""Interval for which the first group is sized."""


class PermitPacer:
    """Decides how many permits the owner gets next, and whether at once or after the flush interval.

    Args:
        window: permits of an owner while messages are few, at most WINDOW.
        now: the time.

    Attributes:
        paced: whether messages come in groups. Then permits are given after the flush interval, else at once.
    """

    __slots__ = ("_count", "_fills", "_rate", "_since", "_size", "_undecided", "_window", "paced")

    def __init__(self, window: int, now: float) -> None:
        self._window = max(min(window, WINDOW), 1)
        self._count = 0
        self._since = now
        self._rate = 0.0
        self._size = 1
        self._fills = 0
        self._undecided = False
        self.paced = False

    def begin(self, now: float) -> int:
        """Return the permits of a new subscription."""
        self.paced = False
        self._count, self._since = 0, now
        return self._window

    def on_delivered(self, entries: int, messages: int, permits: int, now: float) -> int:
        """Handle entries that have come together; return the permits to give next, 0 for none.

        Args:
            entries: number of entries.
            messages: number of their messages.
            permits: permits that the owner has left; below 0 after a batch.
            now: the time.
        """
        self._count += entries
        if not self.paced:
            if permits > self._window // 2:
                return 0
            rate = self._take_rate(now)
            if rate < PACED_ABOVE:
                return self._window - permits
            self.paced, self._undecided, self._fills = True, False, 0
            self._rate = rate
            self._size = max(min(int(rate * FIRST_INTERVAL_S * messages / entries), self._window), 1)
            return self._size - permits if permits <= 0 else 0
        if self._undecided:
            self._undecided = False
            self._fit(messages, filled=permits <= 0)
        if permits > 0:
            return 0
        self._rate += RATE_WEIGHT * (self._take_rate(now) - self._rate)
        if self._rate < SINGLE_BELOW:
            self.paced = False
            return self._window - permits
        return self._size - permits

    def granted(self) -> None:
        """Record that the owner got the permits of a group. The entries that come next were waiting there."""
        self._undecided = True

    def _take_rate(self, now: float) -> float:
        rate = min(self._count / max(now - self._since, 1e-3), MAX_RATE)
        self._count, self._since = 0, now
        return rate

    def _fit(self, messages: int, *, filled: bool) -> None:
        """Size the next group as the last one: more may wait at the owner only if that has used all permits, repeatedly."""
        if not filled:
            self._fills = 0
            self._size = max(messages, 1)
            return
        self._fills += 1
        if self._fills > 1:
            self._size = min(self._size + max(self._size // 4, 1), self._window)
