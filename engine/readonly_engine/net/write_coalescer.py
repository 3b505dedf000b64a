"""Coalesced writes: the pending frames of all connections are sent in one callback of the event loop."""

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
    """Flushes all connections with pending frames in one callback."""

    def __init__(self) -> None:
        self._waiting: list[BufferedWriter] = []

    def add(self, writer: BufferedWriter) -> None:
        """Flush a connection in the next callback. Call it once for each connection and callback."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self._waiting.append(writer)

    def flush(self) -> None:
        """Flush all connections now, before a write that must not overtake pending frames."""
        waiting, self._waiting = self._waiting, []
        for writer in waiting:
            try:
                writer.flush()
            except Exception:
                log.exception("a client cannot be sent to")
