"""Jumps of the clock: new cursors for each round, and a loop that one of several brokers continues."""

from types import SimpleNamespace

from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.broker.replay.backend import ReplayBackend
from readonly_engine.broker.replay.loop import ReplayLoop
from readonly_engine.broker.replay.record import ReplayRecord, encode_record, record_path
from readonly_engine.broker.replay.shared_record import FollowedRecord
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.topic.position import Position
from readonly_engine.topic.replay.clock import LOOP_PAUSE_MS, ReplayClock

from tests.support.memory_store import MemoryStore
from tests.support.waiting import until

BEGIN, STARTED = 1_000_000, 5_000_000.0
FOLDER = "/pulsar-readonly/pools/p/replays/w"
TOPIC = "persistent://public/default/orders"
KEY = ClaimKey(parse_topic_name("persistent://public/default/cursors-partition-0"), "s")


class Scene:
    """A replay of one second, and its followers; the test sets the time of the machines."""

    def __init__(self):
        self.now, self.store = STARTED, MemoryStore()
        self.clock = ReplayClock.started(BEGIN, BEGIN + 1000, 1.0, STARTED, loop=True)
        self.store.write(record_path(FOLDER), encode_record(ReplayRecord(self.clock, 16)))

    def follower(self):
        made = FollowedRecord(self.store, FOLDER, ReplayRecord(self.clock, 16))
        made.shared.now_ms = lambda: self.now
        return made

    @property
    def folders(self):
        return {path.split("/")[7] for path in self.store.nodes if path.startswith(f"{FOLDER}/cursors/")}


async def test_a_jump_ends_the_cursors_of_a_round_and_the_next_one_removes_them():
    scene = Scene()
    record, lost = scene.follower(), []
    backend = ReplayBackend(scene.store, record, SimpleNamespace(close=lambda: None))
    first = await backend.open(KEY, lost.append, lambda: True)
    cursors = first.store.of(TOPIC)
    cursors.create("s", Position(7, 4), 0, ())
    await first.store.wait_stored(first.store.changed(cursors))
    (before,) = scene.folders
    record.shared.change(scene.clock.seek(BEGIN + 500, STARTED))
    assert lost == ["the clock of the replay has jumped"]
    await first.store.close()
    second = await backend.open(KEY, lost.append, lambda: True)
    assert second.store.find(TOPIC, "s") is None
    assert not scene.folders
    cursors = second.store.of(TOPIC)
    cursors.create("s", Position(7, 1), 0, ())
    await second.store.wait_stored(second.store.changed(cursors))
    assert scene.folders == {f"{before}@1"}
    record.shared.change(record.shared.clock.pause(STARTED + 1))
    assert len(lost) == 1, "a pause is no jump"
    await second.store.close()
    backend.close()


async def test_a_loop_begins_again_once_for_all_brokers():
    scene = Scene()
    records = [scene.follower() for _ in range(2)]
    loops = [ReplayLoop(scene.store, record) for record in records]
    try:
        scene.now = STARTED + 1000 + LOOP_PAUSE_MS
        for record in records:
            record.shared.change(scene.clock.with_speed(1.0, STARTED))  # the timer does not see the test's time
        for loop in loops:
            loop._changed.set()
        await until(lambda: [record.shared.clock.round for record in records] == [1, 1])
        clock = records[0].shared.clock
        assert (clock.round_ms, clock.released(scene.now), clock.next_round_ms) == (
            BEGIN, BEGIN, scene.now + 1000 + LOOP_PAUSE_MS
        )  # fmt: skip
    finally:
        for loop in loops:
            loop.close()
