"""Limit of status writes that carry only other numbers: a restart of one broker changes the numbers of every binding.

A change of a condition or of the spec is written at once. Everything else waits, so a rollout of a pool with thousands of
bindings costs the API server a bounded rate of requests.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from readonly_operator.kube.events import Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from readonly_operator.kube.kinds import Manifest

MIN_INTERVAL_SECONDS = 10.0
"""Shortest time between a status write of an object and one that carries only other numbers."""
PER_SECOND = 10.0
BURST = 50
"""Such writes of all objects together, in a second and at once."""
MAX_REMEMBERED = 50_000
"""Objects that are remembered; more than one operator's bindings."""


class StatusThrottle:
    """Decide which status writes may be done now. Thread-safe.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._written: dict[str, float] = {}
        self._deferred: dict[str, float] = {}
        self._budget = Budget(clock(), BURST, PER_SECOND)

    def admits(self, body: Manifest, status: Mapping[str, Any]) -> bool:
        """Return whether to write a status of an object now; the caller repeats a deferred write later."""
        uid, before, now = body["metadata"]["uid"], body.get("status") or {}, self._clock()
        with self._lock:
            if before == status:
                self._deferred.pop(uid, None)
                return True
            if _significant(before) == _significant(status) and not self._may(uid, now):
                self._deferred[uid] = now
                return False
            self._deferred.pop(uid, None)
            self._written[uid] = now
            if len(self._written) + len(self._deferred) > MAX_REMEMBERED:
                self._written, self._deferred = (_recent(times, now) for times in (self._written, self._deferred))
            return True

    def defers(self, bodies: Iterable[Manifest]) -> bool:
        """Return whether a write of one of these objects was deferred."""
        with self._lock:
            return any(body["metadata"]["uid"] in self._deferred for body in bodies)

    def _may(self, uid: str, now: float) -> bool:
        last = self._written.get(uid)
        return (last is None or now - last >= MIN_INTERVAL_SECONDS) and self._budget.consume(now)


def _significant(status: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the part of a status that users wait for: generation, reasons of conditions, and whether topics are counted."""
    conditions = status.get("conditions") or ()
    return (
        status.get("observedGeneration"),
        status.get("matchedTopics") is None,
        tuple((one["type"], one["status"], one["reason"], one.get("observedGeneration")) for one in conditions),
    )


def _recent(times: Mapping[str, float], now: float) -> dict[str, float]:
    return {uid: at for uid, at in times.items() if now - at < MIN_INTERVAL_SECONDS}
