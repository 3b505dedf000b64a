"""Which replica to ask first, and how long to wait before asking a second one: pure, with clock and randomness from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

SMOOTHING: Final = 0.2
"""Weight of the newest response time in the moving average."""

SLOW_FACTOR: Final = 4.0
SLOW_MARGIN_S: Final = 0.05
"""A bookie is slow when its average is so many times that of the quickest replica, and this much more."""

FORGET_AFTER_S: Final = 10.0
"""An average without a new sample for so long says nothing any more: the bookie gets another chance."""

AVOID_FAILED_S: Final = (1.0, 30.0)
"""After a failure a bookie is not the first choice for so long; each further failure doubles it, up to the second value."""

AVOID_BUSY_S: Final = (0.05, 5.0)
"""The same after ETOOMANYREQUESTS, with jitter (half to one and a half times), so that all readers do not come back at once."""

MAX_BUSY_REST_S: Final = 1.5 * AVOID_BUSY_S[1]
"""Longest time for which a busy bookie gets no request."""

SPECULATE_S: Final = (0.2, 2.0)
"""A second replica is asked after no less and no more than this; 2 s is BookKeeper's speculativeReadTimeout."""

SPECULATE_FACTOR: Final = 10.0
"""Between the two: after so many average response times."""


@dataclass(slots=True)
class _Health:
    average_s: float | None = None
    sampled_at: float = 0.0
    failures: int = 0
    avoid_until: float = 0.0
    rest_until: float = 0.0


def distance(here: str, there: str) -> int:
    """How far apart two network locations such as `/zone/rack` are: levels of `here` that differ. An unknown one is farthest."""
    mine = here.strip("/").split("/")
    theirs = there.strip("/").split("/")
    shared = 0
    for one, other in zip(mine, theirs, strict=False):
        if one != other:
            break
        shared += 1
    return len(mine) - shared


class ReplicaOrder:
    """What is known of the bookies' places and health, and the order of replicas that follows from it.

    Times are seconds of any one monotonic clock.

    Args:
        locality: where this reader is, as `/zone/rack`; empty where nobody said so: then all bookies are equally near.
        random: a number in [0, 1), for jitter.
    """

    def __init__(self, locality: str, random: Callable[[], float]) -> None:
        self._locality = locality
        self._random = random
        self._places: dict[str, str] = {}
        self._health: dict[str, _Health] = {}

    def move(self, locality: str) -> None:
        """Learn where this reader is."""
        self._locality = locality

    def place(self, places: Mapping[str, str]) -> None:
        """Learn where bookies are; nobody knows where those are that are not named."""
        self._places = dict(places)

    def answered(self, bookie_id: str, seconds: float, now: float) -> None:
        """Learn that a bookie answered, and how quickly."""
        health = self._health.setdefault(bookie_id, _Health())
        known = self._average(health, now)
        health.average_s = seconds if known is None else known + SMOOTHING * (seconds - known)
        health.sampled_at = now
        health.failures = 0
        health.avoid_until = 0.0

    def failed(self, bookie_id: str, now: float) -> None:
        """Learn that a bookie did not answer, or could not."""
        self._avoid(bookie_id, now, AVOID_FAILED_S, 1.0)

    def busy(self, bookie_id: str, now: float) -> None:
        """Learn that a bookie has too many requests."""
        health = self._avoid(bookie_id, now, AVOID_BUSY_S, 0.5 + self._random())
        # After a failure the bookie may be avoided for longer. An avoided bookie is asked last; a resting one gets no request.
        health.rest_until = min(health.avoid_until, now + MAX_BUSY_REST_S)

    def order(self, replicas: Sequence[str], now: float, turn: int = 0) -> list[str]:
        """All replicas, best first: not avoided, not slow, near, and then by turns.

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

    def rest(self, bookie_id: str, now: float) -> float:
        """For how many seconds a bookie that has too many requests should get none; 0 where it can be asked."""
        health = self._health.get(bookie_id)
        return 0.0 if health is None else max(health.rest_until - now, 0.0)

    def speculative_timeout(self, bookie_id: str, now: float) -> float:
        """How many seconds to wait for this bookie's answer before another replica is asked as well."""
        health = self._health.get(bookie_id)
        if health is not None and health.failures:
            return SPECULATE_S[0]  # one more try of a bookie that failed should cost little
        average = self._average(health, now)
        if average is None:
            # Nothing is known of this one lately: it should be about as quick as the slowest of the others.
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
