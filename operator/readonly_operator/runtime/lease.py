"""Whether this process may act: the rules of holding a Lease, as Kubernetes' own components keep them. Pure.

A Lease names its holder and says for how long each renewal counts. Clocks of different machines are never compared: a process
that waits measures, by its own clock, how long the Lease has not changed. The holder gives up earlier than others may take over.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

DEADLINE_SHARE = 2 / 3
"""Of the duration: a holder that has not renewed for so long has lost the Lease."""
RETRY_SHARE = 2 / 15
"""Of the duration: how often a holder renews, and others look."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How a Lease is held.

    Attributes:
        identity: of this process; no other process ever has the same.
        seconds: how long a renewal counts.
    """

    identity: str
    seconds: int

    @property
    def deadline_seconds(self) -> float:
        """How long a holder goes on without renewing."""
        return self.seconds * DEADLINE_SHARE

    @property
    def retry_seconds(self) -> float:
        """Between two looks."""
        return self.seconds * RETRY_SHARE


class Election:
    """What one process knows of a Lease. Times are in seconds of its monotonic clock.

    Args:
        terms: how it is held.
    """

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._spec: Mapping[str, Any] = {}
        self._changed_at = 0.0
        self._renewed_at: float | None = None

    @property
    def holder(self) -> str:
        """Who has the Lease; empty for nobody."""
        return str(self._spec.get("holderIdentity") or "")

    @property
    def holds(self) -> bool:
        """Whether this process had it when it last looked; where it is gone, nobody else has it yet."""
        return self._renewed_at is not None and self.holder in {"", self._terms.identity}

    def observe(self, spec: Mapping[str, Any], now: float) -> None:
        """Take note of the Lease as it is; empty where there is none."""
        if spec != self._spec:
            self._spec, self._changed_at = dict(spec), now

    def may_take(self, now: float) -> bool:
        """Whether nobody has it, or who had it does not renew any more."""
        if not self.holder or self.holder == self._terms.identity:
            return True
        return now - self._changed_at >= float(self._spec.get("leaseDurationSeconds") or self._terms.seconds)

    def acquired(self, now: float) -> None:
        """Take note that this process has taken or renewed it; `now` is when it began to."""
        self._renewed_at = now

    def left_seconds(self, now: float) -> float:
        """How long this process may go on without renewing; 0 or less when it has lost the Lease."""
        if self._renewed_at is None or not self.holds:
            return 0.0
        return self._renewed_at + self._terms.deadline_seconds - now

    def spec(self, when: dt.datetime) -> dict[str, Any]:
        """The Lease's spec with which this process takes or renews it."""
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
        """The spec with which this process gives it back: the next may take it at once."""
        return {**self.spec(when), "holderIdentity": "", "leaseDurationSeconds": 1}
