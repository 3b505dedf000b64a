"""Polls the owner's cursors: expiry (TTL) and backlog quotas move them over unacked messages, and acks may be ignored."""

from __future__ import annotations

import asyncio
import logging
from itertools import count
from typing import TYPE_CHECKING

from readonly_engine.background import run_forever
from readonly_engine.owner.errors import RelayError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from readonly_engine.broker.subscription.subscription import Subscription
    from readonly_engine.owner.consumer_events import OwnerCursorState
    from readonly_engine.owner.cursor_consumer import CursorConsumer

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 10.0
"""Interval of polls for subscriptions whose acks are not yet seen in the owner's cursor (ignored_acks.py)."""

BACKLOG_INTERVALS = 3
"""Number of intervals between polls for other subscriptions with a backlog. Owners expire messages every five minutes
(messageExpiryCheckIntervalInMinutes)."""

MAX_POLLS_PER_S = 20.0


class CursorPoller:
    """Requests the owner's cursor of each durable subscription with unacked messages, or with acks since the last answer.

    Args:
        subscriptions: returns the subscriptions that this broker serves now.
        state: requests the cursor through a consumer; raises RelayError, or TimeoutError so that one owner does not delay other
            subscriptions.
    """

    def __init__(
        self,
        subscriptions: Callable[[], Iterable[Subscription]],
        state: Callable[[CursorConsumer], Awaitable[OwnerCursorState]],
    ) -> None:
        self._subscriptions = subscriptions
        self._state = state
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start polling; do nothing if it was started before."""
        if self._task is None:
            self._task = run_forever(self._run, "the poll of the owners' cursors")

    def close(self) -> None:
        """Stop polling."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        for interval in count(1):
            await asyncio.sleep(POLL_INTERVAL_S)
            backlog_due = interval % BACKLOG_INTERVALS == 0
            for subscription in self._subscriptions():
                if subscription.durable and (
                    subscription.has_unverified_acks or (backlog_due and subscription.has_backlog)
                ):
                    await self._poll(subscription)
                    await asyncio.sleep(1 / MAX_POLLS_PER_S)

    async def _poll(self, subscription: Subscription) -> None:
        subscribed = (
            consumer.owner_consumer for consumer in subscription.consumers if consumer.owner_consumer.subscribed
        )
        owner_consumer = next(subscribed, None)
        if owner_consumer is None:
            return
        sent = subscription.sent_acks
        try:
            state = await self._state(owner_consumer)
            if not subscription.follow_owner(state):
                await subscription.repeat_ignored_acks(owner_consumer, sent, state)
        except (RelayError, TimeoutError) as error:
            why = error or "no answer in time"
            log.info(
                "owner's cursor unknown: topic=%s subscription=%s error=%s", subscription.topic, subscription.name, why
            )
