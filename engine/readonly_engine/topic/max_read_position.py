"""How far a topic's owner lets consumers read, where the entries alone do not tell.

A client may send a message in a transaction without writing the transaction's id into the message's metadata, as Go's does. The
id is in the SEND only, so the owner alone knows of it (TopicTransactionBuffer.appendBufferToTxn). It keeps such messages back
until the transaction ends, like all others. Its dispatcher finds no id in them, so they are delivered after an abort too; and an
owner that has loaded the topic anew does not know that they are of a transaction, and keeps them back no more.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from readonly_engine.topic.position import EARLIEST

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.topic.position import Position

log = logging.getLogger(__name__)

SPACING_S = (0.01, 0.1)
"""Between two questions while the tail moves: one answer is good for all entries that came before the question. The second, while
the owner's answers stay the same."""

EXACT_S = (0.05, 5.0)
"""When the owner's last message does not cover what is waited for, it is asked for its exact limit: after the first, then after
twice as long, up to the second."""

ANSWER_S = 2.0
"""An owner whose last entry cannot be parsed never says what its last message is (ManagedLedgerImplUtils): then it is asked
exactly."""


class MaxReadPositionSchedule:
    """When to ask the owner, and what. Pure: time is an argument, in seconds.

    The cheap question is for its last message; that leaves out markers at the end, and may lag behind for a moment. So when it
    does not cover what somebody waits for, the exact question follows.

    Attributes:
        limit: the owner has said that consumers may read up to here.
        held: whether the owner has ever kept something back when asked exactly: a transaction was open then.
    """

    def __init__(self) -> None:
        self.limit: Position = EARLIEST
        self.held = False
        self._wanted: Position | None = None
        self._wanted_when_asked: Position | None = None
        self._tail: Position = EARLIEST
        self._tail_asked: Position = EARLIEST
        self._next = 0.0
        self._spacing = SPACING_S[0]
        self._exact_at = 0.0
        self._pause = EXACT_S[0]

    def request(self, position: Position, tail: Position, now: float) -> None:
        """Somebody waits for an entry. The topic goes on to `tail` now: what comes there may have ended a transaction."""
        if position <= self.limit:
            return
        if self._wanted is None:
            self._expect(now)
            self._wanted, self._tail_asked = position, EARLIEST
        self._wanted, self._tail = max(self._wanted, position), max(self._tail, tail)

    def due(self) -> float | None:
        """When to ask next; None while nobody waits."""
        if self._wanted is None:
            return None
        return min(self._next, self._exact_at) if self._tail_asked < self._tail else self._exact_at

    def begin(self, now: float) -> bool:
        """Ask now. Returns whether the exact question is due."""
        exact = now >= self._exact_at
        if exact:
            self._pause = min(2 * self._pause, EXACT_S[1])
            self._exact_at = now + self._pause
        self._wanted_when_asked = self._wanted
        self._tail_asked, self._next = self._tail, now + self._spacing
        self._spacing = min(2 * self._spacing, SPACING_S[1])
        return exact

    def answered(self, position: Position, now: float, *, exact: bool = False) -> bool:
        """Take the owner's word that consumers may read up to a position; returns whether that is news."""
        if exact and self._wanted_when_asked is not None and position < self._wanted_when_asked:
            self.held = True
        if position <= self.limit:
            return False
        self.limit = position
        if self._wanted is not None and self._wanted <= position:
            self._wanted = None
        self._expect(now)
        return True

    def _expect(self, now: float) -> None:
        self._spacing, self._next = SPACING_S[0], min(self._next, now + SPACING_S[0])
        self._pause = EXACT_S[0]
        self._exact_at = now + self._pause


class MaxReadPosition:
    """Keeps a topic's readers from what its owner keeps back. Asks while they wait for entries, one question at a time.

    An entry is let through on an answer only that was given after the entry was known, so none is ever let through too early.

    Args:
        last: asks the owner for the last message that it delivers; None where it does not say.
        exact: asks it how far exactly it lets consumers read; None where it does not say.
        on_moved: called when the limit has moved.
    """

    def __init__(
        self,
        last: Callable[[], Awaitable[Position | None]],
        exact: Callable[[], Awaitable[Position | None]],
        on_moved: Callable[[], None],
    ) -> None:
        self.active = False
        self._last = last
        self._exact = exact
        self._on_moved = on_moved
        self._schedule = MaxReadPositionSchedule()
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def held(self) -> bool:
        """Whether the owner has ever kept something back."""
        return self._schedule.held

    def allows(self, position: Position) -> bool:
        """Whether consumers may get an entry."""
        return not self.active or position <= self._schedule.limit

    def request(self, position: Position, tail: Position) -> None:
        """Ask the owner until it allows an entry; the topic goes on to `tail` now."""
        self._schedule.request(position, tail, self._loop.time())
        self._wanted.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._ask())
            self._task.add_done_callback(_ended)

    def notify(self, position: Position) -> None:
        """The owner has said by itself that consumers may read up to a position."""
        if self._schedule.answered(position, self._loop.time()) and self.active:
            self._on_moved()

    def close(self) -> None:
        """Ask no more."""
        if self._task is not None:
            self._task.cancel()

    async def _ask(self) -> None:
        while (at := self._schedule.due()) is not None:
            now = self._loop.time()
            if at > now:
                self._wanted.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(at):
                        await self._wanted.wait()
                continue
            exact = self._schedule.begin(now)
            position = await self._exact() if exact else None
            if position is None:
                exact = False
                with suppress(TimeoutError):
                    async with asyncio.timeout(ANSWER_S):
                        position = await self._last()
            if position is not None and self._schedule.answered(position, self._loop.time(), exact=exact):
                self._on_moved()


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("the owner's limit cannot be asked for", exc_info=error)
