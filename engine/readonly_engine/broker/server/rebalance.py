"""Rebalancing: publishes the number of consumers of this broker, and closes some if it has far too many: they look up again."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from readonly_engine.broker.pool.member_selector import excess
from readonly_engine.broker.server.drain import await_acks
from readonly_engine.broker.session.services import Services
from readonly_engine.broker.subscription.pause import Pause

if TYPE_CHECKING:
    from readonly_engine.broker.session.consumer import Consumer

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 5.0
"""Interval between comparisons with the other brokers."""

MIN_UNEVEN_POLLS = 3
"""Consecutive comparisons with too many consumers before a move. Short imbalances even out, and moves disturb clients."""

MAX_MOVED_FRACTION = 0.1
"""Largest share of a broker's consumers that are moved at once. A new broker fills within a minute."""


class BalancedBroker(Services, Protocol):
    """A broker of a pool, with its consumers."""

    @property
    def consumers(self) -> list[Consumer]:
        """The consumers of all connections."""


class Rebalancer:
    """Compares the load of this broker with the others' periodically.

    Args:
        broker: the broker.
    """

    def __init__(self, broker: BalancedBroker) -> None:
        self._broker = broker
        self._task: asyncio.Task[None] | None = None
        self._published = False

    def start(self) -> None:
        """Start comparing."""
        self._task = self._broker.spawn(self._run())

    def stop(self) -> None:
        """Stop comparing."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        uneven = 0
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            own = self._broker.limits.consumers
            known = self._broker.pool.members.get(self._broker.pool.url)
            # The others must know the number first. Otherwise they send the moved consumers back.
            published = known is not None and abs(known.consumers - own) <= max(1, own // 10)
            await self._broker.pool.publish(own)
            surplus = excess(own, self._broker.pool.members.values())
            uneven = uneven + 1 if surplus else 0
            if uneven >= MIN_UNEVEN_POLLS and published:
                self._move_some(min(surplus, max(1, int(own * MAX_MOVED_FRACTION))))

    def _move_some(self, count: int) -> None:
        chosen: list[Consumer] = []
        for unit in _units(self._broker.consumers):
            if len(chosen) + len(unit) <= count:
                chosen += unit
        if not chosen:
            return
        log.info("rebalancing, other brokers have fewer consumers: moved=%d", len(chosen))
        self._broker.spawn(self._move(chosen))

    async def _move(self, consumers: list[Consumer]) -> None:
        """Wait for the acks of delivered messages first, so that few are delivered twice."""
        subscriptions = {consumer.subscription for consumer in consumers}
        await await_acks(consumers)
        for consumer in consumers:
            if not consumer.unregistered:
                consumer.close_for_resubscribe("other brokers have fewer consumers")
        for subscription in subscriptions:
            if subscription is not None and subscription.consumers and not self._broker.draining:
                subscription.resume(Pause.LEAVING)


def _units(consumers: list[Consumer]) -> list[list[Consumer]]:
    """Group consumers that must move together: single consumers first, then claimed subscriptions as a whole, smallest first."""
    claimed: dict[object, list[Consumer]] = {}
    single = []
    for consumer in consumers:
        if consumer.peer:
            continue  # another broker serves it
        if consumer.claim is None:
            single.append([consumer])
        else:
            claimed.setdefault(consumer.claim.key, []).append(consumer)
    return single + sorted(claimed.values(), key=len)
