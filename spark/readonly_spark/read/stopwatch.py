"""The time that a reader spends on reads, as its clock."""

from __future__ import annotations

import time


class Stopwatch:
    """A clock in seconds that stands still while the task does other work.

    A bookie is not slow if it has answered and the task does not look, for example while it writes a row group.
    """

    def __init__(self) -> None:
        self._total = 0.0
        self._started: float | None = None

    def now(self) -> float:
        """Return the time."""
        return self._total if self._started is None else self._total + time.monotonic() - self._started

    def start(self) -> None:
        """Let the time pass."""
        if self._started is None:
            self._started = time.monotonic()

    def stop(self) -> None:
        """Let the time stand still."""
        self._total, self._started = self.now(), None
