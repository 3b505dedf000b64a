"""Acks that the members of a split subscription have reported lately, and that an owner may lose when it dies. Pure."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from readonly_engine.broker.split.leases import MAX_ENTRIES
from readonly_engine.owner.recent_acks import WINDOW_S
from readonly_engine.topic.position import Position

if TYPE_CHECKING:
    from readonly_engine.broker.split.leases import Run

KEPT_S: Final = WINDOW_S + 1.0
"""Age up to which a reported ack may be lost. Members report acks within some 300 ms after the owner's answer."""


class ReportedAcks:
    """Keeps the acked entries of reports, with the times of their arrival, in seconds of any one clock.

    At most MAX_ENTRIES entries are kept; older ones count as stored by the owner.
    """

    def __init__(self) -> None:
        self._reported: deque[tuple[float, tuple[Run, ...]]] = deque()
        self._entries = 0

    def add(self, runs: tuple[Run, ...], now: float) -> None:
        """Add the acked entries of a report."""
        if not runs:
            return
        self._reported.append((now, runs))
        self._entries += _entries(runs)
        while self._reported and (self._reported[0][0] < now - KEPT_S or self._entries > MAX_ENTRIES):
            self._entries -= _entries(self._reported.popleft()[1])

    def before(self, end: float) -> list[Position]:
        """Return the entries that were reported at most KEPT_S before a time, or later."""
        return [
            Position(run.ledger_id, entry_id)
            for at, runs in self._reported
            if at >= end - KEPT_S
            for run in runs
            for entry_id in range(run.first, run.last + 1)
        ]


def _entries(runs: tuple[Run, ...]) -> int:
    return sum(run.entries for run in runs)
