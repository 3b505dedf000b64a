"""Windows of objects: ranges of fixed size that are read by one request, cached, and read ahead."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from readonly_engine import tracing
from readonly_engine.waiting import await_shared

if TYPE_CHECKING:
    from readonly_engine.tiered.objects import Objects

READ_AHEAD_WINDOWS = 2
"""Windows that are read ahead."""

MAX_REQUESTS = 8
"""Concurrent requests, of all ledgers together."""


class WindowCache:
    """A cache of windows, which begin at multiples of `size`. Concurrent readers of a window share one request.

    Args:
        size: bytes of a window.
        max_bytes: bytes of all windows that are cached or in flight.
    """

    def __init__(self, size: int, max_bytes: int) -> None:
        self.size = size
        self._max = max(max_bytes // size, 1)
        self._tasks: OrderedDict[tuple[Objects, str, int], asyncio.Task[bytes | memoryview]] = OrderedDict()
        self._slots = asyncio.Semaphore(MAX_REQUESTS)
        self.requests = 0
        self.bytes_read = 0

    async def get(self, objects: Objects, key: str, number: int) -> bytes | memoryview:
        """Return one window: `size` bytes, fewer at the end of the object.

        Raises:
            TieredStorageError: the window cannot be read.
        """
        # A cancelled reader must not cancel the request of the others.
        return await await_shared(self._start(objects, key, number))

    def read_ahead(self, objects: Objects, key: str, number: int, end: int) -> None:
        """Start to read READ_AHEAD_WINDOWS windows from `number` on, those that begin before `end`."""
        for following in range(number, number + READ_AHEAD_WINDOWS):
            if following * self.size < end:
                self._start(objects, key, following)

    def close(self) -> None:
        """Drop all windows, and cancel all requests."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    def __len__(self) -> int:
        return len(self._tasks)

    def _start(self, objects: Objects, key: str, number: int) -> asyncio.Task[bytes | memoryview]:
        at = (objects, key, number)
        task = self._tasks.get(at)
        if task is None:
            task = self._tasks[at] = asyncio.create_task(self._read(objects, key, number))
            task.add_done_callback(lambda done: self._read_done(at, done))
            self._make_room()
        else:
            self._tasks.move_to_end(at)
        return task

    def _make_room(self) -> None:
        for at in list(self._tasks)[: max(len(self._tasks) - self._max, 0)]:
            # A window in flight has a reader; readers and their read-ahead bound the number of these.
            if self._tasks[at].done():
                del self._tasks[at]

    def _read_done(self, at: tuple[Objects, str, int], task: asyncio.Task[bytes | memoryview]) -> None:
        if (task.cancelled() or task.exception() is not None) and self._tasks.get(at) is task:
            del self._tasks[at]

    async def _read(self, objects: Objects, key: str, number: int) -> bytes | memoryview:
        start = number * self.size
        return await self.read(objects, key, start, start + self.size)

    async def read(self, objects: Objects, key: str, start: int, end: int) -> bytes | memoryview:
        """Return bytes without caching them, for an entry that is larger than a window.

        Raises:
            TieredStorageError: the range cannot be read.
        """
        async with self._slots:
            self.requests += 1
            began = time.monotonic()
            data = await objects.read(key, start, end)
            self.bytes_read += len(data)
            if (seconds := time.monotonic() - began) >= tracing.state.slow_s:
                tracing.on_read("tiered storage read", seconds, {"pulsar.object": key, "pulsar.bytes": len(data)})
            return data
