"""The live view of the demo: the table of `top`, drawn again in place, or a line now and then where the output is no terminal."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING, Final

from readonly_engine.demo.console import print_progress
from readonly_engine.top.client import StatusClient
from readonly_engine.top.observed import Observed, merged
from readonly_engine.top.screen import render
from readonly_engine.top.terminal import is_screen

if TYPE_CHECKING:
    from readonly_engine.demo.pool import Pool

LINE_S: Final = 2.0
"""Time between two lines where the output is no terminal."""

_UP: Final = "\x1b[{}A"
_END_OF_LINE: Final = "\x1b[K"
_ERASE_BELOW: Final = "\x1b[J"


class LiveView:
    """Shows the brokers of a pool until it is closed.

    Args:
        pool: the pool.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._client = StatusClient([broker.http_url for broker in pool.brokers], "")
        self._observed: list[Observed] = []
        self._screen = is_screen(sys.stderr, os.environ.get("TERM"))
        self._drawn = 0
        self._read = self._line = time.monotonic()

    async def close(self) -> None:
        """Close its connections; the last table stays."""
        await self._client.close()

    async def show(self) -> None:
        """Read the brokers, and show them."""
        await self._pool.count_dispatched()
        if not self._screen:
            if time.monotonic() - self._line >= LINE_S:
                self._line = time.monotonic()
                print_progress(", ".join(self._words()))
            return
        newer = await self._client.read()
        now = time.monotonic()
        self._observed = merged(self._observed, newer, now - self._read)
        self._read = now
        size = shutil.get_terminal_size()
        lines = render(self._observed, size.columns - 1, max(size.lines - 3, 5))
        sys.stderr.write((_UP.format(self._drawn) if self._drawn else "") + "\r")
        sys.stderr.write("".join(f"{line}{_END_OF_LINE}\n" for line in lines) + _ERASE_BELOW)
        sys.stderr.flush()
        self._drawn = len(lines)

    async def restart(self) -> None:
        """Begin another table below what is printed now, with the brokers that live."""
        await self._client.close()
        self._client = StatusClient([broker.http_url for broker in self._pool.brokers if broker.child.alive], "")
        self._observed = []
        self._drawn = 0

    def _words(self) -> list[str]:
        """Return the dispatched messages of each broker."""
        return [
            f"{broker.name}: {sum(broker.dispatched.values()):,} messages sent"
            if broker.child.alive
            else f"{broker.name}: killed"
            for broker in self._pool.brokers
        ]
