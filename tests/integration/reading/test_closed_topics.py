"""A topic that is closed leaves nothing behind: not in this process, not in kazoo, not in ZooKeeper."""

import asyncio
import gc
from typing import Final

import pulsar
import pytest
from kazoo.exceptions import NoNodeError
from readonly_engine.bookkeeper.pool import BookiePool
from readonly_engine.metadata.cluster import ClusterMetadata, ledger_path
from readonly_engine.metadata.topic_name import TopicName, parse_topic_name
from readonly_engine.metadata.watchers import DATA, NoWatcherError, RemoveWatches
from readonly_engine.metadata.watches import NodeWatch
from readonly_engine.metadata.zookeeper import ZooKeeperStore
from readonly_engine.topic.cache import EntryCache
from readonly_engine.topic.log import TopicLog
from readonly_engine.topic.position import EARLIEST

from devstack.pulsar.status import Endpoints
from tests.integration.conftest import zookeeper_only
from tests.support.waiting import until

pytestmark = [pytest.mark.nightly, pytest.mark.second_stack, zookeeper_only]

TOPICS: Final = 10
ABSENT: Final = 3000
AT_ONCE: Final = 200
DEADLINE_S: Final = 60


async def _nothing() -> None:
    return None


def kept(store: ZooKeeperStore) -> int:
    """Watches of the store; kazoo keeps none."""
    return len(store._watched.watchers.all)


async def answered(store: ZooKeeperStore, request: RemoveWatches) -> BaseException | None:
    """What ZooKeeper says to a request; None where it does what is asked."""
    answer = store._client.handler.async_result()
    store._client._call(request, answer)
    await asyncio.to_thread(answer.wait, DEADLINE_S)
    return answer.exception


def left(*kinds: type) -> int:
    gc.collect()
    return sum(isinstance(one, kinds) for one in gc.get_objects())


async def test_topics_that_were_opened_and_closed_are_gone_at_once(
    pulsar_client: pulsar.Client, pulsar, topic: str
) -> None:
    """Some topics with entries, which are read and followed, and thousands that are not there."""
    names = [parse_topic_name(f"{topic}-{number}") for number in range(TOPICS)]
    for name in names:
        producer = pulsar_client.create_producer(str(name), batching_enabled=False)
        for number in range(120):  # more than one ledger
            producer.send_async(b"%d" % number, lambda *_: None)
        producer.flush()
        producer.close()
    absent = [TopicName("persistent", "public", "default", f"absent-{number}") for number in range(ABSENT)]
    store, cluster, pool = await _connected(pulsar)
    cache = EntryCache(64 << 20)
    await cluster.topic(names[0])
    before, open_before = kept(store), left(TopicLog, NodeWatch)
    ledgers: set[int] = set()
    try:
        for first in range(0, ABSENT, AT_ONCE):
            logs = [TopicLog(name, cluster, pool, cache, _nothing) for name in absent[first : first + AT_ONCE] + names]
            await asyncio.gather(*(log.opened() for log in logs))
            for log in logs[-TOPICS:]:
                ledgers.update(log.chain.ledger_ids)
                assert await log.read(log.chain.at_or_after(EARLIEST), 10)
            assert kept(store) >= AT_ONCE
            for log in logs:
                log.close()
            del logs, log
        await until(lambda: kept(store) == before, 60, what="the watches are forgotten")
        await until(lambda: left(TopicLog, NodeWatch) == open_before, 60, what="closed topics are freed")
        paths = [name.managed_ledger_path for name in [*names, *absent[:20]]]
        for path in [*paths, *(ledger_path("/ledgers", ledger_id) for ledger_id in sorted(ledgers))]:
            said = await answered(store, RemoveWatches(path, DATA))
            assert isinstance(said, NoWatcherError | NoNodeError), f"ZooKeeper still watches {path}: {said!r}"
    finally:
        pool.close()
        await store.close()


async def _connected(pulsar_: Endpoints) -> tuple[ZooKeeperStore, ClusterMetadata, BookiePool]:
    store = ZooKeeperStore(pulsar_.metadata_store.removeprefix("zk:"))
    await store.start()
    cluster = ClusterMetadata(store)
    return store, cluster, BookiePool(cluster.bookie_address)
