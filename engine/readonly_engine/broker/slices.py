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


class Slices:
    """Takes the frames of one client in their order.

    Args:
        take: does what a frame asks for; returns whether to go on.
        later: called in a later turn with a function that takes the next slice, and raises what `take` raises.
    """

    __slots__ = ("_frames", "_later", "_take")

    def __init__(self, take: Callable[[bytes], bool], later: Callable[[Callable[[], None]], None]) -> None:
        self._take = take
        self._later = later
        self._frames: deque[bytes] = deque()

    @property
    def waiting(self) -> bool:
        """Whether frames wait for a later turn."""
        return bool(self._frames)

    def receive(self, frames: list[bytes]) -> None:
        """Take what one read has brought, behind what waits."""
        if not self._frames and len(frames) == 1:
            self._take(frames[0])
        elif frames:
            scheduled = self.waiting  # TLS hands out what it has decrypted, though reading is paused
            self._frames += frames
            if not scheduled:
                self._next()

    def clear(self) -> None:
        """Take no more."""
        self._frames.clear()

    def _next(self) -> None:
        until = time.monotonic() + SLICE_S
        while self._frames:
            if not self._take(self._frames.popleft()):
                self._frames.clear()
            elif time.monotonic() >= until:
                break
        if self._frames:
            asyncio.get_running_loop().call_soon(self._later, self._next)
