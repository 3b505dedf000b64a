"""Pauses of a subscription's delivery, with their reasons."""

from __future__ import annotations

import asyncio
from enum import IntFlag


class Pause(IntFlag):
    """A reason. Each one is resumed separately."""

    LEAVING = 1
    """The consumers move to other brokers."""
    LEASE = 2
    """Another broker may have the subscription, because the claim is not confirmed."""
    STALE = 4
    """Another broker may have had the subscription; the owner's cursor is being read."""
    OWNER = 8
    """The owner may serve the subscription to other consumers, because it does not answer."""


class Pausable:
    """The part of a subscription that pauses delivery."""

    __slots__ = ("_paused", "_refreshing")

    def __init__(self) -> None:
        self._paused = 0
        self._refreshing: asyncio.Task[None] | None = None

    def leave_fanout(self) -> None:
        """Leave the fan-out group."""
        raise NotImplementedError

    def read_more(self) -> None:
        """Continue delivery."""
        raise NotImplementedError

    async def _catch_up(self) -> None:
        """Apply the owner's cursor to the copy."""
        raise NotImplementedError

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """Handle the end of a background task."""
        raise NotImplementedError

    @property
    def paused(self) -> int:
        """The reasons of Pause in force, as bits; 0 without a pause."""
        return self._paused

    def pause(self, reason: Pause) -> None:
        """Stop delivery for a reason; acks continue."""
        self.leave_fanout()
        self._paused |= reason

    def resume(self, reason: Pause) -> None:
        """Remove a reason, and continue delivery if it was the last."""
        self._paused &= ~reason
        self.read_more()

    def refresh(self) -> None:
        """Pause until the owner's cursor is read again, because another broker may have served the subscription."""
        self.pause(Pause.STALE)
        if self._refreshing is not None:
            self._refreshing.cancel()
        self._refreshing = asyncio.create_task(self._refresh())
        self._refreshing.add_done_callback(self._task_ended)

    async def _refresh(self) -> None:
        await self._catch_up()
        self._refreshing = None
        self.resume(Pause.STALE)
