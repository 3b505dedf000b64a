"""What consumers leave of batches, as it stands in the metadata store."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.subscription import batch_index_acks as batch_memory
from readonly_engine.broker.subscription.batch_index_acks import (
    MAX_BYTES,
    NOT_MARKED,
    BatchIndexAckStore,
    LoadedBatches,
    StoredBatches,
    decode_batches,
    encode_batches,
)
from readonly_engine.metadata.store import Versioned
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.topic.position import Position

MARKED = LoadedBatches(valid=False, marked=True, batches=[])

POSITIONS = st.builds(Position, st.integers(0, 2**40), st.integers(0, 2**40))
BATCHES = st.dictionaries(POSITIONS, st.integers(1, 2**2000), max_size=30)


@given(st.text(max_size=40), st.floats(0, 2e9), BATCHES)
def test_a_broker_reads_what_another_has_written(version: str, at: float, batches: dict[Position, int]) -> None:
    left = StoredBatches(version, at, sorted(batches.items()))
    assert decode_batches(encode_batches(left)) == left


def test_the_first_batches_are_kept_where_not_all_have_room() -> None:
    batches = [(Position(7, entry), (1 << 1000) - 1) for entry in range(5000)]
    value = encode_batches(StoredBatches("1:2", 0.0, batches[::-1]))
    assert MAX_BYTES / 2 < len(value) < MAX_BYTES + 200
    left = decode_batches(value)
    assert left is not None
    assert left.batches == batches[: len(left.batches)]


SOUND = {"version": "1:2", "at": 1.5, "batches": [[1, 2, "f"]]}


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff",
        b"[]",
        b"7",
        *(json.dumps({**SOUND, **change}).encode() for change in ({"batches": [[1]]}, {"batches": 3}, {"at": None})),
        json.dumps({**SOUND, "batches": [[1, 2, "zz"]]}).encode(),
    ],
)
def test_what_is_not_understood_is_left_out(value: bytes) -> None:
    assert decode_batches(json.dumps(SOUND).encode()) is not None
    assert decode_batches(value) is None


class Store:
    """Nodes in memory; reading one takes as long as the test wants."""

    def __init__(self, nodes: dict[str, bytes]) -> None:
        self.nodes = nodes
        self.read = asyncio.Event()
        self.puts = 0
        self.removed = asyncio.Event()

    async def children(self, path: str) -> frozenset[str]:
        return frozenset(node.removeprefix(f"{path}/") for node in self.nodes)

    async def get(self, path: str) -> Versioned | None:
        await self.read.wait()
        value = self.nodes.get(path)
        return None if value is None else Versioned(value, 0)

    async def put(self, path: str, value: bytes) -> None:
        self.nodes[path] = value
        self.puts += 1

    async def remove(self, path: str) -> None:
        self.nodes.pop(path, None)
        self.removed.set()


class Owner:
    """Who stores nothing new: its admin API, and a consumer there."""

    subscribe_count = 1

    async def cursor_version(self, *_: object) -> str:
        return "1:2"

    async def wait_for_acks(self) -> None:
        pass

    async def state(self) -> None:
        pass


async def test_a_consumer_that_leaves_does_not_wait_until_outdated_ones_are_removed() -> None:
    old = encode_batches(StoredBatches("1:1", 0.0, []))
    store, owner = Store({"/pool/batches/old": old}), Owner()
    memory = BatchIndexAckStore(owner, store, "/pool")
    topic, batches = parse_topic_name("orders"), [(Position(1, 2), 3)]
    async with asyncio.timeout(2):
        await memory.save(topic, "s", batches, owner)
    assert len(store.nodes) == 2
    store.read.set()
    async with asyncio.timeout(10):
        await store.removed.wait()
    assert "/pool/batches/old" not in store.nodes
    assert await memory.load(topic, "s") == LoadedBatches(valid=True, marked=True, batches=batches)


async def test_a_consumer_does_not_wait_long_for_a_store_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_memory, "LOAD_TIMEOUT_S", 0.01)
    memory = BatchIndexAckStore(Owner(), Store({}), "/pool")
    async with asyncio.timeout(2):
        assert await memory.load(parse_topic_name("orders"), "s") == MARKED


async def test_nothing_is_written_once_another_broker_may_have_the_subscription() -> None:
    owner = Owner()
    topic, batches = parse_topic_name("orders"), [(Position(1, 2), 3)]
    for ours in (True, False):
        store = Store({})
        memory = BatchIndexAckStore(owner, store, "/pool")
        await memory.save(topic, "s", batches, owner, lambda ours=ours: ours)
        assert bool(store.nodes) == ours
        memory.close()


async def test_a_mark_stays_until_a_consumer_leaves_without_partly_acked_batches() -> None:
    owner, topic, store = Owner(), parse_topic_name("orders"), Store({})
    store.read.set()
    memory = BatchIndexAckStore(owner, store, "/pool")
    assert await memory.load(topic, "s") == NOT_MARKED
    for _ in range(3):
        memory.mark(topic, "s")
    async with asyncio.timeout(5):
        while not store.nodes:
            await asyncio.sleep(0)
    assert store.puts == 1
    assert await memory.load(topic, "s") == MARKED
    assert await memory.load(topic, "s") == MARKED, "the broker that has read it may die, too"
    await memory.save(topic, "s", [], owner)
    assert await memory.load(topic, "s") == NOT_MARKED
    memory.close()


async def test_batches_that_the_owner_may_have_dropped_are_a_mark() -> None:
    async def later(*_: object) -> str:
        return "1:3"

    topic, store = parse_topic_name("orders"), Store({})
    store.read.set()
    memory = BatchIndexAckStore(Owner(), store, "/pool")
    await memory.save(topic, "s", [(Position(1, 2), 3)], Owner())
    owner = Owner()
    owner.cursor_version = later  # type: ignore[method-assign]
    next_broker = BatchIndexAckStore(owner, store, "/pool")
    assert await next_broker.load(topic, "s") == MARKED
    memory.close()


async def test_marks_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_memory, "MAX_WAITING_MARKS", 3)
    store = Store({})
    memory = BatchIndexAckStore(Owner(), store, "/pool")
    for number in range(5):
        memory.mark(parse_topic_name("orders"), f"s{number}")
    async with asyncio.timeout(5):
        while len(store.nodes) < 3:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert store.puts == 3
    memory.close()
