"""Consumers that have left their subscription here, and whose last acks the owner may not have taken yet."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable


class Departures:
    """Knows which subscriptions have such consumers.

    Whoever begins a subscription anew asks the owner what is acked. An answer counts only once the owner has taken what the
    consumers before have acked.
    """

    def __init__(self) -> None:
        self._leaving: dict[Hashable, set[object]] = {}
        self._waiting: dict[Hashable, asyncio.Event] = {}

    def began(self, subscription: Hashable, consumer: object) -> None:
        """A consumer leaves; `ended` must follow within some seconds."""
        self._leaving.setdefault(subscription, set()).add(consumer)

    def ended(self, subscription: Hashable, consumer: object) -> None:
        """The owner has taken what the consumer has acked, or is not waited for any longer."""
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
        """Whether there are such consumers of a subscription."""
        return subscription in self._leaving

    async def settled(self, subscription: Hashable) -> None:
        """Wait until there are none."""
        while self.pending(subscription):
            await self._waiting.setdefault(subscription, asyncio.Event()).wait()
