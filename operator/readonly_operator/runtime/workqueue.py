"""A queue of pools to look at: each at most once at a time, now or later."""

from __future__ import annotations

import heapq
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_operator.kube.names import PoolKey


class WorkQueue:
    """Pools that wait for a worker.

    A pool that is added while a worker has it comes again when that worker is done, so nothing that happened meanwhile is missed
    and no two workers have the same pool.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._due: dict[PoolKey, float] = {}
        self._heap: list[tuple[float, PoolKey]] = []
        self._busy: set[PoolKey] = set()
        self._closed = False

    def add(self, key: PoolKey, delay: float = 0.0) -> None:
        """Let a pool come up in `delay` seconds, or sooner when it is waiting already."""
        with self._changed:
            due = self._clock() + delay
            if key in self._due and self._due[key] <= due:
                return
            self._due[key] = due
            heapq.heappush(self._heap, (due, key))
            self._changed.notify()

    def get(self, timeout: float | None = None) -> PoolKey | None:
        """The next pool that is due; the caller must give it back with `done`.

        Returns:
            None when the queue is closed, or when none came within `timeout` seconds.
        """
        end = None if timeout is None else self._clock() + timeout
        with self._changed:
            while not self._closed:
                now = self._clock()
                wait = self._skip_stale(now)
                if wait is not None and wait <= 0:
                    _, key = heapq.heappop(self._heap)
                    del self._due[key]
                    self._busy.add(key)
                    return key
                if end is not None:
                    if now >= end:
                        return None
                    wait = end - now if wait is None else min(wait, end - now)
                self._changed.wait(wait)
            return None

    def done(self, key: PoolKey) -> None:
        """Give a pool back; it may come again."""
        with self._changed:
            self._busy.discard(key)
            if key in self._due:
                heapq.heappush(self._heap, (self._due[key], key))
            self._changed.notify()

    def close(self) -> None:
        """Let every `get` return None."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def __len__(self) -> int:
        """Pools that are due and wait for a worker."""
        with self._changed:
            now = self._clock()
            return sum(due <= now for due in self._due.values())

    def _skip_stale(self, now: float) -> float | None:
        """Drop heap entries that a sooner one replaced or whose pool is busy; seconds until the first one is due."""
        while self._heap:
            due, key = self._heap[0]
            if self._due.get(key) == due and key not in self._busy:
                return due - now
            heapq.heappop(self._heap)
        return None
