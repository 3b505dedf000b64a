"""Local cursors in a compacted topic of a real Pulsar: stored, read again, compacted, and written by one broker at a time."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from contextlib import closing

import pulsar as pulsar_lib
import pulsar.asyncio as pulsar_asyncio
import pytest
from readonly_engine.broker.cursors import topic_records
from readonly_engine.broker.cursors.store import CursorStore, CursorStoreError
from readonly_engine.broker.cursors.topic_records import TopicRecords
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.admin import AdminClient
from readonly_engine.owner.cursor_admin import CursorAdmin
from readonly_engine.topic.position import Position, PositionRanges

from devstack.pulsar.admin import AdminError, PulsarAdmin
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.status import Endpoints
from tests.support.pulsar.fleet import quiet_client
from tests.support.waiting import wait_until

TOPIC = "persistent://public/default/read"


class Served:
    """A cursor with consumers."""

    def __init__(self, mark_delete: Position) -> None:
        self.mark_delete = mark_delete
        self.batches: list[tuple[Position, int]] = []
        self.ranges = PositionRanges()

    @property
    def has_acked_ranges(self) -> bool:
        return bool(self.ranges)

    @property
    def has_batches(self) -> bool:
        return bool(self.batches)

    @property
    def acked_after_mark_delete(self) -> tuple[tuple[Position, Position], ...]:
        return tuple(self.ranges)


@pytest.fixture
def records(admin: PulsarAdmin) -> str:
    name = f"persistent://public/default/cursors-{uuid.uuid4().hex[:8]}"
    admin.create_topic(name)
    return name


@contextlib.asynccontextmanager
async def opened(pulsar: Endpoints, records: str) -> AsyncIterator[tuple[CursorStore, list[str]]]:
    client = pulsar_asyncio.Client(pulsar.writer_url, logger=pulsar_lib.ConsoleLogger(pulsar_lib.LoggerLevel.Error))
    lost: list[str] = []
    admin = AdminClient(pulsar.admin_url)
    store = CursorStore(TopicRecords(client, parse_topic_name(records), CursorAdmin(admin)), lost.append)
    try:
        await store.open()
        yield store, lost
    finally:
        await store.close()
        await client.close()
        await admin.close()


async def compacted(admin: PulsarAdmin, records: str) -> None:
    """Compact a topic, and wait until batches of its messages are in the compacted ledger without the replaced ones."""
    last = admin.last_message_id(records)

    def done() -> bool:
        with contextlib.suppress(AdminError):  # one is under way
            admin.compact(records)
        horizon = admin.internal_stats(records)["cursors"]["__compaction"]["markDeletePosition"]
        return tuple(map(int, horizon.split(":"))) >= (last.ledger, last.entry)

    await asyncio.to_thread(wait_until, done, 60)


def states(store: CursorStore) -> dict[str, tuple[Position, int]]:
    return {one.name: (one.mark_delete, len(one.ranges)) for one in store.of(TOPIC)}


async def test_cursors_are_there_for_the_next_broker(
    pulsar: Endpoints, pulsar_stack: PulsarCluster, records: str
) -> None:
    async with opened(pulsar, records) as (store, lost):
        cursors = store.of(TOPIC)
        first = [cursors.create(f"s{number}", Position(1, number)) for number in range(1_000)]
        await store.wait_stored(store.changed(cursors))
        for cursor in first[:500]:
            cursor.served = served = Served(Position(2, 7))
            served.ranges.add(Position(2, 9))
            cursors.acked(cursor)
        cursors.delete(first[-1])
        await store.wait_stored(store.changed(cursors))
        cursors.reset(first[0], Position(1, 1))
        store.changed(cursors)  # stored by `close`
    assert lost == []
    expected = {
        f"s{number}": (Position(2, 7), 1) if number < 500 else (Position(1, number), 0) for number in range(999)
    }
    expected["s0"] = (Position(1, 1), 0)
    async with opened(pulsar, records) as (store, _):
        assert states(store) == expected
    await asyncio.to_thread(pulsar_stack.admin().unload, records)
    await compacted(pulsar_stack.admin(), records)
    async with opened(pulsar, records) as (store, _):
        assert states(store) == expected


async def test_a_broker_that_was_replaced_stores_nothing_more(
    pulsar: Endpoints, pulsar_stack: PulsarCluster, records: str
) -> None:
    async with opened(pulsar, records) as (old, lost):
        old.of(TOPIC).create("s", Position(1, 1))
        await old.wait_stored(old.changed(old.of(TOPIC)))
        async with opened(pulsar, records) as (new, _):
            cursors = old.of(TOPIC)
            cursors.reset(cursors.find("s"), Position(9, 9))
            with pytest.raises(CursorStoreError, match="cannot be stored here any more"):
                await asyncio.wait_for(old.wait_stored(old.changed(cursors)), 30)
            assert len(lost) == 1
            assert "ProducerFenced" in lost[0]
            assert states(new) == {"s": (Position(1, 1), 0)}
    async with opened(pulsar, records) as (store, _):
        assert states(store) == {"s": (Position(1, 1), 0)}


async def test_more_records_than_the_bound_are_refused(
    pulsar: Endpoints, records: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(pulsar, records) as (store, _):
        cursors = store.of(TOPIC)
        cursors.create("s", Position(1, 1))
        await store.wait_stored(store.changed(cursors))
        size = len(store.of(TOPIC)._definitions(0))
    monkeypatch.setattr(topic_records, "MAX_KEPT_BYTES", size)
    async with opened(pulsar, records) as (store, _):
        assert states(store) == {"s": (Position(1, 1), 0)}
    monkeypatch.setattr(topic_records, "MAX_KEPT_BYTES", size - 1)
    with pytest.raises(CursorStoreError, match=f"more than {size - 1} bytes"):
        async with opened(pulsar, records):
            pass


def test_messages_of_somebody_else_are_refused_and_stay(
    pulsar: Endpoints, pulsar_stack: PulsarCluster, records: str
) -> None:
    with closing(quiet_client(pulsar.writer_url)) as client:
        producer = client.create_producer(records)
        producer.send(b"mine")
        kept = client.create_reader(records, pulsar_lib.MessageId.earliest)

        async def run() -> None:
            with pytest.raises(
                CursorStoreError, match=f"{records} cannot be read: a record of cursors has the unknown key"
            ):
                async with opened(pulsar, records):
                    pass

        asyncio.run(run())
        producer.send(b"mine, too")
        assert [kept.read_next(30_000).data() for _ in range(2)] == [b"mine", b"mine, too"]
        assert "__compaction" not in pulsar_stack.admin().internal_stats(records)["cursors"]
