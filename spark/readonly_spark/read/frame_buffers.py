"""Reusable receive buffers for replies of bookies."""

from __future__ import annotations

import threading
from typing import Final

from readonly_engine.bookkeeper.session_v2 import IDLE_BUFFER_BYTES, KEPT_BUFFER_BYTES

MAX_KEPT: Final = 16


class FrameBuffers:
    """A pool of buffers. Page faults of fresh memory would cost more than the verification of a reply."""

    def __init__(self) -> None:
        self._kept: list[bytearray] = []
        self._lock = threading.Lock()

    def keep(self, buffer: bytearray) -> None:
        """Return a buffer to the pool; it is reused after the last view of it is gone."""
        with self._lock:
            known = any(buffer is other for other in self._kept)
            if len(buffer) <= KEPT_BUFFER_BYTES and len(self._kept) < MAX_KEPT and not known:
                self._kept.append(buffer)

    def take(self) -> bytearray:
        """Return a buffer without views."""
        with self._lock:
            for index, buffer in enumerate(self._kept):
                if _unused(buffer):
                    del self._kept[index]
                    return buffer
        return bytearray(IDLE_BUFFER_BYTES)


PROCESS_BUFFERS: Final = FrameBuffers()
"""The pool that all tasks of this process share."""


def _unused(buffer: bytearray) -> bool:
    """Return whether a buffer has no views: Python refuses to resize one that has."""
    try:
        buffer.append(0)
    except BufferError:
        return False
    buffer.pop()
    return True
