"""How much may be under way at one bookie at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

MAX_REQUESTS: Final = 1000
"""Below the 2,500 at which a bookie of Pulsar's answers ETOOMANYREQUESTS (maxPendingReadRequestsPerThread)."""

MAX_BYTES: Final = 32 * 1024 * 1024
"""Of replies: what can arrive at once, and so what it can take of memory here."""


class InFlight:
    """Admits requests to one bookie, in the order in which they ask.

    A request that is larger than the limit alone is admitted when nothing else is under way.

    Args:
        max_requests: so many at a time.
        max_bytes: the sum of what they are expected to bring.
    """

    def __init__(self, max_requests: int = MAX_REQUESTS, max_bytes: int = MAX_BYTES) -> None:
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.requests = 0
        self.bytes = 0

    def try_admit(self, size: int) -> bool:
        """Admit a request that is expected to bring so many bytes, if there is room now."""
        if self._waiters or not self._fits(size):
            return False
        self.requests += 1
        self.bytes += size
        return True

    async def admit(self, size: int) -> None:
        """Wait until there is room. The caller's requests have deadlines of their own, so there is room sooner or later."""
        if self.try_admit(size):
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((size, waiter))
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.release(size)  # it was admitted and nobody is left to use it
            else:
                self._wake()
            raise

    def release(self, size: int) -> None:
        """A request that was admitted with this size has ended."""
        self.requests -= 1
        self.bytes -= size
        self._wake()

    def _fits(self, size: int) -> bool:
        return not self.requests or (self.requests < self._max_requests and self.bytes + size <= self._max_bytes)

    def _wake(self) -> None:
        while self._waiters:
            size, waiter = self._waiters[0]
            if waiter.done():
                self._waiters.popleft()
            elif self._fits(size):
                self._waiters.popleft()
                self.requests += 1
                self.bytes += size
                waiter.set_result(None)
            else:
                return
