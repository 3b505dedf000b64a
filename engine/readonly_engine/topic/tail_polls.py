"""The polls of a topic's open ledgers for their LAC: of all, or while the owner pushes entries, of new ones for some time.

A topic that the owner will push within a second begins without polls: bookies answer the polls of a crowd of idle topics slower
than the owner subscribes them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from readonly_engine.small_map import SmallMap
from readonly_engine.topic.position import Position

if TYPE_CHECKING:
    from readonly_engine.bookkeeper.lac_follower import LacFollower

NEW_LEDGER_POLL_S = 60.0
"""Time for which a new ledger is polled although the owner pushes entries. A former owner does not push those of its successor.

It ends its connections within the timeout of its ZooKeeper session, 30 s by default (zooKeeperSessionTimeoutMillis)."""

NEW_PUSH_S = 2.0
"""Time from the begin of the pushes in which a ledger that becomes known is the pushing owner's: it had just loaded the topic."""

_NO_TIMERS: Final[dict[int, asyncio.TimerHandle]] = {}
"""Those of topics without a new ledger; nothing is added here."""


class TailPolls:
    """Suspends and resumes the polls of a topic's open ledgers.

    Attributes:
        tails: the followers of the open ledgers, by ledger.
        timers: end the polls of new ledgers while the owner pushes, by ledger.
    """

    __slots__ = ("_expected", "_needed", "_pushed_ahead", "_pushed_since", "tails", "timers")

    def __init__(self) -> None:
        self.tails: SmallMap[int, LacFollower] = SmallMap()
        self.timers = _NO_TIMERS
        self._expected = False
        self._pushed_since: float | None = None  # None: the owner does not push
        self._needed = True
        self._pushed_ahead: Position | None = None

    def set_needed(self, *, needed: bool) -> None:
        """Poll only while LACs are needed."""
        self._needed = needed
        for ledger_id, tail in self.tails.items():
            if not needed:
                tail.suspend()
            elif not (self._expected or self._pushed_since is not None) or ledger_id in self.timers:
                tail.resume()

    def expect_push(self) -> None:
        """Do not poll new ledgers until the owner pushes, or until `expect_no_push`."""
        self._expected = True

    def expect_no_push(self) -> None:
        """Poll after all, unless the owner pushes already."""
        if self._expected:
            self.resume()

    def push_ended(self) -> None:
        """Handle the end of the pushes. Ledgers are polled after `expect_no_push`, unless the owner pushes again before."""
        self._expected, self._pushed_since = True, None
        self._pushed_ahead = None
        self._cancel_timers()

    def suspend(self) -> None:
        """Send no more polls: the owner pushes each entry from the next one on."""
        self._expected, self._pushed_since = False, asyncio.get_running_loop().time()
        for tail in self.tails.values():
            tail.suspend()

    def resume(self) -> None:
        """Poll again, if LACs are needed: the owner does not push any more."""
        self._expected, self._pushed_since = False, None
        self._pushed_ahead = None
        self._cancel_timers()
        if self._needed:
            for tail in self.tails.values():
                tail.resume()

    def on_pushed_ahead(self, ledger_id: int, entry_id: int) -> None:
        """Note an entry that was pushed before its ledger was known."""
        self._pushed_ahead = Position(ledger_id, entry_id)

    def suspend_new_ledger(self, ledger_id: int) -> None:
        """Stop the polls of a new ledger."""
        timer = self.timers.pop(ledger_id, None)
        if timer is not None:
            timer.cancel()
            self.timers = self.timers or _NO_TIMERS
            tail = self.tails.get(ledger_id)
            if tail is not None:
                tail.suspend()

    def follow(self, ledger_id: int, tail: LacFollower) -> None:
        """Add a new ledger. While the owner pushes, apply what it has pushed already, or limit the time of the polls."""
        self.tails[ledger_id] = tail
        loop, since = asyncio.get_running_loop(), self._pushed_since
        new_push = since is not None and loop.time() < since + NEW_PUSH_S
        if self._needed and not (self._expected or new_push):
            tail.resume()
        if since is None:
            return
        if not new_push:
            self.timers = self.timers or {}
            self.timers[ledger_id] = loop.call_later(NEW_LEDGER_POLL_S, self.suspend_new_ledger, ledger_id)
        ahead, self._pushed_ahead = self._pushed_ahead, None
        if ahead is not None and ahead.ledger_id == ledger_id:
            self.suspend_new_ledger(ledger_id)
            tail.confirm(ahead.entry_id)

    def forget(self, ledger_id: int) -> None:
        """Stop following a ledger, which was closed or removed."""
        tail = self.tails.pop(ledger_id, None)
        if tail is not None:
            tail.stop()
        timer = self.timers.pop(ledger_id, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """Stop following all ledgers."""
        self._cancel_timers()
        for tail in self.tails.values():
            tail.stop()
        self.tails.clear()  # the end of pushes resumes nothing

    def _cancel_timers(self) -> None:
        for timer in self.timers.values():
            timer.cancel()
        self.timers = _NO_TIMERS
