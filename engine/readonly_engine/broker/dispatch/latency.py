"""End-to-end latency: from the publication of an entry to its hand-over to a client's socket, measured on samples.

The read path pays one test of `due` for each write. At most one write in SAMPLE_INTERVAL_S is measured, of all topics together.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.topic.entries import TopicEntry

SAMPLE_INTERVAL_S: Final = 0.01
"""Shortest interval between two samples. A sample costs some microseconds, because it decodes the metadata of an entry."""

LATENCY_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, float("inf"))
"""Upper bounds of the buckets, in seconds. Publish times are whole milliseconds."""

_MS_PER_S: Final = 1000


class LatencyHistogram:
    """Counts of latencies by bucket.

    Attributes:
        counts: number of samples in each bucket of LATENCY_BOUNDS, not cumulative.
        total: sum of the samples, in seconds.
    """

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * len(LATENCY_BOUNDS)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one sample."""
        self.counts[bisect_left(LATENCY_BOUNDS, seconds)] += 1
        self.total += seconds


class LatencySampler:
    """Measures the first entry of some writes.

    Args:
        schedule: calls its argument after SAMPLE_INTERVAL_S. None to measure nothing.
        clock: seconds since the epoch.

    Attributes:
        due: whether the next write is to be measured. The read path tests it before it calls `observe`.
        tail: latencies of entries at the tail of their topic.
        backlog: latencies of earlier entries, which are as old as the backlog is long.
        skewed: number of samples that were published later than this broker's clock says. They count as 0 seconds.
    """

    __slots__ = ("_clock", "_schedule", "backlog", "due", "skewed", "tail")

    def __init__(
        self,
        schedule: Callable[[Callable[[], None]], object] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._schedule = schedule
        self._clock = clock
        self.due = schedule is not None
        self.tail = LatencyHistogram()
        self.backlog = LatencyHistogram()
        self.skewed = 0

    def observe(self, entry: TopicEntry, *, tail: bool) -> None:
        """Measure an entry that was just handed to a socket. Call it only while `due`.

        An entry without a time is not counted, and neither is a delayed message, which was to come later.

        Args:
            entry: the first entry of the write.
            tail: whether it is one of the newest entries of its topic.
        """
        self.due = False
        if self._schedule is not None:
            self._schedule(self._arm)
        published = 0 if entry.deliver_at else entry.timestamp
        if not published:
            return
        seconds = (self._clock() * _MS_PER_S - published) / _MS_PER_S
        if seconds < 0:
            self.skewed += 1
            seconds = 0.0
        (self.tail if tail else self.backlog).add(seconds)

    def _arm(self) -> None:
        self.due = True
