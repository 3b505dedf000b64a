"""Why a subscription delivers nothing new for now, and how it goes on."""

from __future__ import annotations

import asyncio
from enum import IntFlag


class Pause(IntFlag):
    """A reason; each is taken back by itself."""

    LEAVING = 1
    """Its consumers go elsewhere."""
    LEASE = 2
    """Another broker may have it: this one's claim is in doubt."""
    STALE = 4
    """Another broker may have had it: the owner's cursor is being read."""
    OWNER = 8
    """Its owner may have given it to others."""


class Pausable:
    """What of a subscription can be paused."""

    __slots__ = ("_paused", "_refreshing")

    def __init__(self) -> None:
        self._paused = 0
        self._refreshing: asyncio.Task[None] | None = None

    def leave_fanout(self) -> None:
        """Get nothing together with others."""
        raise NotImplementedError

    def read_more(self) -> None:
        """Deliver what can be delivered now."""
        raise NotImplementedError

    async def _catch_up(self) -> None:
        """Bring the copy of the cursor to where the owner's stands now."""
        raise NotImplementedError

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """Called with tasks that run beside."""
        raise NotImplementedError

    @property
    def paused(self) -> int:
        """Why nothing new is delivered: of Pause."""
        return self._paused

    def pause(self, reason: Pause) -> None:
        """Deliver nothing new; acks go on."""
        self.leave_fanout()
        self._paused |= reason

    def resume(self, reason: Pause) -> None:
        """Deliver again, unless there is another reason not to."""
        self._paused &= ~reason
        self.read_more()

    def refresh(self) -> None:
        """Read the owner's cursor, and deliver nothing before: another broker may have served the subscription meanwhile."""
        self.pause(Pause.STALE)
        if self._refreshing is not None:
            self._refreshing.cancel()
        self._refreshing = asyncio.create_task(self._refresh())
        self._refreshing.add_done_callback(self._task_ended)

    async def _refresh(self) -> None:
        await self._catch_up()
        self._refreshing = None
        self.resume(Pause.STALE)
