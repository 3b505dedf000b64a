"""Work in slices: after each one the event loop serves clients. The time of the slices alone is counted."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

K = TypeVar("K")
V = TypeVar("V")

STEPS: Final = 500
"""Steps in a slice. A step takes about 1 to 5 microseconds, so clients wait about a millisecond."""


class Slices:
    """The work for one page.

    Args:
        clock: returns the time, in seconds.

    Attributes:
        steps: number of steps so far.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._since = clock()
        self._spent = 0.0
        self._pending = 0
        self.steps = 0

    @property
    def spent_s(self) -> float:
        """Seconds of the slices so far."""
        return self._spent + self._clock() - self._since

    def add(self, steps: int = 1) -> bool:
        """Count steps; return whether the slice is over, so that the caller awaits `pause`."""
        self.steps += steps
        self._pending += steps
        return self._pending >= STEPS

    async def pause(self) -> None:
        """Let the event loop do other work, and begin the next slice."""
        self._spent += self._clock() - self._since
        self._pending = 0
        try:
            await asyncio.sleep(0)
        finally:
            self._since = self._clock()


async def collected(items: Iterable[tuple[K, V]], slices: Slices) -> dict[K, V]:
    """Return keys and values as a dict. In one piece, the hashes of 100,000 names would take 0.1 s."""
    found: dict[K, V] = {}
    for key, value in items:
        found[key] = value
        if slices.add():
            await slices.pause()
    return found
