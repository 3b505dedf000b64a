"""Writes that are flushed together at the end of an iteration of the event loop."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

log = logging.getLogger(__name__)


class BufferedWriter(Protocol):
    """A connection with pending frames."""

    def flush(self) -> None:
        """Send the pending frames."""


class WriteCoalescer:
    """Flushes, in one callback of the event loop, all connections with pending frames."""

    def __init__(self) -> None:
        self._waiting: list[BufferedWriter] = []

    def add(self, writer: BufferedWriter) -> None:
        """Flush a connection at the end of this iteration. Call it once for each connection and iteration."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self._waiting.append(writer)

    def flush(self) -> None:
        """Flush all now, before a write that must not overtake them."""
        waiting, self._waiting = self._waiting, []
        for writer in waiting:
            try:
                writer.flush()
            except Exception:
                log.exception("a client cannot be sent to")
