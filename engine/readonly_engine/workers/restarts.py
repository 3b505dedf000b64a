"""When a worker that has ended is started again: a pure state machine; seconds are those of any one clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PAUSE_S: Final = (1.0, 30.0)
"""Before a start again: the first, doubled each time, at most the second."""

STEADY_S: Final = 60.0
"""A worker that ran for so long begins with the first pause again."""

COULD_NOT_START: Final = frozenset({1, 2})
"""Exit status of `serve` where a setting is at fault, or what it needs cannot be reached."""


@dataclass(slots=True)
class Restarts:
    """Of one worker.

    Attributes:
        ready: whether it has ever served.
        count: how often it was started again.
    """

    ready: bool = False
    count: int = 0
    _pause: float = PAUSE_S[0]
    _started: float = 0.0

    def started(self, now: float) -> None:
        """It was started."""
        self._started = now

    def ended(self, status: int, now: float) -> float | None:
        """It has ended, which nobody asked for.

        Args:
            status: its exit status; below 0 for a signal.
            now: when.

        Returns:
            In how many seconds it is started again; None where it cannot start at all, and all must end.
        """
        if not self.ready and status in COULD_NOT_START:
            return None
        if now - self._started >= STEADY_S:
            self._pause = PAUSE_S[0]
        pause, self._pause = self._pause, min(2 * self._pause, PAUSE_S[1])
        self.count += 1
        return pause
