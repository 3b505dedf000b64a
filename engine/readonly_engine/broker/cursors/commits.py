"""When changes of local cursors are stored: in groups, one after the other. Pure state machines; times are in seconds."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import Final

COMMIT_S: Final = 0.1
"""Longest wait of a change before its commit begins. After a crash, acks of this time and of one commit are delivered again."""

COST_FACTOR: Final = 4.0
"""Pause after a commit as a multiple of the time to encode it: cursors with very many holes must not take the whole loop."""

CHEAP_FACTOR: Final = 20.0
CHEAP_PAUSE_S: Final = 0.1
"""The same for cheap commits, up to this pause: each partition of a broker has commits of its own."""

COMPACT_BYTES: Final = 32 << 20
"""Bytes of records after which the topic is compacted, at least."""

COMPACT_FACTOR: Final = 4
"""The topic is compacted after so many times the bytes of the last records of all keys, at least."""


LATENCY_BOUNDS: Final = (0.2, 0.5, 1.0, 2.0, 5.0, math.inf)
"""Upper bounds of the histogram of commit latencies, in seconds."""


class CommitSchedule:
    """Numbers the commits. A change belongs to the first commit that begins after it.

    Args:
        interval_s: longest wait of a change.

    Attributes:
        stored: number of the last complete commit; 0 for none.
        begun: number of the last commit that has begun; 0 for none.
        due: when the next commit is to begin; None without changes, and while a commit is under way.
        latencies: number of commits by latency, from the first change to its storage, one for each of LATENCY_BOUNDS.
        latency_sum: sum of these latencies.
    """

    def __init__(self, interval_s: float = COMMIT_S) -> None:
        self.stored = 0
        self.due: float | None = None
        self._interval_s = interval_s
        self.begun = 0
        self._changed_at: float | None = None
        self._paused_until = 0.0
        self._first_change = 0.0  # of the commit under way
        self.latencies = [0] * len(LATENCY_BOUNDS)
        self.latency_sum = 0.0

    def changed(self, now: float) -> int:
        """Record a change; return the number of its commit."""
        if self._changed_at is None:
            self._changed_at = now
            if self.begun == self.stored:
                self.due = max(now + self._interval_s, self._paused_until)
        return self.begun + 1

    def begin(self) -> int:
        """Begin the next commit, with all changes so far; return its number."""
        assert self._changed_at is not None
        self._first_change = self._changed_at
        self.begun += 1
        self.due = self._changed_at = None
        return self.begun

    def completed(self, now: float, cost_s: float = 0.0) -> None:
        """Complete the commit that is under way.

        Args:
            now: the time.
            cost_s: time that it took to encode the changes.
        """
        self._paused_until = now + max(COST_FACTOR * cost_s, min(CHEAP_FACTOR * cost_s, CHEAP_PAUSE_S))
        self.stored = self.begun
        latency = now - self._first_change
        self.latencies[bisect_left(LATENCY_BOUNDS, latency)] += 1
        self.latency_sum += latency
        if self._changed_at is not None:
            self.due = max(self._changed_at + self._interval_s, now, self._paused_until)


class CompactionSchedule:
    """Decides when a topic of records has grown enough to be compacted.

    Attributes:
        kept: bytes of the last records of all keys.
    """

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self.kept = 0
        self._written = 0

    def written(self, key: str, size: int) -> None:
        """Count a record in the topic; one with the size 0 removes its key."""
        self.kept += size - self._sizes.pop(key, 0)
        if size:
            self._sizes[key] = size
        self._written += len(key) + size

    @property
    def due(self) -> bool:
        """Whether to compact the topic now."""
        return self._written >= max(COMPACT_BYTES, COMPACT_FACTOR * self.kept)

    def begun(self) -> None:
        """Count from here on: a compaction has begun."""
        self._written = 0
