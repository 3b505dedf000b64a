"""An owner's PING that asks whether a consumer is still there, told from the one that comes every 30 s. Pure."""

from __future__ import annotations

from typing import Final

KEEP_ALIVE_INTERVAL_S: Final = 29.0
"""A little less than an owner's keepAliveIntervalSeconds (30). With a shorter interval regular PINGs count as questions too,
which costs a round of PINGs to clients."""

MIN_PROBE_INTERVAL_S: Final = 5.0
"""Clients are not asked more often: whoever contends for a subscription makes the owner ask."""


class ProbeDetector:
    """Decides which PINGs of one owner are worth asking clients.

    A stock owner asks when a second consumer wants an Exclusive subscription (checkConnectionLiveness). A read-only broker
    answers for all its clients, so it asks them itself.

    Args:
        now: when the connection was made; the regular PINGs count from then.
    """

    __slots__ = ("_asked", "_regular")

    def __init__(self, now: float) -> None:
        self._regular = now
        self._asked = -MIN_PROBE_INTERVAL_S

    def is_probe(self, now: float) -> bool:
        """Whether a PING that came now asks for a sign of life of the clients."""
        if now - self._regular >= KEEP_ALIVE_INTERVAL_S:
            self._regular = now
            return False
        if now - self._asked < MIN_PROBE_INTERVAL_S:
            return False
        self._asked = now
        return True
