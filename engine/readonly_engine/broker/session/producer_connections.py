"""A client's own connections to owners, over which its producers publish.

Each client has its own, as it would without a pool: an owner that throttles a producer stops reading the connection, and only the
client that publishes too much is to feel it. The owner's PINGs are passed on: an owner that asks whether a producer still lives,
because another one wants its name or exclusive access, asks for the client and not for this broker.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from readonly_engine.broker.session.client_link import ClientLink
    from readonly_engine.owner.connection import OwnerConnection

IDLE_TIMEOUT_S: Final = 30.0
"""A connection without producers is kept so long: the client may make another one."""

_numbers = itertools.count(1)


class ProducerConnections:
    """The connections of one client.

    Args:
        client: the client's connection.

    Attributes:
        pending_pings: owners that wait for a sign of life of the client.
    """

    def __init__(self, client: ClientLink) -> None:
        self.pending_pings: set[OwnerConnection] = set()
        self._client = client
        self._number = next(_numbers)
        self._closing: dict[OwnerConnection, asyncio.TimerHandle] = {}

    async def connect_to_owner(self, topic: str) -> OwnerConnection:
        """The connection to the owner of a topic, opened if there is none.

        Raises:
            RelayError: there is none, or it does not let the client in.
        """
        client = self._client
        connection = await client.services.owners.producer_connection(topic, client.identity, self._number)
        connection.dedicate_to(self)
        return connection

    def on_producer_left(self, connection: OwnerConnection) -> None:
        """A producer has left a connection."""
        if connection.idle and not connection.closed and connection not in self._closing:
            timer = asyncio.get_running_loop().call_later(IDLE_TIMEOUT_S, self._close_idle, connection)
            self._closing[connection] = timer

    def close(self) -> None:
        """The client is gone: its producers end with its connections."""
        for timer in self._closing.values():
            timer.cancel()
        self._closing.clear()
        self.pending_pings.clear()
        self._client.services.owners.close_producer_connections(self._client.identity, self._number)

    def answer_pings(self) -> None:
        """The client lives, or cannot be heard because this side does not read: answer the owners that have asked."""
        pending, self.pending_pings = self.pending_pings, set()
        for connection in pending:
            connection.pong()

    def _close_idle(self, connection: OwnerConnection) -> None:
        del self._closing[connection]
        if connection.idle:
            connection.close()

    # Publisher

    def on_owner_writable(self, connection: OwnerConnection, *, writable: bool) -> None:
        """Called by the connection: a client that publishes faster than the owner takes is read no faster."""
        self._client.pause_reading_for(connection, paused=not writable)
        if not writable:
            self.answer_pings()
        if connection.closed:
            self.pending_pings.discard(connection)

    def on_owner_ping(self, connection: OwnerConnection) -> None:
        """Called by the connection: ask the client, and answer when it is heard."""
        self.pending_pings.add(connection)
        if self._client.reading_paused:
            self.answer_pings()
        else:
            self._client.ping()
