"""The producers of one client."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from readonly_engine.background import ends
from readonly_engine.broker.replay.replay import refuse_write
from readonly_engine.broker.session.bounds import CLOSED_PRODUCER_TTL_S, MAX_CONCURRENT_PRODUCERS, MAX_REQUEST_BYTES
from readonly_engine.broker.session.producer import ProxiedProducer
from readonly_engine.broker.session.producer_connections import ProducerConnections
from readonly_engine.broker.session.request_quota import RequestQuota
from readonly_engine.log_bounds import bounded_logger
from readonly_engine.wire.pulsar_pb2 import ServerError

if TYPE_CHECKING:
    import asyncio

    from readonly_engine.broker.consumer.client_link import ClientLink
    from readonly_engine.wire.pulsar_pb2 import BaseCommand

log = bounded_logger(__name__)


def close_unready(client: ClientLink, producer_id: int) -> None:
    """Close the connection of a client that publishes without a ready producer, as an owner does (ServerCnx.handleSend).

    A message that is dropped silently would never get a receipt.
    """
    log.warning(
        "SEND without a ready producer, closing the connection: client=%s producer=%d", client.peer, producer_id
    )
    client.close()


class ClientProducers:
    """Creates and closes the producers of one client, and relays their messages. Made at the first PRODUCER.

    Args:
        client: the client's connection.

    Attributes:
        connections: the client's connections to owners.
    """

    __slots__ = ("_client", "_closed_at", "_creating", "_producers", "_sizes", "_starting", "connections")

    def __init__(self, client: ClientLink) -> None:
        self.connections = ProducerConnections(client)
        self._client = client
        self._producers: dict[int, ProxiedProducer] = {}
        self._creating = RequestQuota(MAX_CONCURRENT_PRODUCERS, MAX_REQUEST_BYTES)
        self._sizes: dict[ProxiedProducer, int] = {}  # frame sizes of the PRODUCERs that _creating counts
        self._starting: set[ProxiedProducer] = set()  # producers whose owner is being looked up
        self._closed_at: dict[int, float] = {}  # time when the broker closed a producer, oldest first

    @property
    def all(self) -> list[ProxiedProducer]:
        """All producers."""
        return list(self._producers.values())

    def create(self, command: BaseCommand, size: int) -> None:
        """Answer PRODUCER.

        Args:
            command: the command.
            size: size of its frame, in bytes.
        """
        producer_id, request_id = command.producer.producer_id, command.producer.request_id
        if self._client.services.replay is not None:
            self._client.refuse(request_id, ServerError.NotAllowedError, str(refuse_write("publishing")))
            return
        present = self._producers.get(producer_id)
        if present is not None:
            present.respond_duplicate(request_id)
            return
        if not self._creating.acquire(size):
            there = self._creating
            why = (
                f"{there.count} producers of this connection ({there.bytes} bytes) are being created already; try again"
            )
            self._client.refuse(request_id, ServerError.ServiceNotReady, why)
            return
        producer = self._producers[producer_id] = ProxiedProducer(self._client, self, command)
        self._sizes[producer] = size
        self._starting.add(producer)
        starting = self._client.spawn(producer.start())
        starting.add_done_callback(partial(self._started, producer))

    def publish(self, producer_id: int, frame: bytes) -> None:
        """Relay a SEND. Without a ready producer, close the connection, except soon after the broker closed the producer."""
        producer = self._producers.get(producer_id)
        if producer is not None and producer.ready:
            producer.publish(frame)
        elif time.monotonic() - self._closed_at.get(producer_id, -CLOSED_PRODUCER_TTL_S) >= CLOSED_PRODUCER_TTL_S:
            close_unready(self._client, producer_id)

    async def close(self, command: BaseCommand) -> None:
        """Answer CLOSE_PRODUCER."""
        request_id = command.close_producer.request_id
        producer = self._producers.get(command.close_producer.producer_id)
        if producer is not None:
            self.drop(producer)
        answer = None if producer is None else await producer.close(command)
        if answer is None:
            self._client.succeed(request_id)
        else:
            self._client.respond(answer, request_id)

    def drop(self, producer: ProxiedProducer, *, closed_by_broker: bool = False) -> None:
        """Remove a producer.

        Args:
            producer: the producer.
            closed_by_broker: whether the broker closes it. Then more messages may arrive before the client knows.
        """
        self.on_created(producer)
        if self._producers.get(producer.producer_id) is producer:
            del self._producers[producer.producer_id]
        if closed_by_broker:
            closed, now = self._closed_at, time.monotonic()
            while closed and now - next(iter(closed.values())) >= CLOSED_PRODUCER_TTL_S:
                del closed[next(iter(closed))]
            closed.pop(producer.producer_id, None)
            closed[producer.producer_id] = now

    def on_created(self, producer: ProxiedProducer) -> None:
        """Release the quota of a PRODUCER that was answered or given up."""
        if producer in self._starting:
            return  # a producer that was closed meanwhile counts until its lookup ends
        size = self._sizes.pop(producer, None)
        if size is not None:
            self._creating.release(size)

    @ends("_client.abort")
    def _started(self, producer: ProxiedProducer, _task: asyncio.Task[None]) -> None:
        self._starting.discard(producer)
        if producer.ended:
            self.on_created(producer)

    def on_client_lost(self) -> None:
        """Drop all producers and their connections after the client has disconnected."""
        for producer in self.all:
            producer.on_client_lost()
        self._producers.clear()
        self._sizes.clear()
        self.connections.close()
