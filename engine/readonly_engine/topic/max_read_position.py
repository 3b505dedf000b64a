"""The owner broker's max read position, for transactions that are not visible in the entries.

A client may send a message in a transaction without the transaction's id in the message's metadata, as Go's does. The id is in
the SEND only, so only the owner has it (TopicTransactionBuffer.appendBufferToTxn). It holds such messages until the transaction
ends, like all others. Its dispatcher finds no id in them, so it delivers them after an abort too. An owner that has reloaded the
topic does not recognize them, and does not hold them any more.
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
"""Interval between requests while the tail moves: one reply covers all entries before the request. The second value is the
upper bound while the owner's replies stay the same."""

EXACT_S = (0.05, 5.0)
"""First and longest wait for the owner's last message to cover the awaited entry. Then the exact position is requested; the
wait doubles each time."""

ANSWER_S = 2.0
"""An owner that cannot parse its last entry never returns its last message (ManagedLedgerImplUtils). After this time, the exact
position is requested."""


class MaxReadPositionSchedule:
    """Schedules the requests to the owner, and chooses their kind. Pure: time is an argument, in seconds.

    The cheap request is for the last message. It excludes markers at the end, and may lag for a moment. So the exact request
    follows if the reply does not cover the awaited entry.

    Attributes:
        limit: the owner's max read position.
        awaited: the last entry that was awaited at the time of the latest request.
        held: whether an exact reply has ever excluded an awaited entry: a transaction was open then.
    """

    __slots__ = (
        "_exact_at",
        "_next",
        "_pause",
        "_spacing",
        "_tail",
        "_tail_asked",
        "_wanted",
        "awaited",
        "held",
        "limit",
    )

    def __init__(self) -> None:
        self.limit: Position = EARLIEST
        self.awaited: Position = EARLIEST
        self.held = False
        self._wanted: Position | None = None
        self._tail: Position = EARLIEST
        self._tail_asked: Position = EARLIEST
        self._next = 0.0
        self._spacing = SPACING_S[0]
        self._exact_at = 0.0
        self._pause = EXACT_S[0]

    def request(self, position: Position, tail: Position, now: float) -> None:
        """Record a wait for an entry. The topic ends at `tail` now, and entries up to there may have ended a transaction."""
        if position <= self.limit:
            return
        if self._wanted is None:
            self._expect(now)
            self._wanted, self._tail_asked = position, EARLIEST
        self._wanted, self._tail = max(self._wanted, position), max(self._tail, tail)

    def next_timer(self) -> float | None:
        """Return the time of the next request; None without an awaited entry."""
        if self._wanted is None:
            return None
        return min(self._next, self._exact_at) if self._tail_asked < self._tail else self._exact_at

    def on_timer(self, now: float) -> bool:
        """Record the start of a request; return whether it must be the exact one."""
        exact = now >= self._exact_at
        if exact:
            self._pause = min(2 * self._pause, EXACT_S[1])
            self._exact_at = now + self._pause
        self.awaited = EARLIEST if self._wanted is None else self._wanted
        self._tail_asked, self._next = self._tail, now + self._spacing
        self._spacing = min(2 * self._spacing, SPACING_S[1])
        return exact

    def answered(self, position: Position, now: float, *, exact: bool = False) -> bool:
        """Apply the owner's max read position; return whether it has risen."""
        if exact and position < self.awaited:
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
    """Holds entries that the owner holds. Sends requests while readers wait for entries, one request at a time.

    An entry is allowed only by a reply to a request after the entry was known, so never too early.

    Args:
        last: asks the owner for the last message that it delivers; None without an answer.
        exact: asks the owner for its exact max read position; None without an answer.
        on_moved: called when the limit has risen.

    Attributes:
        active: whether there is a limit.
        on_answer: called after each request and after `on_moved`, with the last entry that was awaited at the request's time.
    """

    __slots__ = ("_exact", "_last", "_loop", "_on_moved", "_schedule", "_task", "_wanted", "active", "on_answer")

    def __init__(
        self,
        last: Callable[[], Awaitable[Position | None]],
        exact: Callable[[], Awaitable[Position | None]],
        on_moved: Callable[[], None],
    ) -> None:
        self.active = False
        self.on_answer: Callable[[Position], None] = _ignore
        self._last = last
        self._exact = exact
        self._on_moved = on_moved
        self._schedule = MaxReadPositionSchedule()
        self._wanted: asyncio.Event | None = None  # while a request is put off
        self._task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def held(self) -> bool:
        """Whether the owner has ever held an entry."""
        return self._schedule.held

    @property
    def limit(self) -> Position:
        """The owner's max read position, as far as it is known."""
        return self._schedule.limit

    def allows(self, position: Position) -> bool:
        """Whether consumers may get an entry."""
        return not self.active or position <= self._schedule.limit

    def request(self, position: Position, tail: Position) -> None:
        """Ask the owner until it allows an entry; the topic ends at `tail` now."""
        self._schedule.request(position, tail, self._loop.time())
        if self._wanted is not None:
            self._wanted.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._ask())
            self._task.add_done_callback(_ended)

    def notify(self, position: Position) -> None:
        """Apply a max read position that the owner has sent without a request."""
        if self._schedule.answered(position, self._loop.time()) and self.active:
            self._on_moved()
            self.on_answer(EARLIEST)

    def close(self) -> None:
        """Stop all requests."""
        if self._task is not None:
            self._task.cancel()

    async def _ask(self) -> None:
        while (at := self._schedule.next_timer()) is not None:
            now = self._loop.time()
            if at > now:
                self._wanted = asyncio.Event()
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(at):
                        await self._wanted.wait()
                self._wanted = None
                continue
            exact = self._schedule.on_timer(now)
            position = await self._exact() if exact else None
            if position is None:
                exact = False
                with suppress(TimeoutError):
                    async with asyncio.timeout(ANSWER_S):
                        position = await self._last()
            awaited = self._schedule.awaited
            if position is not None and self._schedule.answered(position, self._loop.time(), exact=exact):
                self._on_moved()
            self.on_answer(awaited)


def _ignore(_: Position) -> None:
    """Do nothing with an answer."""


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("requests of the max read position failed", exc_info=error)
