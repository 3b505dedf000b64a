"""How many SUBSCRIBEs an owner has to answer at once, and in what steps the others of a crowd follow.

An owner makes many subscriptions together in far less time than one by one: it writes up to a thousand nodes by one request to
the metadata store (metadataStoreBatchingMaxOperations). But of a crowd that is sent at once most would wait for longer than
a request may take, would be given up and ask again: so no more are sent than it answers in a few seconds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LIMITS: Final = (500, 4000)
"""An owner makes 300 to 1,500 durable subscriptions of one topic a second (measured), the fewer the more there are."""

FAST_ANSWER_S: Final = 5.0
SLOW_ANSWER_S: Final = 10.0


class ThrottleWindow:
    """How many may be unanswered. Pure.

    It grows with each answer that came soon and shrinks with each that came late. Once it is full the next may go when half of it
    is answered, and then they go together.

    Attributes:
        limit: how many may be unanswered.
        unanswered: how many are.
    """

    def __init__(self) -> None:
        self.limit = LIMITS[0]
        self.unanswered = 0
        self._full = False

    def acquire(self) -> bool:
        """Send one, if one may be sent."""
        if self._full:
            return False
        self.unanswered += 1
        self._full = self.unanswered >= self.limit
        return True

    def release(self, waited: float) -> bool:
        """One was answered, or is given up. Returns whether others may be sent.

        Args:
            waited: seconds since it was sent.
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
    """Holds back whoever has to wait."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._window = ThrottleWindow()
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait until one more may be sent; the context lasts until it is answered or given up."""
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
                self._release(FAST_ANSWER_S)  # it was let in just then
            raise

    def _release(self, waited: float) -> None:
        if not self._window.release(waited):
            return
        while self._waiting and (self._waiting[0].done() or self._window.acquire()):
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
