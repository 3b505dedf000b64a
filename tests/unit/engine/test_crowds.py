"""Ten thousand consumers wait for the same read, connection or offloaded ledger, and their client disconnects."""

import asyncio
import os

import pytest
from readonly_engine.bookkeeper.pool import BookiePool, _Connections
from readonly_engine.metadata.cluster import ClusterMetadata
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.tiered.storage import TieredStorage
from readonly_engine.tiered.windows import WindowCache
from readonly_engine.topic.cache import EntryCache
from readonly_engine.topic.log import TopicLog
from readonly_engine.topic.position import Position
from readonly_engine.topic.shared_reads import PendingRead
from readonly_engine.wire.managed_ledger_pb2 import OffloadContext

CROWD = 10_000
CALLBACKS = 4
"""A cancelled waiter searches the callbacks of the awaited task: their number bounds its steps, however many wait."""

TOPIC = parse_topic_name("orders")


class Held:
    """Work that ends when the test says so; it knows its task."""

    def __init__(self):
        self.gate = asyncio.Event()
        self.task = None

    async def work(self, *_):
        self.task = asyncio.current_task()
        await self.gate.wait()
        return [b"x"]


class NoEvents:
    """A metadata store in which nothing happens."""

    def watch(self, *_):
        return None


def a_read_of_a_topic(held):
    log = TopicLog(TOPIC, ClusterMetadata(NoEvents()), BookiePool(None), EntryCache(1 << 20), None)
    log._shared_reads().pending[PendingRead(1, 0, 9, asyncio.create_task(held.work()))] = None
    return lambda: log.read(Position(1, 0), 10)


def a_connection_to_a_bookie(held):
    connections = _Connections(held.work)
    return lambda: connections.get("bookie")


def an_offloaded_ledger(held):
    storage = TieredStorage(environment=os.environ)
    storage._open = held.work
    return lambda: storage.open("t/n/persistent/a", 1, OffloadContext())


def a_window_of_an_object(held):
    windows = WindowCache(100, 1000)
    windows._read = held.work
    return lambda: windows.get(None, "k", 0)


@pytest.mark.parametrize(
    "scene", [a_read_of_a_topic, a_connection_to_a_bookie, an_offloaded_ledger, a_window_of_an_object]
)
async def test_each_of_a_crowd_gives_up_in_a_bounded_number_of_steps(scene):
    held = Held()
    ask = scene(held)
    crowd = [asyncio.create_task(ask()) for _ in range(CROWD)]
    last = asyncio.create_task(ask())
    for _ in range(10):
        await asyncio.sleep(0)
    assert held.task is not None
    assert len(held.task._callbacks) <= CALLBACKS
    for task in crowd:
        task.cancel()
    await asyncio.wait(crowd)
    assert all(task.cancelled() for task in crowd)
    assert not held.task.done()
    held.gate.set()
    assert await last == [b"x"]
