"""Shares of the event loop: the frames of one read are processed in slices, with other clients in between."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SLICE_S = 0.005
"""Longest processing for one client in one iteration of the event loop."""


class FrameSlicer:
    """Processes the frames of one client in order.

    Args:
        process: does what a frame asks for; returns whether to go on.
        reschedule: called in a later turn with a function that takes the next slice, and raises what `process` raises.

    Attributes:
        pending: frames that wait for a later turn.
    """

    __slots__ = ("_process", "_reschedule", "pending")

    def __init__(self, process: Callable[[bytes], bool], reschedule: Callable[[Callable[[], None]], None]) -> None:
        self._process = process
        self._reschedule = reschedule
        self.pending: deque[bytes] = deque()

    def receive(self, frames: list[bytes]) -> None:
        """Process the frames of one read, after the pending ones."""
        if frames:
            scheduled = bool(self.pending)  # TLS passes on decrypted data while reading is paused
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
