"""Memory that bookies' replies are received into, used again once nobody looks at what lies in it."""

from __future__ import annotations

import threading
from typing import Final

from readonly_engine.bookkeeper.session_v2 import IDLE_BUFFER_BYTES, KEPT_BUFFER_BYTES

MOST_KEPT: Final = 16


class FrameBuffers:
    """Buffers of the tasks of a process: fresh memory for each reply would cost more in page faults than to verify what comes."""

    def __init__(self) -> None:
        self._kept: list[bytearray] = []
        self._lock = threading.Lock()

    def keep(self, buffer: bytearray) -> None:
        """Entries lie in a buffer: it can be had again when the last view of it is gone."""
        with self._lock:
            known = any(buffer is other for other in self._kept)
            if len(buffer) <= KEPT_BUFFER_BYTES and len(self._kept) < MOST_KEPT and not known:
                self._kept.append(buffer)

    def take(self) -> bytearray:
        """A buffer that nobody has a view of."""
        with self._lock:
            for index, buffer in enumerate(self._kept):
                if _unused(buffer):
                    del self._kept[index]
                    return buffer
        return bytearray(IDLE_BUFFER_BYTES)


OF_PROCESS: Final = FrameBuffers()


def _unused(buffer: bytearray) -> bool:
    """Whether nobody has a view: Python refuses to resize it else."""
    try:
        buffer.append(0)
    except BufferError:
        return False
    buffer.pop()
    return True
