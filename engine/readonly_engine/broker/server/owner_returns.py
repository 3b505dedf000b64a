"""Sends consumers back to their topic's owner when the topic has few subscriptions left, for `placement: WhenCheaper`."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from readonly_engine.broker.consumer.owner_placed import may_be_placed, owner_consumers, owner_urls
from readonly_engine.broker.pool.cheaper import FEW, goes_back
from readonly_engine.broker.server.rebalance import move
from readonly_engine.config.listeners import NO_URLS
from readonly_engine.owner.errors import RelayError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from readonly_engine.broker.consumer.client_consumer import ClientConsumer
    from readonly_engine.broker.server.rebalance import BalancedBroker
    from readonly_engine.config.listeners import Urls
    from readonly_engine.metadata.topic_name import TopicName

log = logging.getLogger(__name__)

CHECK_S: Final = 60.0
"""Interval of the checks. A topic that has few subscriptions in CHECKS of them, one after the other, goes back."""

CHECKS: Final = 5
TURN_CONSUMERS: Final = 500
"""Consumers that are looked at in one turn of the event loop: some 2 ms."""

MAX_TOPICS: Final = 100
"""Topics of one check: each costs a request to the owner's admin API, and its consumers a pause."""


class OwnerReturns:
    """Looks at the topics of this broker periodically.

    Args:
        broker: the broker.
    """

    def __init__(self, broker: BalancedBroker) -> None:
        self._broker = broker
        self._few_checks: dict[TopicName, int] = {}  # consecutive checks with few subscriptions here
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start looking."""
        self._task = self._broker.spawn(self._run())

    def stop(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            await self.check()

    async def check(self) -> None:
        """Look once."""
        if not self._broker.bindings.leave_some_to_owners:
            self._few_checks = {}
            return
        served = await self._served()
        few = {topic: consumers for topic, consumers in served.items() if len(_names(consumers)) <= FEW}
        self._few_checks = {topic: self._few_checks.get(topic, 0) + 1 for topic in few}
        ripe = [topic for topic, seen in self._few_checks.items() if seen >= CHECKS][:MAX_TOPICS]
        for topic in ripe:
            self._few_checks[topic] = 0
            await self._return(topic, few[topic])

    async def _served(self) -> dict[TopicName, list[ClientConsumer]]:
        """Return this broker's consumers of the topics, all of which may be placed at the owner."""
        found: dict[TopicName, list[ClientConsumer]] = {}
        others: set[TopicName] = set()
        for number, consumer in enumerate(self._broker.consumers):
            if number % TURN_CONSUMERS == 0:
                await asyncio.sleep(0)
            if not consumer.served_by and may_be_placed(consumer):
                found.setdefault(consumer.topic, []).append(consumer)
            else:
                others.add(consumer.topic)
        return {topic: consumers for topic, consumers in found.items() if topic not in others}

    async def _return(self, topic: TopicName, consumers: list[ClientConsumer]) -> None:
        try:
            counted = await owner_consumers(self._broker, topic, "", 0.0)
        except RelayError as error:
            log.info("consumers on the owner unknown: topic=%s error=%s", topic, error)
            return
        if not goes_back(counted, len(_names(consumers))):
            return
        log.info("few subscriptions, they are cheaper at the owner: topic=%s consumers=%d", topic, len(consumers))
        for consumer in consumers:  # its next SUBSCRIBE may come before the owner's statistics are without it
            self._broker.recent_redirects.add(topic, consumer.info.name, time.monotonic())
        urls = await _owner_urls(topic, consumers)
        await move(
            self._broker, consumers, "the owner serves few subscriptions for less", lambda one: urls[_asks_as(one)]
        )


async def _owner_urls(topic: TopicName, consumers: list[ClientConsumer]) -> dict[Hashable, Urls]:
    """Return the owner's URLs for the consumers of a topic: with them, clients go there without a lookup (PIP-307)."""
    found: dict[Hashable, Urls] = {}
    for consumer in consumers:
        if (asks_as := _asks_as(consumer)) not in found:
            try:
                urls = await owner_urls(consumer.connection, topic)
            except RelayError:
                urls = NO_URLS
            found[asks_as] = urls if urls.serve(tls=consumer.connection.tls) else NO_URLS
    return found


def _asks_as(consumer: ClientConsumer) -> Hashable:
    """Return what the owner's answer to a lookup depends on."""
    client = consumer.connection
    return client.identity, client.listener, client.tls


def _names(consumers: list[ClientConsumer]) -> set[str]:
    """Return the subscriptions of consumers."""
    return {consumer.info.name for consumer in consumers}
