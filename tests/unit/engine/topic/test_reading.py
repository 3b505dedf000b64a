"""TopicReader and position_at with all readable entries in the cache; test_log.py has the stage."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.metadata.cluster import ledger_path
from readonly_engine.topic import reading
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.topic.position import Position
from readonly_engine.topic.reading import TopicReader, position_at
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.message_pb2 import BrokerEntryMetadata, MessageMetadata

from tests.unit.engine.topic.test_log import TOPIC, played_log, settle, topic_node


@pytest.fixture
def stage():
    return played_log()


def test_the_time_of_an_entry_costs_nothing_for_its_body():
    """Latency and the age of backlogs need it; the checksum over 5 MiB takes milliseconds of the event loop."""
    head = MessageMetadata(producer_name="p", sequence_id=1, publish_time=50).SerializeToString()
    payload = b"\x0e\x01" + bytes(4) + len(head).to_bytes(4, "big") + head + b"x" * 1000  # not its checksum
    index = BrokerEntryMetadata(index=7).SerializeToString()
    for prefix in (b"", b"\x0e\x02" + len(index).to_bytes(4, "big") + index):
        assert TopicEntry(Entry(1, 0, -1, 0, prefix + payload)).timestamp == 50
    damaged = b"\x0e\x02" + (3).to_bytes(4, "big") + b"\xff" * 3
    assert TopicEntry(Entry(1, 0, -1, 0, damaged + payload)).timestamp == 0
    assert TopicEntry(Entry(1, 0, -1, 0, b"\x0e\x02\xff\xff\xff\xff" + payload)).timestamp == 0


async def take(reader, **options):
    return [entry.position async for entry in reader.entries(**options)]


def published(ledger_id, entry_id, when, by_owner=0):
    head = MessageMetadata(publish_time=when).SerializeToString()
    payload = len(head).to_bytes(4, "big") + head
    if by_owner:
        front = BrokerEntryMetadata(broker_timestamp=by_owner).SerializeToString()
        payload = b"\x0e\x02" + len(front).to_bytes(4, "big") + front + payload
    return TopicEntry(Entry(ledger_id, entry_id, entry_id - 1, 0, payload))


async def test_following_goes_on_until_the_topic_is_terminated(stage):
    stage.topic(3)
    stage.ledger(3)
    stage.keep(3, 0, 1, 2)
    stage.keep(8, 0)
    task = asyncio.create_task(take(TopicReader(stage.log), follow=True))
    for lac in (0, 1):
        stage.log.confirm(Position(3, lac))
        await settle()
    stage.ledger(3, last_entry_id=2)
    await settle()
    stage.topic((3, 3), 8)
    stage.ledger(8)
    stage.log.confirm(Position(8, 0))
    await settle()
    assert not task.done()
    made = topic_node((3, 3), (8, 1))
    stage.store.fire(TOPIC.managed_ledger_path, made + b"\x12\x04\x08\x08\x10\x00")  # terminated at 8:0
    assert await asyncio.wait_for(task, 60) == [(3, 0), (3, 1), (3, 2), (8, 0)]


async def test_a_reader_whose_next_entry_is_trimmed_goes_on_and_counts(caplog, stage):
    stage.topic((3, 2), (5, 3), (6, 2))
    stage.keep(3, 0, 1)
    stage.keep(6, 0, 1)
    reader = TopicReader(stage.log)
    entries = reader.entries()
    assert (await anext(entries)).position == (3, 0)
    assert (await anext(entries)).position == (3, 1)
    stage.topic((6, 2))
    assert [entry.position async for entry in entries] == [(6, 0), (6, 1)]
    assert (reader.jumps, reader.lost) == (1, 3)
    assert caplog.text.count("lost=3 first=3:2 next=6:0") == 1


async def test_a_topic_that_is_deleted_and_made_again_goes_on_with_its_new_entries(stage):
    stage.topic((3, 2), 8)
    stage.keep(3, 0, 1)
    stage.keep(20, 0)
    reader = TopicReader(stage.log)
    task = asyncio.create_task(take(reader, follow=True))
    await settle()
    stage.store.fire(TOPIC.managed_ledger_path, None)
    await settle()
    assert not task.done()
    stage.topic(20)
    stage.ledger(20)
    stage.log.confirm(Position(20, 0))
    await settle()
    assert reader.position == (20, 1)
    task.cancel()


async def test_an_entry_that_cannot_be_read_is_an_error_after_a_while(monkeypatch, stage):
    monkeypatch.setattr(reading, "GIVE_UP_S", 0.05)
    monkeypatch.setattr(reading, "RETRY_S", (0.01, 0.01))
    stage.store.values[ledger_path("/ledgers", 3)] = None
    stage.topic((3, 2))
    with pytest.raises(BookKeeperError, match="ledger 3 was deleted"):
        await take(TopicReader(stage.log))


async def test_nobody_is_called_once_a_reader_has_ended(stage):
    stage.topic((3, 1))
    stage.keep(3, 0)
    listeners = stage.log._notifier.listeners
    await take(TopicReader(stage.log))
    assert stage.log._notifier.listeners == listeners


@given(st.lists(st.lists(st.integers(1, 30), max_size=5), max_size=4), st.integers(0, 32))
def test_the_position_of_a_time_is_behind_the_newest_entry_before_it(ledgers, when):
    times = sorted(time for ledger in ledgers for time in ledger)

    async def scene():
        async with played_log() as stage:
            stage.topic(*[(3 + n, len(ledger)) for n, ledger in enumerate(ledgers)], 90)
            rest = iter(times)
            places = []
            for n, ledger in enumerate(ledgers):
                for entry_id in range(len(ledger)):
                    time = next(rest)
                    stage.cache.put(
                        published(3 + n, entry_id, 777 if entry_id % 2 else time, time if entry_id % 2 else 0)
                    )
                    places.append((Position(3 + n, entry_id), time))
            expected = next((place for place, time in places if time >= when), None)
            found = await position_at(stage.log, when)
            if expected is None:
                assert not stage.log.chain.readable(found)
                assert found == stage.log.chain.at_or_after(found)
            else:
                assert found == expected

    asyncio.run(scene())


def test_an_entry_that_is_no_message_is_older_than_all_times():
    assert TopicEntry(Entry(1, 0, -1, 0, b"\xff" * 9)).timestamp == 0
    assert published(1, 0, 50).timestamp == 50
    assert published(1, 0, 50, by_owner=60).timestamp == 60
    assert published(1, 0, 50, by_owner=60).size == len(published(1, 0, 50, by_owner=60).stored)
