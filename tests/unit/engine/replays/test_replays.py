"""The replays of a pool in the metadata store: found, changed by compare-and-set, and deleted."""

from __future__ import annotations

import sys

import pytest
from readonly_engine.broker.replay.record import ReplayRecord, encode_record, record_path, replay_folder
from readonly_engine.config.replay import SPEED, TIME
from readonly_engine.replays.command import changes, main, parser
from readonly_engine.replays.stored import delete, find, replays_of
from readonly_engine.tool.errors import ToolError
from readonly_engine.topic.replay.clock import ReplayClock

from tests.support.memory_store import MemoryStore

BEGIN = 1_795_269_600_000
POOL = "/pulsar-readonly/pools/p"
FIRST, SECOND = "2026-11-21T14:00:00.000Z", "2026-11-21T14:00:00.000Z_2026-11-21T15:00:00.000Z"


def store_with(*ends):
    made = MemoryStore()
    for end in ends:
        clock = ReplayClock.started(BEGIN, end, 1.0, BEGIN + 5e9)
        folder = replay_folder(POOL, BEGIN, end)
        made.write(record_path(folder), encode_record(ReplayRecord(clock, 16)))
        made.write(f"{folder}/cursors/part/d%7C0%7Ct", b"x")
    return made


async def test_the_only_replay_of_a_pool_needs_no_name():
    store = store_with(None)
    found = await find(store, "p", None)
    assert found.name == FIRST
    changed = await found.change(store, lambda clock: clock.pause(BEGIN + 5e9 + 100))
    assert changed.record.clock.paused
    assert (await find(store, "p", FIRST)).record == changed.record


async def test_of_several_replays_one_must_be_named():
    store = store_with(None, BEGIN + 3_600_000)
    assert [one.name for one in await replays_of(store, "p")] == [FIRST, SECOND]
    with pytest.raises(ToolError, match=f"has several replays; give --replay with one of {FIRST}, {SECOND}"):
        await find(store, "p", None)
    with pytest.raises(ToolError, match=f"has no replay x; there are {FIRST}, {SECOND}"):
        await find(store, "p", "x")
    assert (await find(store, "p", SECOND)).record.clock.end_ms == BEGIN + 3_600_000


async def test_a_replay_goes_with_all_its_cursors_but_not_under_live_brokers():
    store = store_with(None, BEGIN + 3_600_000)
    found = await find(store, "p", FIRST)
    store.write(f"{POOL}/brokers/pulsar%3A", b"")
    with pytest.raises(ToolError, match="has live brokers: end them first"):
        await delete(store, "p", found)
    store.write(f"{POOL}/brokers/pulsar%3A", None)
    await delete(store, "p", found)
    assert [one.name for one in await replays_of(store, "p")] == [SECOND]
    assert not [path for path in store.nodes if path.startswith(f"{found.folder}/")]
    with pytest.raises(ToolError, match="was deleted meanwhile"):
        await found.change(store, lambda clock: clock)


async def test_a_pool_without_replays_and_a_damaged_record_are_errors():
    with pytest.raises(ToolError, match="pool p has no replay in this metadata store"):
        await replays_of(MemoryStore(), "p")
    store = store_with(None)
    store.write(record_path(replay_folder(POOL, BEGIN, None)), b"{}")
    with pytest.raises(ToolError, match=f"{FIRST}: the record of a replay is damaged"):
        await replays_of(store, "p")


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["show"], 1, "--metadata-store-url is missing"),
        (["show", "--metadata-store-url", "zookeeper"], 1, "--metadata-store-url: "),
        (["speed", "0"], 2, "must be a number from 0.01 to 1000, or unlimited, not '0'"),
        (["jump"], 2, "invalid choice: 'jump'"),
        (["speed"], 2, "speed: must be a number from 0.01 to 1000, or unlimited, not None"),
        (["seek", "noon"], 2, "seek: must be a time of this millennium with its zone"),
        (["pause", "5"], 2, "pause takes no value"),
        (["show", "--config", "/nowhere"], 1, "--config: "),
    ],
)
def test_wrong_words_are_refused(capsys, monkeypatch, words, status, says):
    monkeypatch.delenv("PULSAR_READONLY_METADATA_STORE_URL", raising=False)
    with pytest.raises(SystemExit) as ended:
        sys.exit(main(words))
    assert ended.value.code == status
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "loop", "says"),
    [
        (["seek", "2026-11-21T13:59:59Z"], False, f"must be a time from {FIRST} to 2026-11-21T15:00:00.000Z, not 2026"),
        (
            ["seek", "2026-11-21T15:00:00.1Z"],
            False,
            f"must be a time from {FIRST} to 2026-11-21T15:00:00.000Z, not 2026",
        ),
        (["speed", "unlimited"], True, "the speed of a replay with a loop must be a number"),
        (["seek", "2026-11-21T15:00:00Z"], True, ""),
    ],
)
def test_a_jump_stays_within_the_replay_and_a_loop_has_a_pace(words, loop, says):
    options = parser().parse_args(words)
    options.value = {"seek": TIME, "speed": SPEED}[options.command].parse(options.value)
    clock = ReplayClock.started(BEGIN, BEGIN + 3_600_000, 1.0, BEGIN + 5e9, loop=loop)
    if says:
        with pytest.raises(ToolError, match=says):
            changes(options)(clock)
    else:
        sought = changes(options)(clock)
        assert (sought.at_ms, sought.round_ms, sought.round) == (BEGIN + 3_600_000, BEGIN + 3_600_000, 1)
