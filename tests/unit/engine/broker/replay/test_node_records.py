"""The cursors of a replay as nodes of the metadata store: for the next broker, and by one broker at a time."""

import pytest
from readonly_engine.broker.cursors.store import CursorStore, CursorStoreError
from readonly_engine.broker.replay.node_records import MAX_NODE_BYTES, NodeRecords
from readonly_engine.topic.position import Position
from readonly_engine.wire.errors import MalformedFrameError

from tests.support.memory_store import MemoryStore
from tests.support.waiting import until

FOLDER = "/pulsar-readonly/pools/p/replays/w/cursors/part"
TOPIC = "persistent://a/b/orders"


async def opened(store, lost):
    made = CursorStore(NodeRecords(store, FOLDER), lost.append, 0.001)
    await made.open()
    return made


async def test_cursors_are_there_for_the_next_broker():
    nodes, lost = MemoryStore(), []
    first = await opened(nodes, lost)
    cursors = first.of(TOPIC)
    for name in ("one", "two"):
        cursors.create(name, Position(7, -1))
    await first.wait_stored(first.changed(cursors))
    cursors.expire(cursors.find("one"), Position(7, 41))
    cursors.delete(cursors.find("two"))
    await first.wait_stored(first.changed(cursors))
    await first.close()
    later = await opened(nodes, lost)
    assert [(one.name, one.mark_delete) for one in later.of(TOPIC)] == [("one", (7, 41))]
    await later.close()
    assert lost == []


async def test_a_broker_whose_nodes_another_one_has_written_stores_nothing_more():
    nodes, lost = MemoryStore(), []
    frozen = await opened(nodes, lost)
    cursors = frozen.of(TOPIC)
    cursors.create("s", Position(7, -1))
    await frozen.wait_stored(frozen.changed(cursors))
    later = await opened(nodes, [])
    taken = later.of(TOPIC)
    taken.expire(taken.find("s"), Position(7, 5))
    await later.wait_stored(later.changed(taken))
    stored = dict(nodes.nodes)
    cursors.expire(cursors.find("s"), Position(7, 3))
    with pytest.raises(CursorStoreError, match="another broker has written"):
        await frozen.wait_stored(frozen.changed(cursors))
    assert nodes.nodes == stored
    assert len(lost) == 1
    await later.close()


async def test_a_record_that_a_node_cannot_hold_is_left_out(caplog):
    nodes = MemoryStore()
    records = NodeRecords(nodes, FOLDER)
    await records.open()
    await records.write([("a|0|0|0|t", b"x" * MAX_NODE_BYTES), ("a|0|0|1|t", b"x" * (MAX_NODE_BYTES + 1))])
    assert [len(node.value) for node in nodes.nodes.values()] == [MAX_NODE_BYTES]
    assert "a record of cursors is too large" in caplog.text


async def test_a_silent_store_and_a_foreign_node_are_errors():
    nodes, lost = MemoryStore(), []
    store = await opened(nodes, lost)
    nodes.silent = True
    cursors = store.of(TOPIC)
    cursors.create("s", Position(7, -1))
    store.changed(cursors)
    await until(lambda: lost)
    assert "the store does not answer" in lost[0]
    with pytest.raises(CursorStoreError, match="cannot be read: the store does not answer"):
        await NodeRecords(nodes, FOLDER).open()
    nodes.silent = False
    nodes.write(f"{FOLDER}/other", b"x")
    with pytest.raises(MalformedFrameError):
        await NodeRecords(nodes, FOLDER).open()
