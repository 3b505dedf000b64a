"""Paths of ledgers, and what is still known while the store is away; the store here comes and goes when the test says so."""

import asyncio
from types import SimpleNamespace

import pytest
from readonly_engine.metadata import cluster as cluster_module
from readonly_engine.metadata.cluster import ClusterMetadata, ledger_path
from readonly_engine.metadata.errors import MetadataError, MetadataUnavailableError
from readonly_engine.metadata.store import Versioned
from readonly_engine.metadata.topic_name import parse_topic_name

from tests.unit.engine.doctor.played_cluster import MemoryStore

TOPIC = parse_topic_name("orders")


class CountedStore(MemoryStore):
    asked = 0

    async def get(self, path):
        self.asked += 1
        return await super().get(path)


def test_a_topic_that_was_created_again_was_deleted(golden):
    """A watch may leave the time without a node out."""
    told, seen = [], []
    cluster = ClusterMetadata(SimpleNamespace(watch=lambda path, changed: told.append(changed)))
    cluster.watch_topic(SimpleNamespace(topic=TOPIC, topic_changed=seen.append))
    value = golden("zk_managed_ledger")
    for node in (Versioned(value, 0, 7), Versioned(value, 1, 7), Versioned(value, 0, 8), None, Versioned(value, 0, 9)):
        told[0](node)
    assert [info is None for info in seen] == [False, False, True, False, True, False]


@pytest.fixture
def store(golden):
    return CountedStore(
        {
            ledger_path("/ledgers", 7): golden("zk_ledger_closed"),
            ledger_path("/ledgers", 8): golden("zk_ledger_open"),
            "/ledgers/available/a": golden("zk_bookie"),
        }
    )


async def test_a_ledger_and_a_bookie_that_were_known_are_known_while_the_store_is_away(store):
    cluster = ClusterMetadata(store)
    ledger, address = await cluster.ledger(7), await cluster.bookie_address("a")
    store.failure = OSError()
    assert await cluster.ledger(7) == ledger
    assert await cluster.bookie_address("a") == address
    asked = store.asked
    store.connected = False
    assert await cluster.ledger(7) == ledger
    assert await cluster.bookie_address("a") == address
    assert store.asked == asked, "nobody waits for a store that is known to be away"
    for unknown in (cluster.ledger(8), cluster.bookie_address("b")):
        with pytest.raises(MetadataUnavailableError):
            await unknown


async def test_a_ledger_that_was_deleted_is_forgotten(store):
    cluster = ClusterMetadata(store)
    assert await cluster.ledger(7)
    store.nodes.clear()
    assert await cluster.ledger(7) is None
    store.failure = OSError()
    with pytest.raises(MetadataUnavailableError):
        await cluster.ledger(7)


async def test_the_ledgers_that_are_remembered_are_bounded(store, monkeypatch):
    monkeypatch.setattr(cluster_module, "MAX_REMEMBERED_LEDGERS", 1)
    cluster = ClusterMetadata(store)
    assert await cluster.ledger(7)
    assert await cluster.ledger(8)
    store.failure = OSError()
    assert await cluster.ledger(8)
    with pytest.raises(MetadataUnavailableError):
        await cluster.ledger(7)


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b'{"partitions": "many"}', b"\xff"])
def test_a_damaged_count_of_partitions_is_the_named_error(store, value):
    store.nodes[TOPIC.partitions_path] = value
    with pytest.raises(MetadataError, match="is damaged: it has no number of partitions"):
        asyncio.run(ClusterMetadata(store).partitions(TOPIC))


async def test_names_come_as_people_write_them(store):
    store.nodes |= {
        "/admin/policies/public/default": b"",
        "/managed-ledgers/public/default/persistent/a+b": b"",
        "/managed-ledgers/public/default/persistent/a+b/my%2Fsub": b"",
        TOPIC.partitions_path: b'{"partitions": 4, "deleted": false}',
    }
    cluster = ClusterMetadata(store)
    assert await cluster.namespaces() == ["public/default"]
    (topic,) = await cluster.topics("public", "default")
    assert str(topic) == "persistent://public/default/a b"
    assert await cluster.subscriptions(topic) == ["my/sub"]
    assert await cluster.partitioned_topics("public", "default") == {TOPIC: 4}
    assert await cluster.topics("no", "where") == []


@pytest.mark.parametrize(
    ("ledger_id", "path"),
    [
        (0, "/ledgers/00/0000/L0000"),
        (7, "/ledgers/00/0000/L0007"),
        (12345678, "/ledgers/00/1234/L5678"),
        (1234567890, "/ledgers/12/3456/L7890"),
        (2**31 - 2, "/ledgers/21/4748/L3646"),
        (2**31 - 1, "/ledgers/000/0000/0021/4748/L3647"),
        (2**31, "/ledgers/000/0000/0021/4748/L3648"),
        (2**63 - 1, "/ledgers/922/3372/0368/5477/L5807"),
    ],
)
def test_the_znode_of_a_ledger(ledger_id, path):
    """Short up to 2^31 - 2, long from Integer.MAX_VALUE on (StringUtils.getHybridHierarchicalLedgerPath)."""
    assert ledger_path("/ledgers", ledger_id) == path


def test_the_root_is_the_clusters():
    assert ledger_path("/bk/ledgers", 7) == "/bk/ledgers/00/0000/L0007"
