"""How a broker leaves its pool, so that nothing is lost and nothing comes twice.

The order matters: no lookup answers this broker any more; it delivers nothing new; what was delivered is acked, and the acks are
answered by the owner; the consumers are closed at the owner and the claims given back; only then are the clients told, who look
up again and find everything free. Their connections stay a moment longer, for they look up over those.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from readonly_engine.broker.subscription.pause import Pause

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from typing import Any

    from readonly_engine.broker.pool.claim_store import ClaimStore
    from readonly_engine.broker.pool.membership import PoolMembership
    from readonly_engine.broker.session.connection import ClientConnection
    from readonly_engine.broker.session.consumer import Consumer

log = logging.getLogger(__name__)

DRAIN_TIMEOUT_S = 20.0
"""For all of it: a pod has 30 s (terminationGracePeriodSeconds)."""

ACK_TIMEOUT_S = 5.0
"""How long the acks of what was delivered are waited for."""

CLOSE_TIMEOUT_S = 5.0
DISCONNECT_GRACE_S = 3.0
"""How long connections stay after their clients were told: by then those are elsewhere, and no Service leads here any more."""

POLL_INTERVAL_S = 0.02


class DrainedBroker(Protocol):
    """A broker that leaves its pool.

    Attributes:
        pool: its membership.
        claim_store: its claims.
        connections: its clients.
    """

    pool: PoolMembership
    claim_store: ClaimStore
    connections: set[ClientConnection]

    @property
    def consumers(self) -> list[Consumer]:
        """The consumers of all connections."""

    async def wait_for_tasks(self, seconds: float) -> None:
        """Wait for the broker's tasks, at most for a time."""


async def drain(broker: DrainedBroker) -> None:
    """Leave the pool in order, as far as that is done in DRAIN_TIMEOUT_S."""
    try:
        async with asyncio.timeout(DRAIN_TIMEOUT_S):
            await _leave(broker)
    except TimeoutError:
        log.warning(
            "not all clients have gone to other brokers after %g s; their connections are closed", DRAIN_TIMEOUT_S
        )


async def _leave(broker: DrainedBroker) -> None:
    await broker.pool.leave()
    cancelled = sum(connection.cancel_subscribes() for connection in list(broker.connections))
    consumers = broker.consumers
    producers = [producer for connection in broker.connections for producer in connection.producers]
    log.info("leaving: %d consumers and %d producers go to other brokers", len(consumers), len(producers))
    await await_acks(consumers)
    await _all((consumer.detach() for consumer in consumers), CLOSE_TIMEOUT_S)
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


async def await_acks(consumers: list[Consumer]) -> None:
    """Deliver nothing new, and wait for the acks of what was delivered: what is not acked is delivered again elsewhere."""
    durable = set()
    windows = []
    for consumer in consumers:
        if consumer.subscription is not None:
            consumer.subscription.pause(Pause.LEAVING)
            if consumer.subscribe_command.durable:
                durable.add(consumer.subscription)
        elif consumer.flow_window is not None:
            consumer.flow_window.close()
            windows.append(consumer.flow_window)
    if not await _until(
        lambda: not any(one.outstanding for one in durable) and not any(one.pending for one in windows), ACK_TIMEOUT_S
    ):
        log.info("some messages are not acked after %g s; they are delivered again elsewhere", ACK_TIMEOUT_S)
    late = await _all((consumer.owner_consumer.wait_for_acks() for consumer in consumers), ACK_TIMEOUT_S)
    if late:
        log.warning("%d consumers have acks that the owner has not answered", late)


async def _until(done: Callable[[], bool], seconds: float) -> bool:
    """Wait for a condition; whether it came true in time."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not done():
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(POLL_INTERVAL_S)
    return True


async def _all(coroutines: Iterable[Coroutine[Any, Any, object]], seconds: float) -> int:
    """Run them together; how many were not done in time, and were ended."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    if not tasks:
        return 0
    _, late = await asyncio.wait(tasks, timeout=seconds)
    for task in late:
        task.cancel()
    return len(late)
