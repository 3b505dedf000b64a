"""The engine's storage floor as a broker uses it: TopicLog over real bookies and ZooKeeper, without any broker."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from readonly_engine.bookkeeper.pool import BookiePool
from readonly_engine.metadata.cluster import ClusterMetadata
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.metadata.zookeeper import ZooKeeperStore
from readonly_engine.topic.cache import EntryCache
from readonly_engine.topic.log import TopicLog
from readonly_engine.topic.position import EARLIEST

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.position import Position

    from devstack.pulsar.status import Endpoints

CACHE_BYTES: Final = 64 << 20
READ_ENTRIES: Final = 500
"""Entries asked for in one call, as many as fit a ledger."""

IDLE_S: Final = 30.0
"""How long the floor may show nothing new although the owner has more."""


class StorageError(Exception):
    """The floor does not give what it should, in time."""


class Floor:
    """What TopicLog needs, made as `pulsar-readonly serve` makes it."""

    def __init__(self, store: ZooKeeperStore) -> None:
        self.cluster = ClusterMetadata(store)
        self.bookies = BookiePool(self.cluster.bookie_address)
        self.cache = EntryCache(CACHE_BYTES)

    def log(self, topic: str) -> TopicLog:
        """One topic's log; close it."""
        return TopicLog(parse_topic_name(topic), self.cluster, self.bookies, self.cache, _no_owner)


async def _no_owner() -> Position | None:
    """Explicit LAC is on in this cluster: the storage floor must do without a broker."""
    return None


@asynccontextmanager
async def open_floor(pulsar: Endpoints) -> AsyncIterator[Floor]:
    """A floor over a cluster, closed at the end."""
    store = ZooKeeperStore(pulsar.metadata_store.removeprefix("zk:"))
    await store.start()
    floor = Floor(store)
    try:
        yield floor
    finally:
        floor.bookies.close()
        await store.close()


async def read_all(log: TopicLog, until: Position) -> AsyncIterator[TopicEntry]:
    """Every entry in order, up to `until` and to whatever is readable behind it.

    Args:
        log: the topic.
        until: the owner's last message; EARLIEST for a topic without any.

    Raises:
        StorageError: nothing new for IDLE_S although the owner has more.
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
