"""Storage of a cluster for one run of the tool, and topics by name."""

from __future__ import annotations

import difflib
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from readonly_engine.bookkeeper.connect import OPEN_BOOKIES
from readonly_engine.bookkeeper.pool import BookiePool
from readonly_engine.metadata.connect import ClusterStores
from readonly_engine.metadata.errors import MetadataError, TopicNameError
from readonly_engine.metadata.security import OPEN_STORE
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.metadata.url import FORMS, MetadataUrl
from readonly_engine.net.digest_md5 import LoginError
from readonly_engine.net.tls import TlsError
from readonly_engine.tiered.storage import TieredStorage
from readonly_engine.tool.errors import ToolError
from readonly_engine.topic.cache import EntryCache
from readonly_engine.topic.log import TopicLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.tool.security import Security

ENVIRONMENT = "PULSAR_READONLY_METADATA_STORE_URL"
BOOKKEEPER_ENVIRONMENT = "PULSAR_READONLY_BOOKKEEPER_METADATA_STORE_URL"
CACHE_BYTES = 64 << 20
NEAR_NAMES = 5


@dataclass(frozen=True, slots=True)
class Storage:
    """Metadata store, bookies, cache and tiered storage of a cluster."""

    cluster: ClusterMetadata
    pool: BookiePool
    cache: EntryCache
    tiered: TieredStorage

    async def parts_of(self, name: str) -> list[TopicName]:
        """Return the topic of a name, or the partitions of the partitioned topic of this name.

        Raises:
            ToolError: there is no such topic; the text has similar names.
            MetadataError: the metadata store does not answer.
        """
        try:
            topic = parse_topic_name(name)
        except TopicNameError as error:
            raise ToolError(str(error)) from error
        if topic.domain != "persistent":
            raise ToolError(f"{topic} is not persistent, so it has no storage")
        partitions = await self.cluster.partitions(topic)
        if partitions:
            return [topic.at(index) for index in range(partitions)]
        if await self.cluster.topic(topic) is None:
            raise ToolError(await self._missing(topic))
        return [topic]

    async def _missing(self, topic: TopicName) -> str:
        namespace = f"{topic.tenant}/{topic.namespace}"
        namespaces = await self.cluster.namespaces()
        if namespace not in namespaces:
            near = difflib.get_close_matches(namespace, namespaces, NEAR_NAMES) or namespaces
            return f"there is no namespace {namespace}; existing: {', '.join(near) or 'none'}"
        if topic.partition >= 0 and await self.cluster.partitions(topic.base):
            count = await self.cluster.partitions(topic.base)
            return f"{topic} has no ledger: {topic.base} has {count} partitions, and no message was sent to this one"
        partitioned = await self.cluster.partitioned_topics(topic.tenant, topic.namespace)
        plain = await self.cluster.topics(topic.tenant, topic.namespace)
        names = sorted(
            {one.base.local_name if one.base in partitioned else one.local_name for one in [*partitioned, *plain]}
        )
        near = difflib.get_close_matches(topic.local_name, names, NEAR_NAMES)
        hint = (
            f"similar: {', '.join(near)}" if near else f"`topic ls {namespace}` lists the {len(names)} existing topics"
        )
        return f"there is no topic {topic}; {hint}"

    @asynccontextmanager
    async def log(self, topic: TopicName) -> AsyncIterator[TopicLog]:
        """Open a topic's log, up to the last entry that bookies know now.

        Raises:
            MetadataError: the metadata store does not answer.
            BookKeeperError: the bookies of the last ledger do not answer.
        """
        log = TopicLog(topic, self.cluster, self.pool, self.cache, _no_owner, self.tiered)
        try:
            await log.opened()
            await log.refresh()
            yield log
        finally:
            log.close()


async def _no_owner() -> None:
    """Answer as a missing owner: without explicit LAC, the last entry of an open ledger becomes readable with the next one."""


@asynccontextmanager
async def storage_at(
    url: str | None, bookkeeper_url: str | None = None, security: Security | None = None
) -> AsyncIterator[Storage]:
    """Connect to a cluster's storage.

    Args:
        url: URL of the brokers' metadata store; None if neither the option nor the environment has one.
        bookkeeper_url: URL of the bookies' metadata store; None for the same.
        security: TLS and logins; None for neither.

    Raises:
        ToolError: a URL is missing or invalid, or the metadata store does not answer.
    """
    if not url:
        raise ToolError(f"--metadata-store-url is missing: give {FORMS}, or set {ENVIRONMENT}")
    try:
        main = MetadataUrl.parse(url)
    except MetadataError as error:
        raise ToolError(f"--metadata-store-url: {error}") from error
    try:
        bookkeeper = None if bookkeeper_url is None else MetadataUrl.parse(bookkeeper_url)
    except MetadataError as error:
        raise ToolError(f"--bookkeeper-metadata-store-url: {error}") from error
    try:
        stores = ClusterStores(main, bookkeeper, OPEN_STORE if security is None else security.stores)
    except (TlsError, LoginError) as error:
        raise ToolError(f"--{error}") from error
    try:
        await stores.start()
    except MetadataError as error:
        raise ToolError(f"--metadata-store-url: {error}") from error
    cluster = stores.cluster
    pool = BookiePool(cluster.bookie_address, security=OPEN_BOOKIES if security is None else security.bookies)
    tiered = TieredStorage()
    try:
        yield Storage(cluster, pool, EntryCache(CACHE_BYTES), tiered)
    finally:
        tiered.close()
        pool.close()
        await pool.wait_closed()
        await stores.close()
