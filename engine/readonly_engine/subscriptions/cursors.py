"""Local cursors of a pool, read from the topics of the source cluster in which its brokers store them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from pulsar.asyncio import PulsarException

from readonly_engine.broker.cursors.client import file_token, stock_client
from readonly_engine.broker.cursors.partitions import check_cursor_topic, cursor_topic, partition_of
from readonly_engine.broker.cursors.records import KeptBytes, read_topics_records
from readonly_engine.broker.cursors.topic_cursors import TopicCursors, by_topic
from readonly_engine.net.tls import ClientTls, TlsError
from readonly_engine.owner.admin import AdminClient
from readonly_engine.owner.cursor_admin import CursorAdmin
from readonly_engine.subscriptions.backlog import TopicEntries
from readonly_engine.subscriptions.login import access_token, oauth2_login
from readonly_engine.tool.errors import ToolError
from readonly_engine.wire.errors import MalformedFrameError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from pulsar.asyncio import Client

    from readonly_engine.broker.cursors.local_cursor import LocalCursor
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.subscriptions.settings import ToolConfig

READ_TIMEOUT_S: Final = 120.0
"""Limit of the time to read one partition."""


class PoolCursors:
    """Reads the local cursors of a pool.

    Args:
        client: client of the source cluster.
        admin: the admin API of the source cluster.
        pool: identity of the pool.

    Attributes:
        admin: as above.
    """

    def __init__(self, client: Client, admin: CursorAdmin, pool: str) -> None:
        self._client = client
        self.admin = admin
        self._pool = pool

    async def parts_of(self, topic: TopicName) -> list[TopicName]:
        """Return a topic, or the partitions of a partitioned topic.

        Raises:
            ToolError: there is no such topic.
            OwnerUnavailableError: the admin API does not answer.
        """
        if topic.domain != "persistent":
            raise ToolError(f"{topic} is not persistent, so its subscriptions are stored nowhere")
        found = await self.admin.partitioned(topic)
        if found.partitions:
            return [topic.at(index) for index in range(found.partitions)]
        if not await self.admin.exists(topic):
            raise ToolError(f"there is no topic {topic}")
        return [topic]

    async def stored_in(self, topic: TopicName) -> int:
        """Return the number of partitions with the cursors of a topic's namespace; 0 while the pool keeps none there.

        Raises:
            OwnerRefusedError: the topic with this name belongs to somebody else.
            OwnerUnavailableError: the admin API does not answer.
        """
        cursors = cursor_topic(topic, self._pool)
        found = await self.admin.partitioned(cursors)
        if found.partitions or await self.admin.exists(cursors):
            return check_cursor_topic(cursors, found, self._pool)
        return 0

    def none_stored(self, topic: TopicName) -> ToolError:
        """Return the error for a namespace in which the pool keeps no cursors."""
        return ToolError(
            f"the pool {self._pool} keeps no subscriptions in {topic.tenant}/{topic.namespace}: there is no topic"
            f" {cursor_topic(topic, self._pool)}; check --pool and --pool-uid"
        )

    async def list(self, topics: Sequence[TopicName]) -> dict[TopicName, list[LocalCursor]]:
        """Return the cursors of topics of one namespace, sorted by name.

        Raises:
            ToolError: the pool keeps no cursors in the namespace, or they cannot be read.
            OwnerRefusedError: the topic with the cursors belongs to somebody else.
            OwnerUnavailableError: the admin API does not answer.
        """
        found: dict[TopicName, list[LocalCursor]] = {topic: [] for topic in topics}
        count = await self.stored_in(topics[0])
        if not count:
            raise self.none_stored(topics[0])
        kept = KeptBytes()
        for index in range(count):
            for topic, cursors in (await self._read(index, topics, kept)).items():
                found[topic] += cursors
        return {topic: sorted(cursors, key=lambda one: one.name) for topic, cursors in found.items()}

    async def find(self, topic: TopicName, subscription: str) -> LocalCursor | None:
        """Return the cursor of a subscription; None without one.

        Raises:
            ToolError: the cursors cannot be read.
            OwnerRefusedError: the topic with the cursors belongs to somebody else.
            OwnerUnavailableError: the admin API does not answer.
        """
        count = await self.stored_in(topic)
        if not count:
            return None
        found = (await self._read(partition_of(topic, subscription, count), [topic], KeptBytes())).get(topic)
        return None if found is None else found.find(subscription)

    async def entries(self, topics: Iterable[TopicName]) -> dict[TopicName, TopicEntries]:
        """Return the entries of topics.

        Raises:
            OwnerUnavailableError: the admin API does not answer.
        """
        return {topic: TopicEntries(*await self.admin.ledgers(topic)) for topic in topics}

    async def _read(self, index: int, topics: Iterable[TopicName], kept: KeptBytes) -> dict[TopicName, TopicCursors]:
        names = {str(topic): topic for topic in topics}
        partition = cursor_topic(next(iter(names.values())), self._pool).at(index)
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                records = await read_topics_records(self._client, partition, frozenset(names), kept.add)
            found = {}
            for name, of_topic in by_topic(records.items()).items():
                found[names[name]] = cursors = TopicCursors(name)
                cursors.restore(of_topic.items())
        except (PulsarException, TimeoutError, MalformedFrameError) as error:
            raise ToolError(f"the local cursors in {partition} cannot be read: {error or 'no answer'}") from error
        return found


@asynccontextmanager
async def pool_cursors(config: ToolConfig, **client_options: Any) -> AsyncIterator[PoolCursors]:
    """Connect to the source cluster.

    Args:
        config: the settings.
        client_options: more arguments of the client.

    Raises:
        ToolError: a file of the settings cannot be used.
    """
    async with oauth2_login(config) as login:
        if login is not None:
            access_token(login)
        try:
            tls = None if config.broker_tls is None else ClientTls(config.broker_tls)
            admin = AdminClient(*config.admin_urls, tls=tls, token_file=config.admin_token_file, login=login)
        except TlsError as error:
            raise ToolError(f"--{error}") from error
        except (OSError, ValueError) as error:
            raise ToolError(f"--admin-token-file: {error}") from error
        token = file_token(config.admin_token_file) if login is None else login.current
        client = stock_client(config.service_url, config.broker_tls, token, **client_options)
        try:
            yield PoolCursors(client, CursorAdmin(admin), config.identity)
        finally:
            await client.close()
            await admin.close()
