"""Limits of concurrent requests to one bookie."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

MAX_REQUESTS: Final = 1000
"""Below the 2,500 of Pulsar's bookies, which answer ETOOMANYREQUESTS above it (maxPendingReadRequestsPerThread)."""

MAX_BYTES: Final = 32 * 1024 * 1024
"""Bytes of concurrent replies, and so their memory here."""


class RequestBudget:
    """Admits requests to one bookie in order.

    A request above the limit is admitted while no other request is pending.

    Args:
        max_requests: limit of concurrent requests.
        max_bytes: limit of the expected bytes of their replies.
    """

    def __init__(self, max_requests: int = MAX_REQUESTS, max_bytes: int = MAX_BYTES) -> None:
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._waiters: deque[tuple[int, int, asyncio.Future[None]]] = deque()
        self.requests = 0
        self.bytes = 0

    async def admit(self, size: int, requests: int = 1) -> None:
        """Wait until there is room for requests with replies of the expected size in total.

        Pending requests have deadlines of their own, so there is room sooner or later.
        """
        if not self._waiters and self._fits(size, requests):
            self._count(size, requests)
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((size, requests, waiter))
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.release(size, requests)  # it was admitted, and its caller was cancelled
            else:
                self._wake()
            raise

    def release(self, size: int, requests: int = 1) -> None:
        """Release requests that were admitted with these arguments."""
        self._count(-size, -requests)
        self._wake()

    def _count(self, size: int, requests: int) -> None:
        self.requests += requests
        self.bytes += size

    def _fits(self, size: int, requests: int) -> bool:
        return not self.requests or (
            self.requests + requests <= self._max_requests and self.bytes + size <= self._max_bytes
        )

    def _wake(self) -> None:
        while self._waiters:
            size, requests, waiter = self._waiters[0]
            if not waiter.done():
                if not self._fits(size, requests):
                    return
                self._count(size, requests)
                waiter.set_result(None)
            self._waiters.popleft()
