"""Drain: the broker leaves its pool without lost or repeated messages.

The order matters:

1. The broker leaves the pool, so lookups no longer return it.
2. It delivers no new messages, and waits for acks and for the owner's answers to them.
3. It closes the consumers on the owner, stores local cursors and releases the claims.
4. It closes the consumers on the clients. They look up the topic again, and the subscriptions are free.
5. It drains the producers.
6. It keeps the connections for some seconds, because clients send lookups over them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from typing import Any

    from readonly_engine.broker.consumer.client_consumer import ClientConsumer
    from readonly_engine.broker.cursors.local_cursors import LocalCursors
    from readonly_engine.broker.pool.claim_store import ClaimStore
    from readonly_engine.broker.pool.membership import PoolMembership
    from readonly_engine.broker.session.connection import ClientConnection
    from readonly_engine.broker.split.registry import SplitSubscriptions

log = logging.getLogger(__name__)

DRAIN_TIMEOUT_S = 20.0
"""Limit of the whole drain. A pod has 30 s (terminationGracePeriodSeconds)."""

ACK_TIMEOUT_S = 5.0
"""Limit of the wait for acks of delivered messages."""

CLOSE_TIMEOUT_S = 5.0
DISCONNECT_GRACE_S = 3.0
"""Time for which connections stay open after their consumers are closed. By then clients have connected to other brokers, and
Services no longer route to this one."""

POLL_INTERVAL_S = 0.02


class DrainedBroker(Protocol):
    """A broker that leaves its pool.

    Attributes:
        pool: the membership.
        claim_store: the claims.
        local_cursors: the cursors that this broker keeps.
        splits: the split subscriptions.
        connections: the connections of clients.
    """

    pool: PoolMembership
    claim_store: ClaimStore
    local_cursors: LocalCursors
    splits: SplitSubscriptions
    connections: set[ClientConnection]

    @property
    def consumers(self) -> list[ClientConsumer]:
        """The consumers of all connections."""

    async def wait_for_tasks(self, seconds: float) -> None:
        """Wait for the broker's tasks, for `seconds` at most."""


async def drain(broker: DrainedBroker) -> None:
    """Leave the pool in the order above, within DRAIN_TIMEOUT_S."""
    try:
        async with asyncio.timeout(DRAIN_TIMEOUT_S):
            await _leave(broker)
    except TimeoutError:
        log.warning("drain not finished, closing the connections: timeout=%gs", DRAIN_TIMEOUT_S)


async def _leave(broker: DrainedBroker) -> None:
    await broker.pool.leave()
    cancelled = sum(connection.cancel_subscribes() for connection in list(broker.connections))
    consumers = broker.consumers
    producers = [producer for connection in broker.connections for producer in connection.producers]
    log.info("drain begins: consumers=%d producers=%d", len(consumers), len(producers))
    await await_acks(consumers)
    await _all((consumer.detach() for consumer in consumers), CLOSE_TIMEOUT_S)
    await broker.splits.wait_all_ended()
    await broker.local_cursors.close()
    await broker.claim_store.wait_released()
    for consumer in consumers:
        consumer.close_for_resubscribe("this broker leaves the pool")
    for producer in producers:
        producer.start_draining()
    await _until(lambda: not any(producer.unanswered for producer in producers), CLOSE_TIMEOUT_S)
    await _all((producer.close_for_reconnect() for producer in producers), CLOSE_TIMEOUT_S)
    await broker.wait_for_tasks(CLOSE_TIMEOUT_S)
    if consumers or producers or cancelled:
        await _until(lambda: not broker.connections, DISCONNECT_GRACE_S)


async def await_acks(consumers: list[ClientConsumer]) -> None:
    """Stop delivery, and wait for the acks of delivered messages: other brokers deliver unacked ones again."""
    stopped = {one for one in [consumer.stop_delivery() for consumer in consumers] if one is not None}
    if not await _until(lambda: not any(one.outstanding for one in stopped), ACK_TIMEOUT_S):
        log.info("messages not acked, other brokers deliver them again: timeout=%gs", ACK_TIMEOUT_S)
    late = await _all((consumer.owner_consumer.wait_for_acks() for consumer in consumers), ACK_TIMEOUT_S)
    if late:
        log.warning("acks not answered by the owner: consumers=%d timeout=%gs", late, ACK_TIMEOUT_S)


async def _until(done: Callable[[], bool], seconds: float) -> bool:
    """Wait for a condition; return whether it became true in time."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not done():
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(POLL_INTERVAL_S)
    return True


async def _all(coroutines: Iterable[Coroutine[Any, Any, object]], seconds: float) -> int:
    """Run coroutines together; return the number of those that were cancelled at the timeout."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    if not tasks:
        return 0
    _, late = await asyncio.wait(tasks, timeout=seconds)
    for task in late:
        task.cancel()
    return len(late)
