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

SAMPLE_INTERVAL_S: Final = 0.5
"""Shortest interval between two samples. A sample decodes the metadata of an entry, and sets a timer: some 150 µs where the
broker serves few messages, twice as much as each of these. With megabytes of properties it takes as long as their first
parsing."""

LATENCY_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, float("inf"))
"""Upper bounds of the buckets, in seconds. Publish times are whole milliseconds."""

MAX_SUMMED_S: Final = 86400.0
"""Longest latency in the sum. A producer may send any publish time, and one sample must not outweigh all others."""

MAX_SKEW_S: Final = LATENCY_BOUNDS[0]
"""Time in the future that counts as 0 seconds: the error of synchronized clocks. A later one says nothing about the broker."""

_MS_PER_S: Final = 1000


class LatencyHistogram:
    """Counts of latencies by bucket.

    Attributes:
        counts: number of samples in each bucket of LATENCY_BOUNDS, not cumulative.
        total: sum of the samples, in seconds; a longer one than MAX_SUMMED_S counts as that.
    """

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * len(LATENCY_BOUNDS)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one sample."""
        self.counts[bisect_left(LATENCY_BOUNDS, seconds)] += 1
        self.total += min(seconds, MAX_SUMMED_S)


class LatencySampler:
    """Measures the first entry of some writes.

    Args:
        schedule: calls its argument after SAMPLE_INTERVAL_S. None to measure nothing.
        clock: seconds since the epoch.

    Attributes:
        due: whether the next write is to be measured. The read path tests it before it calls `observe`.
        tail: latencies of entries at the tail of their topic.
        backlog: latencies of earlier entries, which are as old as the backlog is long.
        skewed: number of entries without a sample, because they were published more than MAX_SKEW_S later than this broker's
            clock says. As 0 seconds they would hide a slow broker.
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
        if seconds < -MAX_SKEW_S:
            self.skewed += 1
            return
        (self.tail if tail else self.backlog).add(max(seconds, 0.0))

    def _arm(self) -> None:
        self.due = True
