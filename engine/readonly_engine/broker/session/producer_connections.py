"""Connections of one client to owners, for its producers.

Each client has its own connections, as without a pool. An owner throttles a producer by not reading its connection, and that must
not affect other clients. The owner's PINGs are relayed: with a PING an owner checks whether the client of a producer is alive,
when another producer requests its name or exclusive access.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Final

from readonly_engine.background import ends

if TYPE_CHECKING:
    from readonly_engine.broker.consumer.client_link import ClientLink
    from readonly_engine.owner.connection import OwnerConnection

IDLE_TIMEOUT_S: Final = 30.0
"""Time for which a connection without producers stays open for the client's next producer."""

_numbers = itertools.count(1)


class ProducerConnections:
    """The connections of one client to owners.

    Args:
        client: the client's connection.

    Attributes:
        pending_pings: connections with an unanswered PING of the owner.
    """

    def __init__(self, client: ClientLink) -> None:
        self.pending_pings: set[OwnerConnection] = set()
        self._client = client
        self._number = next(_numbers)
        self._closing: dict[OwnerConnection, asyncio.TimerHandle] = {}

    async def connect_to_owner(self, topic: str) -> OwnerConnection:
        """Return the client's connection to the owner of a topic; open it if necessary.

        Raises:
            RelayError: no owner is found, or it refuses the client.
        """
        client = self._client
        connection = await client.services.owners.producer_connection(topic, client.identity, self._number)
        connection.dedicate_to(self)
        return connection

    def on_producer_left(self, connection: OwnerConnection) -> None:
        """Close a connection after IDLE_TIMEOUT_S without producers. Call it whenever a producer leaves one."""
        if connection.idle and not connection.closed and connection not in self._closing:
            timer = asyncio.get_running_loop().call_later(IDLE_TIMEOUT_S, self._close_idle, connection)
            self._closing[connection] = timer

    def close(self) -> None:
        """Close all connections after the client has disconnected. The owners close its producers with them."""
        for timer in self._closing.values():
            timer.cancel()
        self._closing.clear()
        self.pending_pings.clear()
        self._client.services.owners.close_producer_connections(self._client.identity, self._number)

    def answer_pings(self) -> None:
        """Answer pending PINGs: the client is alive, or reading from it is paused, so that it cannot answer."""
        pending, self.pending_pings = self.pending_pings, set()
        for connection in pending:
            connection.pong()

    @ends("_client.abort")
    def _close_idle(self, connection: OwnerConnection) -> None:
        del self._closing[connection]
        if connection.idle:
            connection.close()

    # Publisher

    def on_owner_writable(self, connection: OwnerConnection, *, writable: bool) -> None:
        """Pause reading from the client while the owner does not accept its data."""
        self._client.pause_reading_for(connection, paused=not writable)
        if not writable:
            self.answer_pings()
        if connection.closed:
            self.pending_pings.discard(connection)

    def on_owner_ping(self, connection: OwnerConnection) -> None:
        """Ping the client; its next data answers the owner. If reading is paused, answer the owner now."""
        self.pending_pings.add(connection)
        if self._client.reading_paused:
            self.answer_pings()
        else:
            self._client.ping()
