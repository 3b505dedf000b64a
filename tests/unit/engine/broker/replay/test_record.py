"""The record of a replay: its encoding, its change by several brokers, and its followers."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.replay.record import (
    ReplayRecord,
    ReplayRecordError,
    decode_record,
    encode_record,
    record_path,
    replay_folder,
    window_name,
)
from readonly_engine.broker.replay.shared_record import ATTEMPTS, FollowedRecord, change_record
from readonly_engine.metadata.errors import MetadataUnavailableError
from readonly_engine.topic.replay.clock import UNLIMITED, ReplayClock

from tests.support.memory_store import MemoryStore

BEGIN = 1_795_269_600_000
FOLDER = replay_folder("/pulsar-readonly/pools/p", BEGIN, None)
CLOCK = ReplayClock.started(BEGIN, None, 1.0, BEGIN + 5e9)


@given(
    st.builds(
        ReplayClock,
        st.integers(0, 2**45),
        st.none() | st.integers(0, 2**45),
        st.floats(0.01, 1000) | st.just(UNLIMITED),
        st.floats(0, 2**45),
        st.floats(0, 2**45),
        st.booleans(),
        st.booleans(),
        st.integers(0, 2**31),
        st.floats(0, 2**45),
    ),
    st.integers(1, 1024),
)
def test_a_record_is_what_was_stored(clock, partitions):
    record = ReplayRecord(clock, partitions)
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize(
    "change",
    [
        {"speed": 0},
        {"speed": "fast"},
        {"speed": -1},
        {"partitions": 0},
        {"atMs": float("nan")},
        {"roundMs": float("inf")},
        {"sinceMs": None},
        {"endMs": "x"},
    ],
)
def test_a_damaged_record_is_refused(change):
    fields = json.loads(encode_record(ReplayRecord(CLOCK, 16)))
    with pytest.raises(ReplayRecordError, match="is damaged"):
        decode_record(json.dumps(fields | change).encode())


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b"\xff", b"5"])
def test_another_node_is_no_record(value):
    with pytest.raises(ReplayRecordError, match="is damaged"):
        decode_record(value)


def test_a_window_has_a_name_and_a_folder_of_its_own():
    assert window_name(BEGIN, BEGIN + 3_600_500) == "2026-11-21T14:00:00.000Z_2026-11-21T15:00:00.500Z"
    assert FOLDER == "/pulsar-readonly/pools/p/replays/2026-11-21T14%3A00%3A00.000Z"


async def test_the_first_broker_makes_the_clock_and_later_ones_go_on_with_it():
    store = MemoryStore()
    first = await FollowedRecord.join(store, FOLDER, CLOCK, 16)
    later = await FollowedRecord.join(store, FOLDER, ReplayClock.started(BEGIN, None, 9.0, BEGIN + 6e9), 32)
    assert (later.shared.clock, later.partitions) == (first.shared.clock, first.partitions) == (CLOCK, 16)
    heard = []
    later.shared.listen(lambda: heard.append(later.shared.clock))
    now = BEGIN + 5e9 + 500
    await change_record(store, FOLDER, lambda found: found._replace(clock=found.clock.pause(now)))
    assert first.shared.clock == later.shared.clock == CLOCK.pause(now)
    assert heard == [CLOCK.pause(now)]
    first.close()
    await change_record(store, FOLDER, lambda found: found._replace(clock=found.clock.resume(now + 1)))
    assert (first.shared.clock.paused, later.shared.clock.paused) == (True, False)


async def test_a_damaged_or_deleted_record_leaves_the_clock_as_it_was(caplog):
    store = MemoryStore()
    record = await FollowedRecord.join(store, FOLDER, CLOCK, 16)
    store.write(record_path(FOLDER), b"{}")
    store.write(record_path(FOLDER), None)
    assert record.shared.clock == CLOCK
    assert "cannot follow the clock of the replay" in caplog.text
    store.write(record_path(FOLDER), b"{}")
    with pytest.raises(ReplayRecordError):
        await FollowedRecord.join(store, FOLDER, CLOCK, 16)


async def test_changes_of_others_meanwhile_are_kept_and_the_attempts_are_bounded():
    store, others, writes = MemoryStore(), [1, 2], []
    await FollowedRecord.join(store, FOLDER, CLOCK, 16)

    def written_by_another():
        writes.append(None)
        if others:
            store.write(
                record_path(FOLDER), encode_record(ReplayRecord(CLOCK.with_speed(others.pop(), BEGIN + 5e9), 16))
            )

    store.before_write = written_by_another
    made = await change_record(store, FOLDER, lambda found: found._replace(partitions=found.partitions + 1))
    assert (made.clock.speed, made.partitions, len(writes)) == (1, 17, 3)
    others[:] = range(1, 100)
    with pytest.raises(MetadataUnavailableError, match="was changed by others 10 times meanwhile"):
        await change_record(store, FOLDER, lambda found: found._replace(partitions=found.partitions + 1))
    assert len(writes) == 3 + ATTEMPTS
