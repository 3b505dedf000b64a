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

    Attributes:
        waiting: frames that wait for a later turn.
    """

    __slots__ = ("_later", "_take", "waiting")

    def __init__(self, take: Callable[[bytes], bool], later: Callable[[Callable[[], None]], None]) -> None:
        self._take = take
        self._later = later
        self.waiting: deque[bytes] = deque()

    def receive(self, frames: list[bytes]) -> None:
        """Take what one read has brought, behind what waits."""
        if frames:
            scheduled = bool(self.waiting)  # TLS hands out what it has decrypted, though reading is paused
            self.waiting += frames
            if not scheduled:
                self._next()

    def clear(self) -> None:
        """Take no more."""
        self.waiting.clear()

    def _next(self) -> None:
        until = time.monotonic() + SLICE_S
        while self.waiting:
            if not self._take(self.waiting.popleft()):
                self.waiting.clear()
            elif time.monotonic() >= until:
                break
        if self.waiting:
            asyncio.get_running_loop().call_soon(self._later, self._next)
