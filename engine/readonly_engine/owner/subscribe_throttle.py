"""Bound of the unanswered SUBSCRIBEs of one connection.

An owner creates many subscriptions together in far less time than one by one. It writes up to a thousand nodes by one request to
the metadata store (metadataStoreBatchingMaxOperations). Without a bound, most SUBSCRIBEs of a crowd would exceed the request
timeout and be repeated. So only as many are sent as the owner answers in a few seconds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LIMITS: Final = (500, 4000)
"""An owner creates 300 to 1,500 durable subscriptions of one topic per second (measured), fewer with more present."""

FAST_ANSWER_S: Final = 5.0
SLOW_ANSWER_S: Final = 10.0


class ThrottleWindow:
    """Adaptive limit of unanswered requests. Pure.

    The limit grows with each fast answer and shrinks with each slow one. A full window opens again when half of it is answered,
    so that the next requests go together.

    Attributes:
        limit: number of requests that may be unanswered.
        unanswered: number of requests that are.
    """

    def __init__(self) -> None:
        self.limit = LIMITS[0]
        self.unanswered = 0
        self._full = False

    def acquire(self) -> bool:
        """Count one more request, if the window is open. Return whether it is."""
        if self._full:
            return False
        self.unanswered += 1
        self._full = self.unanswered >= self.limit
        return True

    def release(self, waited: float) -> bool:
        """Count an answer or a timeout. Return whether more requests may be sent.

        Args:
            waited: seconds since the request was sent.
        """
        self.unanswered -= 1
        if waited < FAST_ANSWER_S:
            self.limit = min(self.limit + 1, LIMITS[1])
        elif waited > SLOW_ANSWER_S:
            self.limit = max(self.limit - 1, LIMITS[0])
        if self.unanswered <= self.limit // 2:
            self._full = False
        return not self._full


class SubscribeThrottle:
    """Lets callers wait for the window, in the order of their calls."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._window = ThrottleWindow()
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait until one more request may be sent; the context lasts until its answer or timeout."""
        await self._acquire()
        sent = self._loop.time()
        try:
            yield
        finally:
            self._release(self._loop.time() - sent)

    async def _acquire(self) -> None:
        if not self._waiting and self._window.acquire():
            return
        waiting = self._loop.create_future()
        self._waiting.append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            if not waiting.cancelled():
                self._release(FAST_ANSWER_S)  # it has got a slot just then
            raise

    def _release(self, waited: float) -> None:
        if not self._window.release(waited):
            return
        while self._waiting and (self._waiting[0].done() or self._window.acquire()):
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
