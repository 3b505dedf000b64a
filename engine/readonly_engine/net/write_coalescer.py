"""Frames that go out together when a turn of the event loop is over."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

log = logging.getLogger(__name__)


class BufferedWriter(Protocol):
    """Somebody who has something to send."""

    def flush(self) -> None:
        """Send it."""


class WriteCoalescer:
    """Flushes, in one callback of the event loop, all who had something to send in this turn."""

    def __init__(self) -> None:
        self._waiting: list[BufferedWriter] = []

    def add(self, writer: BufferedWriter) -> None:
        """Flush somebody at the end of this turn; asked for once a turn by each."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self._waiting.append(writer)

    def flush(self) -> None:
        """Flush them now: something goes out that must not be before it."""
        waiting, self._waiting = self._waiting, []
        for writer in waiting:
            try:
                writer.flush()
            except Exception:
                log.exception("a client cannot be sent to")
