"""Time slices of the event loop: other clients are served between the slices of one client's frames."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SLICE_S = 0.005
"""Time after which a client's frames wait for the next iteration of the event loop. A frame is not interrupted."""


class FrameSlicer:
    """Processes the frames of one client in order.

    Args:
        process: handles one frame; returns False to drop the frames after it.
        reschedule: called in the next iteration of the event loop with a function that processes the next slice. The function
            raises the errors of `process`.

    Attributes:
        pending: frames that wait for the next iteration, and those still to be made of a long one; None or empty without any.
    """

    __slots__ = ("_process", "_reschedule", "pending")

    def __init__(self, process: Callable[[bytes], bool], reschedule: Callable[[Callable[[], None]], None]) -> None:
        self._process = process
        self._reschedule = reschedule
        self.pending: deque[bytes | Iterator[bytes]] | None = None  # an empty deque takes 760 bytes

    def receive(self, frames: list[bytes]) -> None:
        """Process the frames of one read, after the pending frames."""
        if self.pending:  # TLS delivers decrypted data even while reading is paused
            self.pending += frames
        elif frames:
            self.pending = deque(frames)
            self._process_slice()

    def insert(self, frames: Iterator[bytes]) -> None:
        """Process frames in place of the one in process, before the pending frames. Each is made when its turn comes."""
        if self.pending is not None:
            self.pending.appendleft(frames)
        else:
            self.pending = deque([frames])
            self._process_slice()

    def clear(self) -> None:
        """Drop the pending frames."""
        self.pending = None

    def _process_slice(self) -> None:
        until = time.monotonic() + SLICE_S
        while self.pending:
            frame = self.pending[0]
            if isinstance(frame, bytes):
                self.pending.popleft()
            else:
                made = next(frame, None)
                if made is None:
                    self.pending.popleft()
                    continue
                frame = made
            if not self._process(frame):
                self.pending = None
            elif time.monotonic() >= until:
                break
        if not self.pending:
            self.pending = None
        else:
            asyncio.get_running_loop().call_soon(self._reschedule, self._process_slice)
