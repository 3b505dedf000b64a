"""Checks of leases before each delivery.

A timer alone fires late if the process was stopped or the machine suspended.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

from readonly_engine.background import next_tick
from readonly_engine.clock import lease_time

if TYPE_CHECKING:
    from collections.abc import Callable

TICK_S: Final = 0.5
"""Interval between checks while nothing is delivered."""


class LeaseGuard:
    """Suspends deliveries as soon as their lease may have ended.

    Args:
        clock: the clock that the leases are counted with.

    Attributes:
        due: the earliest known end of a lease.
    """

    __slots__ = ("_checks", "_clock", "_timer", "due")

    def __init__(self, clock: Callable[[], float] = lease_time) -> None:
        self._clock = clock
        self._checks: list[Callable[[float], float]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.due = math.inf

    def add(self, check: Callable[[float], float]) -> None:
        """Register a check.

        Args:
            check: suspends deliveries under leases that have ended by the given time, and returns the end of the next lease.
        """
        self._checks.append(check)

    def check_due(self) -> None:
        """Run the checks if a lease is due. Call it before each delivery."""
        if self._clock() >= self.due:
            self.check_all()

    def check_all(self) -> None:
        """Run all checks. Call it also for a new or extended lease."""
        now = self._clock()
        self.due = min([check(now) for check in self._checks], default=math.inf)

    def note(self, end: float) -> None:
        """Note the end of a new or changed lease, in constant time: thousands may change together."""
        self.due = min(self.due, end)

    def start(self) -> None:
        """Start checking every TICK_S."""
        self.check_all()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(next_tick(loop.time(), TICK_S), self.start)

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
