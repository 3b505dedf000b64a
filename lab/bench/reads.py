"""Bookie reads per entry of a topic, by the bookies' own counters."""

from __future__ import annotations

import asyncio
import time
import uuid
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pulsar
from readonly_engine.bookkeeper.pool import BookiePool
from readonly_engine.metadata.cluster import ClusterMetadata
from readonly_engine.metadata.connect import store_at
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.metadata.url import MetadataUrl
from readonly_engine.topic.cache import EntryCache
from readonly_engine.topic.log import TopicLog
from readonly_engine.topic.reading import TopicReader

from devstack.console import say
from devstack.errors import DevstackError
from devstack.pulsar.counters import entries_read

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from devstack.pulsar.status import Endpoints

PAYLOAD: Final = bytes(1024)
CACHE_BYTES: Final = 256 << 20
READERS: Final = (1, 200)
DEADLINE_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Load:
    """Entries of a topic.

    Attributes:
        name: name in the table.
        entries: number of entries.
        per_second: rate of entries while the readers follow the tail; 0 for entries that are written before.
    """

    name: str
    entries: int
    per_second: float = 0.0


LOADS: Final = (Load("backlog", 5000), Load("tail, 500 per second", 5000, 500.0), Load("tail, 1 per second", 20, 1.0))


@dataclass(frozen=True, slots=True)
class Reads:
    """One row of the table.

    Attributes:
        load: name of the load.
        readers: number of readers, each of all entries.
        per_entry: entries that the bookies read per entry of the topic.
    """

    load: str
    readers: int
    per_entry: float


def table(rows: Sequence[Reads]) -> str:
    """Return the table as Markdown."""
    lines = ["| entries | readers | bookie reads per entry |", "|---|---:|---:|"]
    lines += [f"| {row.load} | {row.readers} | {row.per_entry:.3f} |" for row in rows]
    return "\n".join(lines)


async def count_reads(endpoints: Endpoints) -> list[Reads]:
    """Measure each load with each number of readers, on a topic of its own.

    Raises:
        DevstackError: a reader did not get every entry in time.
    """
    client = pulsar.Client(endpoints.writer_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        rows = []
        for load in LOADS:
            for readers in READERS:
                say(f"bookie reads: {load.name}, {readers} readers")
                rows.append(Reads(load.name, readers, await _count(endpoints, client, load, readers)))
        return rows
    finally:
        client.close()


async def _count(endpoints: Endpoints, client: pulsar.Client, load: Load, readers: int) -> float:
    topic = f"persistent://public/default/bench-{uuid.uuid4().hex[:12]}"
    producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
    if not load.per_second:
        await asyncio.to_thread(_publish, producer, load)
    async with _log(endpoints, topic) as log:
        before = await asyncio.to_thread(entries_read, endpoints)
        reading = [asyncio.create_task(_read(log, load.entries)) for _ in range(readers)]
        if load.per_second:
            await asyncio.to_thread(_publish, producer, load)
        try:
            async with asyncio.timeout(DEADLINE_S):
                await asyncio.gather(*reading)
        except TimeoutError as error:
            raise DevstackError(f"{load.name}: not every entry was read within {DEADLINE_S:g} s") from error
        after = await asyncio.to_thread(entries_read, endpoints)
    producer.close()
    return (after - before) / load.entries


async def _read(log: TopicLog, entries: int) -> None:
    found = TopicReader(log).entries(follow=True)
    for _ in range(entries):
        await anext(found)
    await found.aclose()


def _publish(producer: pulsar.Producer, load: Load) -> None:
    begin = time.monotonic()
    for number in range(load.entries):
        if load.per_second:
            time.sleep(max(begin + number / load.per_second - time.monotonic(), 0))
        producer.send_async(PAYLOAD, lambda *_: None)
    producer.flush()


@asynccontextmanager
async def _log(endpoints: Endpoints, topic: str) -> AsyncIterator[TopicLog]:
    store = store_at(MetadataUrl.parse(endpoints.metadata_store))
    await store.start()
    cluster = ClusterMetadata(store)
    pool = BookiePool(cluster.bookie_address)
    log = TopicLog(parse_topic_name(topic), cluster, pool, EntryCache(CACHE_BYTES), _no_owner)
    try:
        await log.opened()
        yield log
    finally:
        log.close()
        pool.close()
        await pool.wait_closed()
        await store.close()


async def _no_owner() -> None:
    """Answer without an owner: explicit LAC is on in this stack."""
