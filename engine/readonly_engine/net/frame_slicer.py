"""A share of the event loop for each client: what one read brings is taken in slices, and others have their turn in between."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SLICE_S = 0.005
"""So long the commands of one client are taken in one turn of the event loop."""


class FrameSlicer:
    """Takes the frames of one client in their order.

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
        """Take what one read has brought, behind what waits."""
        if frames:
            scheduled = bool(self.pending)  # TLS hands out what it has decrypted, though reading is paused
            self.pending += frames
            if not scheduled:
                self._process_slice()

    def clear(self) -> None:
        """Take no more."""
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
