"""The clock of a replay: which publish time it has reached, and when it reaches another one. Pure: time is an argument."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

UNLIMITED: Final = math.inf
"""Speed of a replay that releases all entries at once."""

LOOP_PAUSE_MS: Final = 10_000
"""Time between the last message of a loop and the first one of its next round, in which consumers get the last ones."""


@dataclass(frozen=True, slots=True)
class ReplayClock:
    """Maps the time of the machine to publish times, on a straight line since the last change of the clock.

    Attributes:
        begin_ms: first publish time of the replay, ms since the epoch.
        end_ms: last publish time of the replay; None for no end.
        speed: publish time that passes in a unit of time; UNLIMITED for all at once.
        since_ms: time of the machine at the last change, ms since the epoch.
        at_ms: publish time that the clock had reached then.
        paused: whether the clock stands still.
        loop: whether it begins again after the last publish time.
        round: number of jumps so far, by seeks and by the loop. Each begins a round, with new cursors.
        round_ms: publish time at which the round has begun, ms since the epoch.
    """

    begin_ms: int
    end_ms: int | None
    speed: float
    since_ms: float
    at_ms: float
    paused: bool = False
    loop: bool = False
    round: int = 0
    round_ms: float = 0.0

    @classmethod
    def started(
        cls, begin_ms: int, end_ms: int | None, speed: float, now_ms: float, *, loop: bool = False
    ) -> ReplayClock:
        """Return a clock that begins now."""
        return cls(begin_ms, end_ms, speed, now_ms, begin_ms, loop=loop, round_ms=begin_ms)

    def released(self, now_ms: float) -> float:
        """Return the publish time that the clock has reached: entries up to it are released. Infinite for all entries."""
        end = math.inf if self.end_ms is None else self.end_ms
        if self.paused:
            return min(self.at_ms, end)
        if self.speed == UNLIMITED:
            return end
        return min(self.at_ms + max(now_ms - self.since_ms, 0.0) * self.speed, end)

    def next_release(self, publish_ms: float) -> float | None:
        """Return the time of the machine at which entries of a publish time are released; None for never, as the clock is now."""
        if self.end_ms is not None and publish_ms > self.end_ms:
            return None
        if self.paused:
            return self.since_ms if publish_ms <= self.at_ms else None
        if self.speed == UNLIMITED:
            return self.since_ms
        return self.since_ms + max(publish_ms - self.at_ms, 0.0) / self.speed

    def position(self, now_ms: float) -> float:
        """Return the publish time to show: that of `released`, and at most the time of the machine."""
        return min(self.released(now_ms), now_ms)

    def ended(self, now_ms: float) -> bool:
        """Return whether all entries of the replay are released, and no later one will be."""
        return self.end_ms is not None and self.released(now_ms) >= self.end_ms

    @property
    def next_round_ms(self) -> float | None:
        """The time of the machine at which the loop begins again; None for never, as the clock is now."""
        if not self.loop or self.end_ms is None:
            return None
        ended = self.next_release(self.end_ms)
        return None if ended is None else ended + LOOP_PAUSE_MS

    # Changes

    def pause(self, now_ms: float) -> ReplayClock:
        """Return the clock that stands still from now on."""
        return self if self.paused else replace(self._at(now_ms), paused=True)

    def resume(self, now_ms: float) -> ReplayClock:
        """Return the clock that goes on from now on."""
        return replace(self, since_ms=now_ms, paused=False) if self.paused else self

    def with_speed(self, speed: float, now_ms: float) -> ReplayClock:
        """Return the clock with another speed from now on."""
        return replace(self._at(now_ms), speed=speed)

    def seek(self, publish_ms: float, now_ms: float) -> ReplayClock:
        """Return the clock that goes on from a publish time, in a new round."""
        return replace(self, since_ms=now_ms, at_ms=publish_ms, round=self.round + 1, round_ms=publish_ms)

    def _at(self, now_ms: float) -> ReplayClock:
        return replace(self, since_ms=now_ms, at_ms=self.position(now_ms))
