"""One topic as one log on a real cluster: in order through rolls and losses of ZooKeeper, each entry read once."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager

import pulsar as pulsar_lib
import pytest
from readonly_engine.bookkeeper.pool import BookiePool
from readonly_engine.metadata.cluster import ClusterMetadata
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.topic.cache import EntryCache
from readonly_engine.topic.log import TopicLog
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.topic.reading import TopicReader, position_at
from readonly_engine.wire.batch import decode_stored_entry, unpack

from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.counters import entries_read
from devstack.pulsar.spec import DEFAULT_METADATA, OXIA
from devstack.pulsar.status import Endpoints
from tests.support.pulsar.metadata import opened_store

DEADLINE_S = 60


async def nobody() -> None:
    """Explicit LAC is on here: no owner is ever needed."""


@asynccontextmanager
async def log_of(pulsar: Endpoints, topic: str) -> AsyncIterator[TopicLog]:
    async with opened_store(pulsar.metadata_store) as store:
        cluster = ClusterMetadata(store)
        with (
            closing(BookiePool(cluster.bookie_address)) as pool,
            closing(TopicLog(parse_topic_name(topic), cluster, pool, EntryCache(256 << 20), nobody)) as log,
        ):
            await log.opened()
            await log.refresh()
            yield log
        await pool.wait_closed()


def publish(client: pulsar_lib.Client, topic: str, numbers: range) -> list[pulsar_lib.MessageId]:
    producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
    ids: list[pulsar_lib.MessageId] = []
    for number in numbers:
        producer.send_async(b"%d" % number, lambda _, message_id: ids.append(message_id))
        if number % 50 == 49:
            producer.flush()  # a full ledger is rolled when the next entry comes, not amid what is on its way
    producer.flush()
    producer.close()
    return ids


def number(entry) -> int:
    return int(unpack(decode_stored_entry(entry.stored))[0].value)


class LogFollower:
    """Reads on and on in a task of its own, and notes what it got."""

    def __init__(self, log: TopicLog, position: Position = EARLIEST) -> None:
        self.reader = TopicReader(log, position)
        self.numbers: list[int] = []
        self.positions: list[Position] = []
        self.times: list[float] = []
        self.task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        async for entry in self.reader.entries(follow=True):
            self.numbers.append(number(entry))
            self.positions.append(entry.position)
            self.times.append(time.monotonic())

    async def until(self, last: int) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not self.numbers or self.numbers[-1] < last:
                assert not self.task.done(), self.task
                await asyncio.sleep(0.02)

    async def until_count(self, count: int) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while len(self.numbers) < count:
                assert not self.task.done(), self.task
                await asyncio.sleep(0.02)

    async def ended(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            await self.task


async def test_first_last_next_previous_and_distance(pulsar, pulsar_client, topic: str) -> None:
    ids = [Position(one.ledger_id(), one.entry_id()) for one in publish(pulsar_client, topic, range(250))]
    async with log_of(pulsar, topic) as log:
        follower = LogFollower(log)
        await follower.until(249)
        chain = log.chain
        assert follower.positions == ids
        assert (log.first, log.limit) == (ids[0], ids[-1])
        assert [chain.after(one) for one in ids[:-1]] == ids[1:]
        assert [chain.before(one) for one in ids[1:]] == ids[:-1]
        assert chain.distance(ids[0], ids[-1]) == 249
        assert chain.distance(ids[150], ids[20]) == -130
        assert [one.position async for one in TopicReader(log, ids[120]).entries()] == ids[120:]
        follower.task.cancel()


async def test_the_position_of_a_time_is_the_owners(pulsar, pulsar_client, admin: PulsarAdmin, topic: str) -> None:
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    for value in range(230):
        producer.send(b"%d" % value)
    async with log_of(pulsar, topic) as log:
        follower = LogFollower(log)
        await follower.until(229)
        follower.task.cancel()
        times = [entry.timestamp async for entry in TopicReader(log).entries()]
        for when in (1, times[0], times[1] + 1, times[99], times[100], times[150] + 1, times[-1], times[-1] + 1):
            found = await position_at(log, when)
            consumer = await asyncio.to_thread(pulsar_client.create_reader, topic, pulsar_lib.MessageId.earliest)
            await asyncio.to_thread(consumer.seek, when)
            if log.chain.readable(found):
                first = (await asyncio.to_thread(consumer.read_next, 10_000)).message_id()
                assert found == (first.ledger_id(), first.entry_id()), when
            else:
                assert not await asyncio.to_thread(consumer.has_message_available)
            consumer.close()


@contextmanager
def frozen(stack: PulsarCluster, name: str) -> Iterator[None]:
    pid = next(server.pid for server in stack.status().servers if server.name == name)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.nightly
async def test_reads_go_on_while_zookeeper_is_away_and_a_roll_is_seen_afterwards(
    pulsar, pulsar_client, breakable_pulsar: PulsarCluster, topic: str
) -> None:
    publish(pulsar_client, topic, range(150))
    producer = pulsar_client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
    async with log_of(pulsar, topic) as log:
        follower = LogFollower(log)
        await follower.until(149)
        sent = 150
        with frozen(breakable_pulsar, breakable_pulsar.metadata_server):
            end = time.monotonic() + 14  # longer than our session lasts
            while time.monotonic() < end:
                if sent < 190:
                    await asyncio.to_thread(publish_fast, producer, range(sent, sent + 10))
                    sent += 10
                    await follower.until(sent - 1)
                again = [number(entry) async for entry in TopicReader(log, Position(log.first.ledger_id, 50)).entries()]
                assert again == list(range(50, sent))
                await asyncio.sleep(0.2)
            if DEFAULT_METADATA != OXIA:
                # The ledger is full now. The owner writes on in it, and rolls it when ZooKeeper is back. On Oxia it does
                # neither: it refuses messages until it has an id for the next ledger.
                await asyncio.to_thread(publish_fast, producer, range(sent, sent + 40))
                sent += 40
                await follower.until(sent - 1)
        ledger_id = follower.positions[-1].ledger_id
        deadline = time.monotonic() + DEADLINE_S
        while follower.positions[-1].ledger_id == ledger_id:
            assert time.monotonic() < deadline, "the owner has not rolled, or we have not seen it"
            await asyncio.to_thread(publish_fast, producer, range(sent, sent + 1))
            sent += 1
            await follower.until(sent - 1)
        assert follower.numbers == list(range(sent))
        follower.task.cancel()


def publish_fast(producer: pulsar_lib.Producer, numbers: range) -> None:
    for value in numbers:
        producer.send_async(b"%d" % value, lambda *_: None)
        if value % 10 == 9:
            producer.flush()
    producer.flush()


@pytest.mark.parametrize("readers", [1, pytest.param(200, marks=pytest.mark.nightly)])
async def test_an_entry_is_read_from_a_bookie_once_however_many_read_it(
    pulsar, pulsar_client, topic: str, readers: int, record_testsuite_property
) -> None:
    count = 1000
    last = publish(pulsar_client, topic, range(count))[-1]

    async def read_all(log: TopicLog) -> list[int]:
        return [number(entry) async for entry in TopicReader(log).entries()]

    async with log_of(pulsar, topic) as log:
        log.confirm(Position(last.ledger_id(), last.entry_id()))  # the owner tells the bookies of it a moment later
        before = entries_read(pulsar)
        results = await asyncio.gather(*(read_all(log) for _ in range(readers)))
        per_entry = (await asyncio.to_thread(entries_read, pulsar) - before) / count
        assert results == [list(range(count))] * readers
        record_testsuite_property(f"bookie reads per entry, {readers} readers", f"{per_entry:.3f}")
        # A bookie that answers late has a second one asked for the same entries.
        assert 0.99 <= per_entry <= 1.2


def publish_at(client: pulsar_lib.Client, topic: str, count: int, per_second: float) -> list[float]:
    """One message after the other, at a steady pace; returns when each was confirmed to the producer.

    Where an owner pauses, the pace waits: else the producer drops messages when its queue is full.
    """
    producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
    receipts: list[float] = []
    begin = time.monotonic()
    for value in range(count):
        time.sleep(max(begin + value / per_second - time.monotonic(), 0))
        producer.send_async(b"%d" % value, lambda *_: receipts.append(time.monotonic()))
    producer.flush()
    producer.close()
    return receipts


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("readers", "count", "per_second", "most"),
    # 200 readers in Python keep a busy machine from being told in time: entries come in clumps, and some are read twice.
    [(1, 2000, 500.0, 1.05), (200, 2000, 500.0, 1.2), (1, 8, 1.0, 1.5)],
    ids=["flow-1", "flow-200", "isolated"],
)
async def test_an_entry_at_the_tail_is_read_from_a_bookie_once(
    pulsar,
    pulsar_client,
    topic: str,
    readers: int,
    count: int,
    per_second: float,
    most: float,
    record_testsuite_property,
) -> None:
    publish(pulsar_client, topic, range(1))
    async with log_of(pulsar, topic) as log:
        followers = [LogFollower(log) for _ in range(readers)]
        await followers[0].until(0)
        per_entry: list[float] = []
        # The bookies' counters are those of the whole stack, where a broker may read too: the least of a few rounds counts.
        while len(per_entry) < 4 and min(per_entry, default=most + 1) > most:
            before = await asyncio.to_thread(entries_read, pulsar)
            await asyncio.to_thread(publish_at, pulsar_client, topic, count, per_second)
            for follower in followers:
                await follower.until_count(1 + count * (len(per_entry) + 1))
            per_entry.append((await asyncio.to_thread(entries_read, pulsar) - before) / count)
        for follower in followers:
            assert follower.numbers == [0, *(list(range(count)) * len(per_entry))]
            follower.task.cancel()
        record_testsuite_property(
            f"bookie reads per entry at the tail, {readers} readers, {per_second:g}/s", f"{min(per_entry):.3f}"
        )
        assert 0.99 <= min(per_entry) <= most, per_entry
