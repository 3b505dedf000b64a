"""Time slices of the event loop: other clients are served between the slices of one client's frames."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SLICE_S = 0.005
"""Time after which a client's frames wait for the next iteration of the event loop. A frame is not interrupted."""


class FrameSlicer:
    """Processes the frames of one client in order.

    Args:
        process: handles one frame; returns False to drop the frames after it.
        reschedule: called in the next iteration of the event loop with a function that processes the next slice. The function
            raises the errors of `process`.

    Attributes:
        pending: frames that wait for the next iteration.
    """

    __slots__ = ("_process", "_reschedule", "pending")

    def __init__(self, process: Callable[[bytes], bool], reschedule: Callable[[Callable[[], None]], None]) -> None:
        self._process = process
        self._reschedule = reschedule
        self.pending: deque[bytes] = deque()

    def receive(self, frames: list[bytes]) -> None:
        """Process the frames of one read, after the pending frames."""
        if frames:
            scheduled = bool(self.pending)  # TLS delivers decrypted data even while reading is paused
            self.pending += frames
            if not scheduled:
                self._process_slice()

    def clear(self) -> None:
        """Drop the pending frames."""
        self.pending.clear()

    def _process_slice(self) -> None:
        until = time.monotonic() + SLICE_S
        while self.pending:
            if not self._process(self.pending.popleft()):
                self.pending.clear()
            elif time.monotonic() >= until:
                break
        if self.pending:
            asyncio.get_running_loop().call_soon(self._reschedule, self._process_slice)
