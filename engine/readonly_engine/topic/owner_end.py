"""How far the owner of a topic counts its entries. It answers acks of later ones, and ignores them.

Bookies may confirm an entry before its owner counts it (broker/subscription/ignored_acks.py).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from readonly_engine.background import run_forever
from readonly_engine.topic.position import EARLIEST, Position

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.topic.chain import LedgerChain

ASK_TIMEOUT_S: Final = 2.0

INTERVALS_S: Final = (0.01, 0.1)
"""Shortest and longest interval between two requests to the owner. One answer is for all entries that have waited meanwhile."""

LONGEST_WAIT_S: Final = 5.0
"""Time after which a call is made in any case; the owner may be dead, or cut off. A request under way may add ASK_TIMEOUT_S."""

MAX_WAITING: Final = 10_000


class Lag(Protocol):
    """Entries that the owner has delivered, and that are not confirmed yet (see TopicLog.begin_splice)."""

    def flush(self) -> None:
        """Confirm them."""

    def end(self) -> None:
        """Confirm them, and each later one at once."""


class _Waiting(NamedTuple):
    """A call that waits until the owner counts an entry."""

    position: Position
    due: float
    call: Callable[[], None]


class OwnerEnd:
    """The last entry that the owner is known to count, and calls that wait for a later one.

    Args:
        chain: the topic's ledgers.
        ask: asks the owner for its last entry; returns None if it does not answer.

    Attributes:
        position: the last entry that the owner is known to count.
        lag: entries that it lacks; None for none.
    """

    __slots__ = ("_ask", "_asked_at", "_asking", "_chain", "_waiting", "lag", "position")

    def __init__(self, chain: LedgerChain, ask: Callable[[], Awaitable[Position | None]]) -> None:
        self.position = EARLIEST
        self.lag: Lag | None = None
        self._chain = chain
        self._ask = ask
        self._waiting: list[_Waiting] | tuple[()] = ()
        self._asking: asyncio.Task[None] | None = None
        self._asked_at = 0.0

    def confirm(self, position: Position) -> None:
        """Handle an entry that the owner has reported or delivered."""
        if position > self.position:
            self.position = position
            if self._waiting:
                self._call(lambda one: one.position <= position)

    def counts(self, position: Position) -> bool:
        """Return whether the owner counts an entry, or it is not readable here, so that no client got it."""
        if self.lag is not None:
            self.lag.flush()
        return position <= self.position or not self._chain.readable(position)

    def call_when_counted(self, position: Position, call: Callable[[], None]) -> None:
        """Call back when the owner counts an entry, or after LONGEST_WAIT_S. The first call asks the owner."""
        if self.lag is not None:
            self.lag.end()
        if len(self._waiting) >= MAX_WAITING:
            call()
            return
        due = asyncio.get_running_loop().time() + LONGEST_WAIT_S
        self._waiting = self._waiting or []
        self._waiting.append(_Waiting(position, due, call))
        if self._asking is None:
            self._asking = run_forever(self._ask_until_counted, "the wait for an owner's last entry")

    @property
    def waiting(self) -> bool:
        """Whether any call waits."""
        return bool(self._waiting)

    def close(self) -> None:
        """Make all waiting calls, and ask no more."""
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None
        self._call(lambda _: True)

    async def _ask_until_counted(self) -> None:
        loop, interval = asyncio.get_running_loop(), INTERVALS_S[0]
        while self._waiting:
            await asyncio.sleep(self._asked_at + interval - loop.time())
            self._asked_at = loop.time()
            self._call(_overdue(self._asked_at))  # before the request, which may fail
            interval = min(2 * interval, INTERVALS_S[1])
            try:
                async with asyncio.timeout(ASK_TIMEOUT_S):
                    last = await self._ask()
            except TimeoutError:
                last = None
            if last is not None:
                self.confirm(last)
        self._asking = None

    def _call(self, is_due: Callable[[_Waiting], bool]) -> None:
        due = [one for one in self._waiting if is_due(one)]
        self._waiting = [one for one in self._waiting if not is_due(one)] or ()
        for one in due:
            one.call()


def _overdue(now: float) -> Callable[[_Waiting], bool]:
    return lambda one: one.due <= now
