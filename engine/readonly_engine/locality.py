"""Locality of this broker, `/RACK` or `/ZONE/RACK`, in the form of bookies' racks."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from readonly_engine.background import sleep_to_tick
from readonly_engine.config.kinds import is_locality

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

log = logging.getLogger(__name__)

POLL_S: Final = 1.0


class LocalityFile:
    """A file with this broker's rack. On Kubernetes, the operator writes it after the broker has started.

    Args:
        path: the file. A missing or empty file changes nothing.
        on_changed: called with each new locality.
    """

    def __init__(self, path: Path, on_changed: Callable[[str], None]) -> None:
        self._path = path
        self._on_changed = on_changed
        self._last = ""

    def reload(self) -> None:
        """Read the file. An invalid rack is logged once, and the last valid one stays in force."""
        try:
            text = self._path.read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            return
        if not text or text == self._last:
            return
        self._last = text
        if is_locality(text):
            log.info("locality of this broker: %s; near bookies are read first, near clients are sent here", text)
            self._on_changed(text)
        else:
            log.warning("locality-file %s: must be /RACK or /ZONE/RACK, not %r", self._path, text)

    async def follow(self) -> None:
        """Poll the file forever."""
        while True:
            self.reload()
            await sleep_to_tick(POLL_S)
