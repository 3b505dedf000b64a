"""Finding the owner of a topic, and the shared connections to owners."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from readonly_engine.relay.connection import OwnerConnection
from readonly_engine.relay.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandLookupTopic, CommandLookupTopicResponse

if TYPE_CHECKING:
    from readonly_engine.relay.identity import Identity

log = logging.getLogger(__name__)

MAX_REDIRECTS = 20
"""As Pulsar's Java client (maxLookupRedirects): more is a loop."""

DEFAULT_PORT = 6650


class Owners:
    """Connections to the brokers of the writable cluster, one for each broker and identity.

    Args:
        writer_url: where the writable cluster is found: `pulsar://HOST[:PORT]`.
    """

    def __init__(self, writer_url: str) -> None:
        self.writer_url = writer_url
        self._open: dict[tuple[str, Identity], OwnerConnection] = {}
        self._opening: dict[tuple[str, Identity], asyncio.Task[OwnerConnection]] = {}

    async def entrance(self, identity: Identity) -> OwnerConnection:
        """The connection to the writer URL, for lookups and all that any broker can answer.

        Raises:
            RelayError: it cannot be reached, or refuses the credentials.
        """
        return await self._connection(self.writer_url, identity)

    async def owner_of(self, topic: str, identity: Identity) -> OwnerConnection:
        """The connection to the broker that owns a topic.

        Raises:
            OwnerUnavailableError: no broker answers, or the lookup went round in circles.
            OwnerRefusedError: the lookup was refused.
        """
        url, authoritative = self.writer_url, False
        for _ in range(MAX_REDIRECTS):
            connection = await self._connection(url, identity)
            lookup = CommandLookupTopic(topic=topic, authoritative=authoritative)
            answer = await connection.request(BaseCommand(type=BaseCommand.LOOKUP, lookup_topic=lookup))
            if answer.type == BaseCommand.ERROR:
                raise OwnerRefusedError(answer.error.error, answer.error.message)
            response = answer.lookup_topic_response
            if response.response == CommandLookupTopicResponse.Failed:
                raise OwnerRefusedError(response.error, response.message)
            url, authoritative = response.broker_service_url, response.authoritative
            if response.response == CommandLookupTopicResponse.Connect:
                return await self._connection(url, identity)
        raise OwnerUnavailableError(f"the lookup of {topic} was redirected {MAX_REDIRECTS} times")

    def close(self) -> None:
        """Close every connection."""
        for task in self._opening.values():
            task.cancel()
        for connection in self._open.values():
            connection.close()

    async def _connection(self, url: str, identity: Identity) -> OwnerConnection:
        key = (url, identity)
        connection = self._open.get(key)
        if connection is not None and not connection.closed:
            return connection
        opening = self._opening.get(key)
        if opening is None:
            opening = self._opening[key] = asyncio.create_task(self._connect(key))
            opening.add_done_callback(lambda _: self._opening.pop(key, None))
        return await asyncio.shield(opening)

    async def _connect(self, key: tuple[str, Identity]) -> OwnerConnection:
        url, identity = key
        parts = urlsplit(url)
        if parts.scheme != "pulsar" or not parts.hostname:
            raise OwnerUnavailableError(f"a broker is said to be at {url!r}; it would be pulsar://HOST:PORT")
        connection = await OwnerConnection.open(url, parts.hostname, parts.port or DEFAULT_PORT, identity)
        self._open[key] = connection
        return connection
