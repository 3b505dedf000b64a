"""Progress of a long read, on a terminal's standard error."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

QUIET_S = 1.0
INTERVAL_S = 0.5
_CLEAR = "\r\x1b[K"


class Progress:
    """A line that is overwritten with the progress.

    Args:
        stream: the terminal.
        total: number of entries to read; 0 if it is unknown.
        shown: whether to write; not if the output goes to the same terminal.
    """

    def __init__(self, stream: TextIO, total: int, *, shown: bool) -> None:
        self._stream = stream
        self._total = total
        self._shown = shown
        self._begin = time.monotonic()
        self._next = self._begin + QUIET_S
        self._written = False
        self.entries = 0
        self.bytes = 0

    def add(self, size: int) -> None:
        """Count an entry."""
        self.entries += 1
        self.bytes += size
        if self._shown:
            now = time.monotonic()
            if now >= self._next:
                self._next = now + INTERVAL_S
                self._stream.write(_CLEAR + self.line(now - self._begin))
                self._stream.flush()
                self._written = True

    def line(self, seconds: float) -> str:
        """Return the line after a number of seconds."""
        of = f" of {self._total} ({100 * self.entries // self._total}%)" if self._total >= self.entries > 0 else ""
        speed = self.bytes / max(seconds, 0.001) / 1e6
        return f"{self.entries} entries{of}, {self.bytes / 1e6:.1f} MB, {speed:.1f} MB/s"

    def end(self) -> None:
        """Remove the line."""
        if self._written:
            self._stream.write(_CLEAR)
            self._stream.flush()
