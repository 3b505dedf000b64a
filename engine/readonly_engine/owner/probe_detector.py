"""Distinction between an owner's PINGs that check a consumer's liveness and its keep-alive PINGs. Pure."""

from __future__ import annotations

from typing import Final

KEEP_ALIVE_INTERVAL_S: Final = 29.0
"""Slightly below an owner's keepAliveIntervalSeconds (30). With a shorter interval, keep-alive PINGs count as liveness checks,
which costs a round of PINGs to clients."""

MIN_PROBE_INTERVAL_S: Final = 5.0
"""Shortest interval between rounds of PINGs to clients: each SUBSCRIBE of a contender causes a check."""


class ProbeDetector:
    """Finds the PINGs of one owner after which clients must prove that they are alive.

    A stock owner sends one when a second consumer subscribes to an Exclusive subscription (checkConnectionLiveness). A read-only
    broker answers for all its clients, so it sends PINGs to them itself.

    Args:
        now: time at which the connection was made; keep-alive PINGs count from then.
    """

    __slots__ = ("_last_keep_alive", "_last_probe")

    def __init__(self, now: float) -> None:
        self._last_keep_alive = now
        self._last_probe = -MIN_PROBE_INTERVAL_S

    def is_probe(self, now: float) -> bool:
        """Return whether a PING that arrives now is a liveness check."""
        if now - self._last_keep_alive >= KEEP_ALIVE_INTERVAL_S:
            self._last_keep_alive = now
            return False
        if now - self._last_probe < MIN_PROBE_INTERVAL_S:
            return False
        self._last_probe = now
        return True
