"""Frames that go out together when a turn of the event loop is over."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

log = logging.getLogger(__name__)


class Sender(Protocol):
    """Somebody who has something to send."""

    def flush(self) -> None:
        """Send it."""


class Turn:
    """Flushes, in one callback of the event loop, all who had something to send in this turn."""

    def __init__(self) -> None:
        self._waiting: list[Sender] = []

    def add(self, sender: Sender) -> None:
        """Flush somebody at the end of this turn; asked for once a turn by each."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.end)
        self._waiting.append(sender)

    def end(self) -> None:
        """Flush them now: something goes out that must not be before it."""
        waiting, self._waiting = self._waiting, []
        for sender in waiting:
            try:
                sender.flush()
            except Exception:
                log.exception("a client cannot be sent to")
