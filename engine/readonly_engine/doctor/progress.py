"""Progress of slow checks, on standard error."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import TextIO

QUIET_S: Final = 3.0
"""Time until the first line, and interval of the lines."""


class Progress:
    """Writes which checks still run.

    Args:
        stream: standard error.
        name: name of the command.
    """

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self._running: dict[str, None] = {}

    def begin(self, check: str) -> None:
        """Record the beginning of a check."""
        self._running[check] = None

    def end(self, check: str) -> None:
        """Record the end of a check."""
        self._running.pop(check, None)

    def line(self, seconds: float) -> str:
        """Return the line after a number of seconds."""
        return f"{self._name}: after {seconds:.0f} s still checking: {', '.join(self._running) or 'nothing'}\n"

    async def run(self) -> None:
        """Write a line every QUIET_S, until cancelled."""
        began = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(QUIET_S)
            self._stream.write(self.line(asyncio.get_running_loop().time() - began))
            self._stream.flush()
