"""Looks now and then where the owner's cursors stand: expiry (TTL) and backlog quotas move them past what nobody has acked."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from readonly_engine.background import keep_going
from readonly_engine.relay.errors import RelayError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from readonly_engine.broker.subscription import Subscription

log = logging.getLogger(__name__)

LOOK_S = 30.0
"""As an owner that expires messages every five minutes (messageExpiryCheckIntervalInMinutes) is followed soon enough."""

MOST_LOOKS_A_SECOND = 20.0

ANSWER_S = 5.0
"""An owner that has not answered by then must not keep the watch from the other subscriptions."""


class CursorWatch:
    """Asks the owner for the cursor of each durable subscription that has something unacked.

    Args:
        served: the subscriptions served here now.
    """

    def __init__(self, served: Callable[[], Iterable[Subscription]]) -> None:
        self._served = served
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, unless it runs already."""
        if self._task is None:
            self._task = keep_going(self._run, "the watch of the owner's cursors")

    def close(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            for subscription in self._served():
                if subscription.durable and subscription.behind:
                    await self._look(subscription)
                    await asyncio.sleep(1 / MOST_LOOKS_A_SECOND)

    async def _look(self, subscription: Subscription) -> None:
        attached = (consumer.relayed for consumer in subscription.consumers if consumer.relayed.attached)
        relayed = next(attached, None)
        if relayed is None:
            return
        try:
            async with asyncio.timeout(ANSWER_S):
                state = await relayed.state()
        except (RelayError, TimeoutError) as error:
            why = error or "no answer in time"
            log.info("%s, %s: the owner does not say where it stands: %s", subscription.topic, subscription.name, why)
            return
        subscription.caught_up_with(state)
