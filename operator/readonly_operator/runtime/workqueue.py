"""Queue of pools to reconcile: each at most once at a time, now or later."""

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

    A pool that is added while a worker has it is queued again when that worker is done. So no change is missed, and no two
    workers have the same pool.

    Args:
        clock: seconds, monotonic.
        on_add: called when a pool is queued that was not.
        on_get: called with the seconds for which a due pool has waited, when a worker gets it.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        on_add: Callable[[], None] = lambda: None,
        on_get: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._clock = clock
        self._on_add = on_add
        self._on_get = on_get
        self._changed = threading.Condition()
        self._due: dict[PoolKey, float] = {}
        self._heap: list[tuple[float, PoolKey]] = []
        self._busy: set[PoolKey] = set()
        self._closed = False

    def add(self, key: PoolKey, delay: float = 0.0) -> None:
        """Queue a pool in `delay` seconds, or sooner if it is queued for sooner."""
        with self._changed:
            due = self._clock() + delay
            if key in self._due and self._due[key] <= due:
                return
            if key not in self._due:
                self._on_add()
            self._due[key] = due
            heapq.heappush(self._heap, (due, key))
            self._changed.notify()

    def get(self, timeout: float | None = None) -> PoolKey | None:
        """Wait for the next due pool; the caller must return it with `done`.

        Returns:
            None when the queue is closed, or when `timeout` seconds have passed.
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
                    self._on_get(-wait)
                    return key
                if end is not None:
                    if now >= end:
                        return None
                    wait = end - now if wait is None else min(wait, end - now)
                self._changed.wait(wait)
            return None

    def done(self, key: PoolKey) -> None:
        """Return a pool; it may be queued again."""
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
        """Return the number of due pools that wait for a worker."""
        with self._changed:
            now = self._clock()
            return sum(due <= now for due in self._due.values())

    def _skip_stale(self, now: float) -> float | None:
        """Drop outdated heap entries and those of busy pools; return seconds until the first entry is due."""
        while self._heap:
            due, key = self._heap[0]
            if self._due.get(key) == due and key not in self._busy:
                return due - now
            heapq.heappop(self._heap)
        return None
