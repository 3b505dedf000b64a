"""Consumers that left their subscription here before the owner had stored their last acks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable


class LeavingConsumers:
    """Tracks leaving consumers by subscription.

    A new subscription reads its cursor from the owner. The cursor is current only after the owner has processed the acks of
    earlier consumers.
    """

    def __init__(self) -> None:
        self._leaving: dict[Hashable, set[object]] = {}
        self._waiting: dict[Hashable, asyncio.Event] = {}

    def add(self, subscription: Hashable, consumer: object) -> None:
        """Add a consumer that leaves; `remove` must follow within seconds."""
        self._leaving.setdefault(subscription, set()).add(consumer)

    def remove(self, subscription: Hashable, consumer: object) -> None:
        """Remove a consumer: the owner has processed its acks, or the wait timed out."""
        leaving = self._leaving.get(subscription)
        if leaving is None:
            return
        leaving.discard(consumer)
        if not leaving:
            del self._leaving[subscription]
            waiting = self._waiting.pop(subscription, None)
            if waiting is not None:
                waiting.set()

    def pending(self, subscription: Hashable) -> bool:
        """Return whether a subscription has leaving consumers."""
        return subscription in self._leaving

    async def wait_for_none(self, subscription: Hashable) -> None:
        """Wait until a subscription has no leaving consumers."""
        while self.pending(subscription):
            await self._waiting.setdefault(subscription, asyncio.Event()).wait()
