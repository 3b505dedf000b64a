"""What ClusterMetadata still knows while the store is away; the store here comes and goes when the test says so."""

import asyncio
from types import SimpleNamespace

import pytest
from readonly_engine.metadata import cluster as cluster_module
from readonly_engine.metadata.cluster import ClusterMetadata, ledger_path
from readonly_engine.metadata.errors import MetadataError, MetadataUnavailableError
from readonly_engine.metadata.store import Versioned
from readonly_engine.metadata.topic_name import parse_topic_name

TOPIC = parse_topic_name("orders")


class ComesAndGoes:
    def __init__(self, values):
        self.values = values
        self.connected = True
        self.answers = True
        self.asked = 0

    async def get(self, path):
        self.asked += 1
        if not self.answers:
            raise MetadataUnavailableError("away")
        value = self.values.get(path)
        return None if value is None else Versioned(value, 0)

    async def children(self, path):
        names = {key[len(path) + 1 :].split("/")[0] for key in self.values if key.startswith(f"{path}/")}
        return frozenset(names) if names or path in self.values else None


def test_a_topic_that_was_created_again_was_deleted(golden):
    """A watch may leave the time without a node out."""
    told, seen = [], []
    cluster = ClusterMetadata(SimpleNamespace(watch=lambda path, changed: told.append(changed)))
    cluster.watch_topic(TOPIC, seen.append)
    value = golden("zk_managed_ledger")
    for node in (Versioned(value, 0, 7), Versioned(value, 1, 7), Versioned(value, 0, 8), None, Versioned(value, 0, 9)):
        told[0](node)
    assert [info is None for info in seen] == [False, False, True, False, True, False]


@pytest.fixture
def store(golden):
    return ComesAndGoes(
        {
            ledger_path("/ledgers", 7): golden("zk_ledger_closed"),
            ledger_path("/ledgers", 8): golden("zk_ledger_open"),
            "/ledgers/available/a": golden("zk_bookie"),
        }
    )


async def test_a_ledger_and_a_bookie_that_were_known_are_known_while_the_store_is_away(store):
    cluster = ClusterMetadata(store)
    ledger, address = await cluster.ledger(7), await cluster.bookie_address("a")
    store.answers = False
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
    store.values.clear()
    assert await cluster.ledger(7) is None
    store.answers = False
    with pytest.raises(MetadataUnavailableError):
        await cluster.ledger(7)


async def test_the_ledgers_that_are_remembered_are_bounded(store, monkeypatch):
    monkeypatch.setattr(cluster_module, "MAX_REMEMBERED_LEDGERS", 1)
    cluster = ClusterMetadata(store)
    assert await cluster.ledger(7)
    assert await cluster.ledger(8)
    store.answers = False
    assert await cluster.ledger(8)
    with pytest.raises(MetadataUnavailableError):
        await cluster.ledger(7)


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b'{"partitions": "many"}', b"\xff"])
def test_a_damaged_count_of_partitions_is_the_named_error(store, value):
    store.values[TOPIC.partitions_path] = value
    with pytest.raises(MetadataError, match="is damaged: it has no number of partitions"):
        asyncio.run(ClusterMetadata(store).partitions(TOPIC))


async def test_names_come_as_people_write_them(store):
    store.values |= {
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
