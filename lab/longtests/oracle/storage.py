"""The engine's storage layer as a broker uses it: TopicLog over real bookies and ZooKeeper, without a broker."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from readonly_engine.bookkeeper.pool import BookiePool
from readonly_engine.metadata.cluster import ClusterMetadata
from readonly_engine.metadata.connect import store_at
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.metadata.url import MetadataUrl
from readonly_engine.topic.cache import EntryCache
from readonly_engine.topic.log import TopicLog
from readonly_engine.topic.position import EARLIEST

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from readonly_engine.metadata.store import MetadataStore
    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.position import Position

    from devstack.pulsar.status import Endpoints

CACHE_BYTES: Final = 64 << 20
READ_ENTRIES: Final = 500
"""Entries requested in one call, as many as a ledger has."""

IDLE_S: Final = 30.0
"""Limit of the time without a new entry although the owner has more, in seconds."""


class StorageError(Exception):
    """The storage layer did not return the expected entries in time."""


class Floor:
    """The dependencies of TopicLog, created as `pulsar-readonly serve` does."""

    def __init__(self, store: MetadataStore) -> None:
        self.cluster = ClusterMetadata(store)
        self.bookies = BookiePool(self.cluster.bookie_address)
        self.cache = EntryCache(CACHE_BYTES)

    def log(self, topic: str) -> TopicLog:
        """Return the log of a topic; the caller closes it."""
        return TopicLog(parse_topic_name(topic), self.cluster, self.bookies, self.cache, _no_owner)


async def _no_owner() -> Position | None:
    """Return None: with the explicit LAC of this cluster, the storage layer needs no broker."""
    return None


@asynccontextmanager
async def open_floor(pulsar: Endpoints) -> AsyncIterator[Floor]:
    """Open the storage layer of a cluster, and close it at the end."""
    store = store_at(MetadataUrl.parse(pulsar.metadata_store))
    await store.start()
    floor = Floor(store)
    try:
        yield floor
    finally:
        floor.bookies.close()
        await store.close()


async def read_all(log: TopicLog, until: Position) -> AsyncIterator[TopicEntry]:
    """Yield every entry in order, at least up to `until`, and all readable entries after it.

    Args:
        log: the topic.
        until: the owner's last message; EARLIEST for an empty topic.

    Raises:
        StorageError: no new entry for IDLE_S although the owner has more.
        BookKeeperError: an entry cannot be read.
    """
    await log.opened()
    moved = asyncio.Event()
    log.listen(moved.set)
    position = log.chain.after(EARLIEST)
    reached = EARLIEST
    while True:
        moved.clear()
        entries = await log.read(position, READ_ENTRIES)
        for entry in entries:
            yield entry
            reached = entry.position
        if entries:
            position = log.chain.after(reached)
            continue
        position = log.chain.at_or_after(position)
        if log.chain.readable(position):
            continue
        if reached >= until:
            return
        try:
            await asyncio.wait_for(moved.wait(), IDLE_S)
        except TimeoutError as error:
            raise StorageError(
                f"{log.topic}: stopped at {reached} for {IDLE_S:g} s, the owner's last message is {until}"
            ) from error
