"""Where a record of Oxia is: its key, its shard, and the servers that are known when one of them is silent."""

import pytest
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.metadata.oxia.keys import children_range, own_parents, parent_of, partition_key, routing_key
from readonly_engine.metadata.oxia.router import MAX_SERVERS, Router
from readonly_engine.metadata.oxia.shards import MAX_SHARDS, Shard, ShardMap, key_hash
from readonly_engine.wire.oxia_pb2 import ShardAssignments, ShardKeyRouter


def answer(**leaders: list[str]) -> ShardAssignments:
    """Leaders of the shards of each namespace."""
    found = ShardAssignments()
    for namespace, addresses in leaders.items():
        for number, leader in enumerate(addresses):
            found.namespaces[namespace].assignments.add(shard=number, leader=leader)
    return found


def router() -> Router:
    return Router("first:1", "broker", None)  # type: ignore[arg-type]  # nothing is sent


def test_leaders_of_other_namespaces_are_known_too():
    known = router()
    known._remember(answer(broker=["a:1", "a:1"], bookkeeper=["b:1", ""]))
    assert known._servers == ["a:1", "b:1"]
    known._remember(answer(broker=["c:1"]))
    assert known._servers == ["c:1", "a:1", "b:1"], "those that led before stay"


def test_a_server_that_names_many_others_fills_no_memory():
    known = router()
    known._remember(answer(broker=["old:1"]))
    known._remember(answer(broker=[f"s{number:03}:1" for number in range(MAX_SERVERS)]))
    assert len(known._servers) == MAX_SERVERS
    assert "old:1" not in known._servers


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/pulsar-readonly", "/pulsar-readonly"),
        ("/pulsar-readonly/pools/p", "/pulsar-readonly"),
        ("/pulsar-readonly-2/x", None),
        ("/managed-ledgers/t/n/persistent/x", None),
    ],
)
def test_own_records_have_one_partition_key(path, key):
    assert partition_key(path) == key
    assert routing_key(path) == (key or path)


def test_the_range_of_children_is_that_of_pulsar():
    assert children_range("/a/b") == ("/a/b/", "/a/b//")
    assert children_range("/") == ("/", "//")


def test_parents():
    assert parent_of("/a/b") == "/a"
    assert parent_of("/a") == ""
    assert own_parents("/pulsar-readonly/pools/p/identity") == [
        "/pulsar-readonly",
        "/pulsar-readonly/pools",
        "/pulsar-readonly/pools/p",
    ]


MIDDLE = 1 << 31


def assigned(count: int = 2, router: int = ShardKeyRouter.XXHASH3) -> ShardAssignments:
    found = ShardAssignments()
    namespace = found.namespaces["ns"]
    namespace.shard_key_router = router
    size = (1 << 32) // max(1, count)
    for number in range(count):
        shard = namespace.assignments.add(shard=number, leader=f"host-{number}:6648")
        shard.int32_hash_range.min_hash, shard.int32_hash_range.max_hash = number * size, (number + 1) * size - 1
    return found


@pytest.mark.parametrize(("key", "expected"), [("foo", 125730186), ("bar", 2687685474), ("baz", 862947621)])
def test_the_hash_is_that_of_the_servers(key, expected):
    """The values of Oxia's own test (hash.Xxh332)."""
    assert key_hash(key) == expected


def test_a_key_is_in_the_shard_of_its_hash():
    shards = ShardMap.decode(assigned(), "ns")
    assert shards.of("foo") == Shard(0, "host-0:6648", 0, MIDDLE - 1)
    assert shards.of("bar") == Shard(1, "host-1:6648", MIDDLE, (1 << 32) - 1)


def test_a_key_without_a_shard():
    assert ShardMap({}).of("foo") is None


@pytest.mark.parametrize(
    ("found", "namespace", "why"),
    [
        (assigned(), "other", "Oxia has no namespace 'other'"),
        (assigned(router=ShardKeyRouter.UNKNOWN), "ns", "another hash than XXHASH3"),
        (assigned(0), "ns", "has 0 shards, expected 1 to 4096"),
        (assigned(MAX_SHARDS + 1), "ns", "has 4097 shards, expected 1 to 4096"),
    ],
)
def test_assignments_that_cannot_be_used_are_refused(found, namespace, why):
    with pytest.raises(MetadataError, match=why):
        ShardMap.decode(found, namespace)


def test_as_many_shards_as_allowed():
    assert len(ShardMap.decode(assigned(MAX_SHARDS), "ns").shards) == MAX_SHARDS
