"""Restarts of a worker that has ended, with backoff: a pure state machine; times are seconds of any monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BACKOFF_S: Final = (1.0, 30.0)
"""Backoff before a restart: the first pause, doubled each time, at most the second."""

STABLE_S: Final = 60.0
"""Uptime of a worker that resets the backoff."""

COULD_NOT_START: Final = frozenset({1, 2})
"""Exit statuses of `serve` for an invalid setting or an unreachable dependency."""


@dataclass(slots=True)
class Restarts:
    """Restarts of one worker.

    Attributes:
        ready: whether it was ready at any time.
        count: number of restarts.
    """

    ready: bool = False
    count: int = 0
    _pause: float = BACKOFF_S[0]
    _started: float = 0.0

    def started(self, now: float) -> None:
        """Record a start of the worker."""
        self._started = now

    def ended(self, status: int, now: float) -> float | None:
        """Record an unexpected end of the worker.

        Args:
            status: its exit status; below 0 for a signal.
            now: time of the end.

        Returns:
            Seconds until its restart; None if it cannot start at all, so that all workers must end.
        """
        if not self.ready and status in COULD_NOT_START:
            return None
        if now - self._started >= STABLE_S:
            self._pause = BACKOFF_S[0]
        pause, self._pause = self._pause, min(2 * self._pause, BACKOFF_S[1])
        self.count += 1
        return pause
