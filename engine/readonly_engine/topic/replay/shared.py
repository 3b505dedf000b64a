"""The clock that all topics of a broker share, with its changes while the replay runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.topic.replay.clock import ReplayClock


def machine_ms() -> float:
    """Return the time of the machine, in ms since the epoch."""
    return time.time() * 1000


class SharedClock:
    """The clock of a replay, as this broker knows it now.

    Args:
        clock: the clock.
        now_ms: returns the time of the machine, in ms since the epoch.

    Attributes:
        clock: the clock in force.
        now_ms: as above.
    """

    def __init__(self, clock: ReplayClock, now_ms: Callable[[], float] = machine_ms) -> None:
        self.clock = clock
        self.now_ms = now_ms
        self._listeners: set[Callable[[], None]] = set()

    @property
    def released(self) -> float:
        """The publish time up to which entries are released now (ReplayClock.released)."""
        return self.clock.released(self.now_ms())

    def delivery_ms(self) -> int:
        """Return the publish time that the clock has reached, at most now: delayed messages are due by it (DeliveryClock)."""
        return int(self.clock.position(self.now_ms()))

    def seconds_until(self, deliver_at: int) -> float | None:
        """Return how long it takes until a time of `delivery_ms`; None for never, as the clock is now."""
        at_ms = self.clock.next_release(deliver_at)
        return None if at_ms is None else (max(at_ms, deliver_at) - self.now_ms()) / 1000

    def listen(self, listener: Callable[[], None]) -> None:
        """Call back after each change of the clock."""
        self._listeners.add(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Do not call back any more."""
        self._listeners.discard(listener)

    def change(self, clock: ReplayClock) -> None:
        """Go on with another clock."""
        if clock != self.clock:
            self.clock = clock
            for listener in list(self._listeners):
                listener()
