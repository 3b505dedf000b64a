"""Interface of a client's connection for its consumers, producers and requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from readonly_engine.net.direct_writer import DirectWriter

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine, Sequence

    from readonly_engine.broker.consumer.services import Services
    from readonly_engine.owner.identity import Identity
    from readonly_engine.wire.pulsar_pb2 import BaseCommand, ServerError


class LinkedConsumer(Protocol):
    """A consumer of a connection."""

    consumer_id: int
    exclusive: bool

    def unregister(self) -> None:
        """Remove the consumer from its subscription, from limits and from registries. Does not close it on the owner."""

    async def close(self, command: BaseCommand | None = None) -> BaseCommand | None:
        """Close the consumer on the owner; return the owner's answer, None without one.

        Args:
            command: the client's CLOSE_CONSUMER, if the client closes it.
        """


class ClientLink(DirectWriter, Protocol):
    """A client's connection, as its consumers, producers and requests use it.

    Attributes:
        identity: identity that the owner has accepted.
        writable: whether the write buffer is below its limit.
        peer: `HOST:PORT` of the client.
        address: host of the client.
        client_version: the client's version from CONNECT.
        takes_entry_metadata: whether the client takes the owner's own metadata of entries, as its CONNECT says.
        listener: named listener of the client's port.
    """

    identity: Identity
    writable: bool
    peer: str
    address: str
    client_version: str
    takes_entry_metadata: bool
    listener: str

    @property
    def services(self) -> Services:
        """The shared parts of the broker."""

    @property
    def consumers(self) -> Sequence[LinkedConsumer]:
        """The consumers of the connection."""

    @property
    def reading_paused(self) -> bool:
        """Whether reading from the client is paused."""

    def respond(self, command: BaseCommand, request_id: int) -> None:
        """Send a response with the id of the client's request."""

    def refuse(self, request_id: int, code: ServerError, message: str) -> None:
        """Answer a request with an error."""

    def succeed(self, request_id: int) -> None:
        """Answer a request with SUCCESS."""

    def drop_consumer(self, consumer: LinkedConsumer) -> None:
        """Remove a consumer, and close it on the owner."""

    def pause_reading_for(self, holder: object, *, paused: bool) -> None:
        """Pause or resume reading for one holder. Reading is paused while any holder pauses it."""

    def spawn(self, coroutine: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run a task that is cancelled with the connection."""

    async def is_alive(self) -> bool:
        """Probe the client; return whether it sent anything in time. If not, its connection was closed."""

    def probe(self) -> None:
        """Send a PING, and close the connection if the client sends nothing in time."""

    def ping(self) -> None:
        """Send a PING."""

    def close(self) -> None:
        """Close the connection after its buffers are sent."""
