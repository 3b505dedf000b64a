"""Leases, compared with the clock before anything is delivered.

A timer alone would run late where the process was stopped, or the machine asleep.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

from readonly_engine.clock import lease_time

if TYPE_CHECKING:
    from collections.abc import Callable

TICK_S: Final = 0.25
"""How often leases are looked at while nothing is delivered."""


class LeaseGuard:
    """Ends what a lease allows as soon as the lease may have ended.

    Args:
        clock: the clock that the leases are counted with.

    Attributes:
        due: when the first lease ends, as far as is known.
    """

    __slots__ = ("_checks", "_clock", "_timer", "due")

    def __init__(self, clock: Callable[[], float] = lease_time) -> None:
        self._clock = clock
        self._checks: list[Callable[[float], float]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.due = math.inf

    def add(self, check: Callable[[float], float]) -> None:
        """Have leases checked.

        Args:
            check: suspends what is served under a lease that has ended by the given time, and returns when the next one ends.
        """
        self._checks.append(check)

    def check_due(self) -> None:
        """Call this before anything is delivered."""
        if self._clock() >= self.due:
            self.check_all()

    def check_all(self) -> None:
        """Check all leases; also called when one is new, or longer."""
        now = self._clock()
        self.due = min([check(now) for check in self._checks], default=math.inf)

    def start(self) -> None:
        """Check now and then from now on."""
        self.check_all()
        self._timer = asyncio.get_running_loop().call_later(TICK_S, self.start)

    def stop(self) -> None:
        """Check no more by itself."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
