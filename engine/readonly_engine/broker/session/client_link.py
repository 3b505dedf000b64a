"""What the consumers, producers and requests of a client need of its connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from readonly_engine.net.direct_writer import DirectWriter

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine, Sequence

    from readonly_engine.broker.session.services import Services
    from readonly_engine.owner.identity import Identity
    from readonly_engine.wire.pulsar_pb2 import BaseCommand, ServerError


class LinkedConsumer(Protocol):
    """A consumer of a connection."""

    consumer_id: int
    exclusive: bool

    def unregister(self) -> None:
        """Count nowhere any more."""

    async def close(self, command: BaseCommand | None = None) -> BaseCommand | None:
        """Close it at the owner."""


class ClientLink(DirectWriter, Protocol):
    """A client's connection, as its consumers, producers and requests use it.

    Attributes:
        identity: identity that the owner has accepted.
        writable: whether the socket takes more.
        peer: `HOST:PORT` of the client.
        address: host of the client.
        client_version: version that the client gave in CONNECT.
        listener: named listener of the port.
    """

    identity: Identity
    writable: bool
    peer: str
    address: str
    client_version: str
    listener: str

    @property
    def services(self) -> Services:
        """The broker's shared parts."""

    @property
    def consumers(self) -> Sequence[LinkedConsumer]:
        """The consumers of the connection."""

    @property
    def reading_paused(self) -> bool:
        """Whether nothing is read from the client."""

    def respond(self, command: BaseCommand, request_id: int) -> None:
        """Send a response under the id of the client's request."""

    def refuse(self, request_id: int, code: ServerError, message: str) -> None:
        """Answer a request with an error."""

    def succeed(self, request_id: int) -> None:
        """Answer a request with SUCCESS."""

    def drop_consumer(self, consumer: LinkedConsumer) -> None:
        """Forget a consumer that the client is told to close, and close it at the owner."""

    def pause_reading_for(self, holder: object, *, paused: bool) -> None:
        """Read nothing from the client while any holder pauses it."""

    def spawn(self, coroutine: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run a task that ends with the connection."""

    async def is_alive(self) -> bool:
        """Return whether the client gives a sign of life in time; if not, its connection has ended."""

    def probe(self) -> None:
        """Ask the client for a sign of life, and end the connection if none comes in time."""

    def ping(self) -> None:
        """Ask the client for a sign of life."""

    def close(self) -> None:
        """End the connection after the client has read what waits."""
