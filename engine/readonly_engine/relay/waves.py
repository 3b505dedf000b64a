"""How many SUBSCRIBEs an owner has to answer at once, and in what steps the others of a crowd follow.

An owner makes many subscriptions together in far less time than one by one: it writes up to a thousand nodes by one request to
the metadata store (metadataStoreBatchingMaxOperations). But of a crowd that is sent at once most would wait for longer than
a request may take, would be given up and ask again: so no more are sent than it answers in a few seconds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import TracebackType

LIMITS: Final = (500, 4000)
"""An owner makes 300 to 1,500 durable subscriptions of one topic a second (measured), the fewer the more there are."""

SOON_S: Final = 5.0
LATE_S: Final = 10.0


class Window:
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

    def enter(self) -> bool:
        """Send one, if one may be sent."""
        if self._full:
            return False
        self.unanswered += 1
        self._full = self.unanswered >= self.limit
        return True

    def leave(self, waited: float) -> bool:
        """One was answered, or is given up. Returns whether others may be sent.

        Args:
            waited: seconds since it was sent.
        """
        self.unanswered -= 1
        if waited < SOON_S:
            self.limit = min(self.limit + 1, LIMITS[1])
        elif waited > LATE_S:
            self.limit = max(self.limit - 1, LIMITS[0])
        if self.unanswered <= self.limit // 2:
            self._full = False
        return not self._full


class Waves:
    """Holds back whoever has to wait."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._window = Window()
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> Turn:
        """Wait until one more may be sent; `with` what this returns, while it is unanswered."""
        if self._waiting or not self._window.enter():
            waiting = self._loop.create_future()
            self._waiting.append(waiting)
            try:
                await waiting
            except asyncio.CancelledError:
                if waiting.done() and not waiting.cancelled():
                    self._left(SOON_S)  # it was let in just then
                raise
        return Turn(self, self._loop.time())

    def left(self, since: float) -> None:
        """One was answered or given up that was sent then."""
        self._left(self._loop.time() - since)

    def _left(self, waited: float) -> None:
        if not self._window.leave(waited):
            return
        while self._waiting and (self._waiting[0].done() or self._window.enter()):
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)


class Turn:
    """One that is unanswered."""

    __slots__ = ("_since", "_waves")

    def __init__(self, waves: Waves, since: float) -> None:
        self._waves = waves
        self._since = since

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._waves.left(self._since)
