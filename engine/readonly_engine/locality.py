"""Where this broker is, as `/RACK` or `/ZONE/RACK`: the same words in which bookies are placed."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from readonly_engine.config.kinds import is_locality

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

log = logging.getLogger(__name__)

POLL_S: Final = 1.0


class LocalityFile:
    """A file with this broker's place, which somebody else writes when it is known: on Kubernetes, after the broker has started.

    Args:
        path: of the file. One that is not there or is empty says nothing.
        moved: told of each new place.
    """

    def __init__(self, path: Path, moved: Callable[[str], None]) -> None:
        self._path = path
        self._moved = moved
        self._last = ""

    def look(self) -> None:
        """Read the file; what cannot be used is complained about once, and what was known stays."""
        try:
            text = self._path.read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            return
        if not text or text == self._last:
            return
        self._last = text
        if is_locality(text):
            log.info("this broker is at %s; bookies near it are read first", text)
            self._moved(text)
        else:
            log.warning("locality-file %s: %r would be /RACK or /ZONE/RACK", self._path, text)

    async def follow(self) -> None:
        """Look at the file for ever."""
        while True:
            self.look()
            await asyncio.sleep(POLL_S)
