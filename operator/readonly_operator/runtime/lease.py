"""Rules of holding a Lease, as Kubernetes' own components keep them. Pure.

A Lease names its holder and the duration of a renewal. Clocks of different machines are never compared: a waiting process
measures by its own clock how long the Lease has not changed. The holder gives up before others may take over.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

DEADLINE_SHARE = 2 / 3
"""Share of the duration after which a holder without a renewal has lost the Lease."""
RETRY_SHARE = 2 / 15
"""Share of the duration between two renewals, and between two reads of a waiting process."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Identity and durations.

    Attributes:
        identity: of this process; unique.
        seconds: duration of a renewal.
    """

    identity: str
    seconds: int

    @property
    def deadline_seconds(self) -> float:
        """Return how long a holder acts without a renewal."""
        return self.seconds * DEADLINE_SHARE

    @property
    def retry_seconds(self) -> float:
        """Return the time between two renewals or reads."""
        return self.seconds * RETRY_SHARE


class Election:
    """One process's view of a Lease. Times are in seconds of its monotonic clock.

    Args:
        terms: identity and durations.
    """

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._spec: Mapping[str, Any] = {}
        self._changed_at = 0.0
        self._renewed_at: float | None = None

    @property
    def holder(self) -> str:
        """Return the holder's identity; empty for none."""
        return str(self._spec.get("holderIdentity") or "")

    @property
    def holds(self) -> bool:
        """Return whether this process held the Lease at its last read. A deleted Lease has no other holder yet."""
        return self._renewed_at is not None and self.holder in {"", self._terms.identity}

    def observe(self, spec: Mapping[str, Any], now: float) -> None:
        """Record the Lease's spec; empty for a missing Lease."""
        if spec != self._spec:
            self._spec, self._changed_at = dict(spec), now

    def may_take(self, now: float) -> bool:
        """Return whether the Lease is free, or its holder does not renew it any more."""
        if not self.holder or self.holder == self._terms.identity:
            return True
        return now - self._changed_at >= float(self._spec.get("leaseDurationSeconds") or self._terms.seconds)

    def acquired(self, now: float) -> None:
        """Record that this process acquired or renewed the Lease in a request begun at `now`."""
        self._renewed_at = now

    def left_seconds(self, now: float) -> float:
        """Return how long this process may act without a renewal; 0 or less after a loss."""
        if self._renewed_at is None or not self.holds:
            return 0.0
        return self._renewed_at + self._terms.deadline_seconds - now

    def spec(self, when: dt.datetime) -> dict[str, Any]:
        """Return the Lease's spec for acquiring or renewing."""
        stamp = when.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        same = self.holder == self._terms.identity
        return {
            "holderIdentity": self._terms.identity,
            "leaseDurationSeconds": self._terms.seconds,
            "acquireTime": self._spec.get("acquireTime", stamp) if same else stamp,
            "renewTime": stamp,
            "leaseTransitions": int(self._spec.get("leaseTransitions") or 0) + (0 if same or not self._spec else 1),
        }

    def released(self, when: dt.datetime) -> dict[str, Any]:
        """Return the spec that releases the Lease: the next process may acquire it at once."""
        return {**self.spec(when), "holderIdentity": "", "leaseDurationSeconds": 1}
