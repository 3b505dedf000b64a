"""Order of replicas, and the time until a second one is asked too. Pure: clock and randomness come from the caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from readonly_engine.metadata.racks import distance

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

SMOOTHING: Final = 0.2
"""Weight of the newest response time in the moving average."""

SLOW_FACTOR: Final = 4.0
SLOW_MARGIN_S: Final = 0.05
"""A bookie is slow if its average is more than this factor and this margin above that of the quickest replica."""

FORGET_AFTER_S: Final = 10.0
"""An average without a new sample for this time is dropped: the bookie gets another chance."""

AVOID_FAILED_S: Final = (1.0, 30.0)
"""Time after a failure in which a bookie is asked last; each further failure doubles it, up to the second value."""

AVOID_BUSY_S: Final = (0.05, 5.0)
"""The same after ETOOMANYREQUESTS, with jitter (0.5x to 1.5x), so that readers do not return all together."""

MAX_BUSY_REST_S: Final = 1.5 * AVOID_BUSY_S[1]
"""Longest time for which a busy bookie gets no request."""

SPECULATE_S: Final = (0.2, 2.0)
"""Lower and upper bound of the time until a second replica is asked; 2 s is BookKeeper's speculativeReadTimeout."""

SPECULATE_FACTOR: Final = 10.0
"""Between the two bounds: this many average response times."""


@dataclass(slots=True)
class _Health:
    average_s: float | None = None
    sampled_at: float = 0.0
    failures: int = 0
    avoid_until: float = 0.0
    rest_until: float = 0.0


class ReplicaOrder:
    """Orders replicas by the locations and the health of their bookies.

    Times are seconds of any one monotonic clock.

    Args:
        locality: location of this reader, as `/zone/rack`; empty if unknown: then all bookies are equally near.
        random: returns a number in [0, 1), for jitter.
    """

    def __init__(self, locality: str, random: Callable[[], float]) -> None:
        self._locality = locality
        self._random = random
        self._places: dict[str, str] = {}
        self._health: dict[str, _Health] = {}

    def move(self, locality: str) -> None:
        """Set the location of this reader."""
        self._locality = locality

    def place(self, places: Mapping[str, str]) -> None:
        """Set the locations of bookies; all others have an unknown location."""
        self._places = dict(places)

    def answered(self, bookie_id: str, seconds: float, now: float) -> None:
        """Record a bookie's answer and its response time."""
        health = self._health.setdefault(bookie_id, _Health())
        known = self._average(health, now)
        health.average_s = seconds if known is None else known + SMOOTHING * (seconds - known)
        health.sampled_at = now
        health.failures = 0
        health.avoid_until = 0.0

    def failed(self, bookie_id: str, now: float) -> None:
        """Record that a bookie was unreachable, or did not answer in time."""
        self._avoid(bookie_id, now, AVOID_FAILED_S, 1.0)

    def busy(self, bookie_id: str, now: float) -> None:
        """Record that a bookie has too many requests."""
        health = self._avoid(bookie_id, now, AVOID_BUSY_S, 0.5 + self._random())
        # After a failure the bookie may be avoided for longer. An avoided bookie is asked last; a resting one gets no request.
        health.rest_until = min(health.avoid_until, now + MAX_BUSY_REST_S)

    def order(self, replicas: Sequence[str], now: float, turn: int = 0) -> list[str]:
        """Return all replicas, best first: not avoided, not slow, near, and then by turns.

        Args:
            replicas: the bookies that hold the entry.
            now: the time.
            turn: among equals, the replica with this index (modulo their number) is first.
        """
        averages = {bookie_id: self._average(self._health.get(bookie_id), now) for bookie_id in replicas}
        quickest = min((average for average in averages.values() if average is not None), default=0.0)
        limit = max(SLOW_FACTOR * quickest, quickest + SLOW_MARGIN_S)

        def rank(index: int) -> tuple[float, bool, int, int]:
            bookie_id = replicas[index]
            health = self._health.get(bookie_id)
            return (
                0.0 if health is None else max(health.avoid_until - now, 0.0),
                (averages[bookie_id] or 0.0) > limit,
                self._distance(bookie_id),
                (index - turn) % len(replicas),
            )

        return [replicas[index] for index in sorted(range(len(replicas)), key=rank)]

    def has_nearer(self, bookie_id: str, replicas: Sequence[str]) -> bool:
        """Return whether one of these bookies is nearer to this reader than a given one."""
        return min(map(self._distance, replicas)) < self._distance(bookie_id)

    def rest(self, bookie_id: str, now: float) -> float:
        """Return the seconds for which a busy bookie gets no request; 0 if it may get one."""
        health = self._health.get(bookie_id)
        return 0.0 if health is None else max(health.rest_until - now, 0.0)

    def speculative_timeout(self, bookie_id: str, now: float) -> float:
        """Return the seconds to wait for this bookie's answer before another replica is asked too."""
        health = self._health.get(bookie_id)
        if health is not None and health.failures:
            return SPECULATE_S[0]  # one more try of a bookie that failed should cost little
        average = self._average(health, now)
        if average is None:
            # No recent sample of this bookie: expect it to be about as quick as the slowest of the others.
            others = (self._average(other, now) for other in self._health.values())
            average = max((known for known in others if known is not None), default=None)
        if average is None:
            return SPECULATE_S[1]
        return min(max(SPECULATE_FACTOR * average, SPECULATE_S[0]), SPECULATE_S[1])

    def _distance(self, bookie_id: str) -> int:
        return distance(self._locality, self._places.get(bookie_id, "")) if self._locality else 0

    def _avoid(self, bookie_id: str, now: float, limits: tuple[float, float], jitter: float) -> _Health:
        health = self._health.setdefault(bookie_id, _Health())
        if health.avoid_until <= now:  # requests that were under way together fail together: that is one failure
            health.failures += 1
            # The exponent is capped: 2.0 ** 2000 overflows.
            health.avoid_until = now + jitter * min(limits[0] * 2.0 ** min(health.failures - 1, 32), limits[1])
        return health

    @staticmethod
    def _average(health: _Health | None, now: float) -> float | None:
        if health is None or now - health.sampled_at > FORGET_AFTER_S:
            return None
        return health.average_s
