"""Rebalancing: closes some consumers, which look up again, and publishes the number of consumers of this broker.

A broker closes consumers if it has far more than the other brokers of its locality, or if a locality has brokers again, to which
its clients should return.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Protocol

from readonly_engine.background import sleep_to_tick
from readonly_engine.broker.consumer.services import Services
from readonly_engine.broker.pool.member_selector import excess
from readonly_engine.broker.pool.returned_localities import Period, ReturnedLocalities
from readonly_engine.broker.server.drain import await_acks
from readonly_engine.broker.subscription.pause import Pause
from readonly_engine.config.listeners import NO_URLS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from readonly_engine.broker.consumer.client_consumer import ClientConsumer
    from readonly_engine.config.listeners import Urls

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 5.0
"""Interval between comparisons with the other brokers."""

LOCALITY_INTERVAL_S = 1.0
"""Interval between looks at the localities of the members. A broker that restarts in order is away for longer."""

MIN_UNEVEN_POLLS = 3
"""Consecutive comparisons with too many consumers before a move. Short imbalances even out, and moves disturb clients."""

MAX_MOVED_FRACTION = 0.1
"""Largest share of a broker's consumers that are moved at once. A new broker fills within a minute."""


class BalancedBroker(Services, Protocol):
    """A broker of a pool, with its consumers."""

    @property
    def consumers(self) -> list[ClientConsumer]:
        """The consumers of all connections."""


class Rebalancer:
    """Compares the load of this broker with the others' periodically.

    Args:
        broker: the broker.
    """

    def __init__(self, broker: BalancedBroker) -> None:
        self._broker = broker
        self._task: asyncio.Task[None] | None = None
        self._returned = ReturnedLocalities()
        self._returning: Period | None = None
        self._moving: asyncio.Task[None] | None = None

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
            for _ in range(round(POLL_INTERVAL_S / LOCALITY_INTERVAL_S)):
                await sleep_to_tick(LOCALITY_INTERVAL_S)
                self._follow_localities()
            own = self._broker.limits.consumers
            returning = self._send_back(max(1, int(own * MAX_MOVED_FRACTION)))
            known = self._broker.pool.members.get(self._broker.pool.url)
            # The others must know the number first. Otherwise they send the moved consumers back.
            published = known is not None and abs(known.consumers - own) <= max(1, own // 10)
            await self._broker.pool.publish(own)
            surplus = excess(own, self._broker.pool.neighbours)
            uneven = uneven + 1 if surplus else 0
            if uneven >= MIN_UNEVEN_POLLS and published and not returning and not self._move_in_progress():
                self._move_some(min(surplus, max(1, int(own * MAX_MOVED_FRACTION))))

    def _move_some(self, count: int) -> None:
        chosen: list[ClientConsumer] = []
        for unit in _units(self._broker.consumers):
            if len(chosen) + len(unit) <= count:
                chosen += unit
        if not chosen:
            return
        log.info("rebalancing, other brokers have fewer consumers: moved=%d", len(chosen))
        self._start_move(chosen, "other brokers have fewer consumers")

    def _follow_localities(self) -> None:
        localities = {member.locality for member in self._broker.pool.members.values()}
        found = self._returned.update(localities, time.monotonic())
        if found is not None:
            self._returning = found.merge(self._returning)

    def _send_back(self, count: int) -> bool:
        """Move some of the consumers that subscribed while a returned locality had no brokers; return whether there are any.

        Claimed subscriptions stay: one broker serves the consumers of all localities.
        """
        if self._returning is None:
            return False
        if self._move_in_progress():
            return True
        since, until = self._returning
        chosen = [
            one
            for one in self._broker.consumers
            if since <= one.created_at < until and one.claim is None and one.movable and not one.unregistered
        ][:count]
        if not chosen:
            self._returning = None
            return False
        log.info("a locality has brokers again, consumers look up again: moved=%d", len(chosen))
        self._start_move(chosen, "a locality has brokers again")
        return True

    def _move_in_progress(self) -> bool:
        """Return whether consumers of an earlier move are not closed yet."""
        return self._moving is not None and not self._moving.done()

    def _start_move(self, consumers: list[ClientConsumer], reason: str) -> None:
        self._moving = self._broker.spawn(move(self._broker, consumers, reason))


async def move(
    broker: BalancedBroker,
    consumers: list[ClientConsumer],
    reason: str,
    to: Callable[[ClientConsumer], Urls] = lambda _: NO_URLS,
) -> None:
    """Close consumers, whose clients subscribe again.

    It waits for the acks of delivered messages first, so that few are delivered twice.

    Args:
        broker: the broker.
        consumers: its consumers.
        reason: why they move, for the log.
        to: returns the URLs of the broker that a client connects to; without any it looks its topic up.
    """
    subscriptions = {consumer.subscription for consumer in consumers}
    await await_acks(consumers)
    for consumer in consumers:
        if not consumer.unregistered:
            consumer.close_for_resubscribe(reason, to(consumer))
    for subscription in subscriptions:
        if subscription is not None and subscription.consumers and not broker.draining:
            subscription.resume(Pause.LEAVING)


def _units(consumers: list[ClientConsumer]) -> list[list[ClientConsumer]]:
    """Group consumers that must move together: single consumers first, then claimed subscriptions as a whole, smallest first."""
    claimed: dict[object, list[ClientConsumer]] = {}
    single = []
    for consumer in consumers:
        if not consumer.movable:
            continue
        if consumer.claim is None:
            single.append([consumer])
        else:
            claimed.setdefault(consumer.claim.key, []).append(consumer)
    return single + sorted(claimed.values(), key=len)
