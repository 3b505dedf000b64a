"""A topic's log in a replay: what is readable follows the clock, and as little as possible is read ahead.

The metadata store is a few lines in memory, and the entries are in the cache, as in the tests of TopicLog.
"""

import asyncio
from contextlib import asynccontextmanager

import pytest
from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.bookkeeper.pool import BookiePool
from readonly_engine.metadata.cluster import ClusterMetadata
from readonly_engine.topic.cache import EntryCache
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.topic.position import Position
from readonly_engine.topic.replay import log as log_module
from readonly_engine.topic.replay.clock import UNLIMITED, ReplayClock
from readonly_engine.topic.replay.gate import MAX_AHEAD_ENTRIES
from readonly_engine.topic.replay.log import ReplayLog
from readonly_engine.topic.replay.shared import SharedClock
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.message_pb2 import MessageMetadata

from tests.support.ledgers import CLOSED_MS
from tests.support.waiting import until
from tests.unit.engine.topic.test_log import TOPIC, EventsInAChosenOrder, topic_node

BEGIN = 1_000_000
STARTED = 5_000_000.0


def payload(publish_ms):
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=publish_ms).SerializeToString()
    return len(metadata).to_bytes(4, "big") + metadata + b"body"


class Scene:
    """A topic in a replay, whose machine's clock the test sets."""

    def __init__(self, end=None, speed=1.0):
        self.now = STARTED
        self.replay = SharedClock(ReplayClock.started(BEGIN, end, speed, STARTED), lambda: self.now)
        self.store = EventsInAChosenOrder()
        self.cluster = ClusterMetadata(self.store)
        self.cache = EntryCache(1 << 24)
        self.log = ReplayLog(
            TOPIC, self.cluster, BookiePool(None), self.cache, self.nobody, None, lambda: None, self.replay
        )
        self.seen = []
        self.log.listen(self.listener)

    async def nobody(self):
        return None

    def listener(self):
        if self.log.latest_batch is not None:
            batch = self.log.latest_batch
            self.seen += [entry.position for entry in batch.entries(batch.first, 1000)]

    def topic(self, closed=CLOSED_MS - BEGIN, **times_of):
        """Show the topic's ledgers: lists of publish times after BEGIN by `lID`, all closed at a time after BEGIN."""
        named = {int(name[1:]): times for name, times in times_of.items()}
        for ledger_id, times in named.items():
            for entry_id, time in enumerate(times):
                self.cache.put(TopicEntry(Entry(ledger_id, entry_id, entry_id - 1, 0, payload(BEGIN + time))))
        ledgers = [(one, len(times), BEGIN + closed) for one, times in named.items()]
        self.store.fire(TOPIC.managed_ledger_path, topic_node(*ledgers))

    async def pass_to(self, after_ms):
        self.now = STARTED + after_ms
        self.log._wake.set()  # the timer of the event loop does not see the test's time
        await until(lambda: not self.log._wake.is_set())
        await asyncio.sleep(0)

    async def limit(self, *expected):
        await until(lambda: self.log.limit == expected)


@asynccontextmanager
async def played(**options):
    made = Scene(**options)
    try:
        yield made
    finally:
        made.log.close()


@pytest.fixture
def scene():
    return played()


@asynccontextmanager
async def opened(**options):
    async with played(**options) as made:
        made.topic(l3=[-500, 0, 100, 400], l5=[300, 900, 2000])
        await made.log.located()
        yield made


async def test_entries_become_readable_in_order_as_the_clock_passes_their_publish_times():
    async with opened() as made:
        await made.limit(3, 1)
        for after_ms, limit in [(99, (3, 1)), (100, (3, 2)), (399, (3, 2)), (400, (5, 0)), (900, (5, 1))]:
            await made.pass_to(after_ms)
            await made.limit(*limit)
        assert await made.log.read(Position(5, 2), 1) == []
        await made.pass_to(10_000)
        await made.limit(5, 2)
        await until(lambda: made.seen[-1:] == [(5, 2)])
        assert made.seen == sorted(set(made.seen))


@pytest.mark.parametrize(
    ("options", "after_ms", "limit"),
    [
        ({"speed": 10.0}, 40, (5, 0)),
        ({"speed": UNLIMITED}, 0, (5, 2)),
        ({"speed": UNLIMITED, "end": BEGIN + 900}, 0, (5, 1)),
        ({"end": BEGIN + 400}, 10_000, (5, 0)),
    ],
)
async def test_speed_and_end_decide_what_is_readable(options, after_ms, limit):
    async with opened(**options) as made:
        await made.pass_to(after_ms)
        await made.limit(*limit)
        await made.pass_to(after_ms)
        assert made.log.limit == limit


async def test_a_paused_clock_releases_nothing_and_goes_on_where_it_stood():
    async with opened() as made:
        made.replay.change(made.replay.clock.pause(STARTED + 200))
        await made.pass_to(5000)
        await made.limit(3, 2)
        made.replay.change(made.replay.clock.resume(STARTED + 5000))
        await made.pass_to(5200)
        await made.limit(5, 0)


@pytest.mark.parametrize(("to_ms", "begins"), [(0, (3, 1)), (100, (3, 2)), (350, (3, 2))])
async def test_a_jump_of_the_clock_releases_from_there_on(to_ms, begins):
    """Back from the end: messages that were released are not any more, until the clock has their time again."""
    async with opened() as made:
        await made.pass_to(10_000)
        await made.limit(5, 2)
        made.replay.change(made.replay.clock.seek(BEGIN + to_ms, STARTED + 10_000))
        assert made.log.limit is None
        await made.log.located()
        await made.limit(*begins)
        await made.pass_to(10_400 - to_ms)
        await made.limit(5, 0)


async def test_a_read_for_the_time_before_a_jump_releases_nothing_after_it(monkeypatch):
    async with opened() as made:
        going, ready = asyncio.Event(), asyncio.Event()
        read = ReplayLog.read_stored

        async def slow(log, first, count):
            ready.set()
            await going.wait()
            return await read(log, first, count)

        await made.pass_to(10_000)
        await made.limit(5, 2)
        monkeypatch.setattr(ReplayLog, "read_stored", slow)
        made.replay.change(made.replay.clock.seek(BEGIN + 900, STARTED + 10_000))
        await ready.wait()
        made.replay.change(made.replay.clock.seek(BEGIN, STARTED + 10_000))
        going.set()
        await made.log.located()
        await made.limit(3, 1)


async def test_the_begin_of_the_replay_is_searched_once(scene, monkeypatch):
    searched = []
    position_at = ReplayLog.position_at

    async def counted(log, publish_ms):
        searched.append(publish_ms)
        return await position_at(log, publish_ms)

    monkeypatch.setattr(ReplayLog, "position_at", counted)
    scene.topic(l3=[-500])
    await scene.log.located()
    assert [await scene.log.begin(), await scene.log.begin()] == [(3, 1), (3, 1)]
    scene.topic(l3=[-500], l5=[-1, 20])
    assert [await scene.log.begin() for _ in range(3)] == [(5, 1)] * 3
    assert searched == [BEGIN] * 3


async def test_an_entry_with_a_time_after_the_close_of_its_ledger_holds_back_none_behind_it(scene):
    """Nor does it stop the replay at its end: a producer's clock was an hour ahead of all others."""
    hour = 3_600_000
    scene.replay.change(ReplayClock.started(BEGIN, BEGIN + 1000, 1.0, STARTED))
    scene.topic(closed=500, l3=[0, 100, hour, 200, 500 + 30_000])
    await scene.log.located()
    await scene.limit(3, 0)
    for after_ms, limit in [(100, (3, 2)), (200, (3, 3)), (500, (3, 4))]:
        await scene.pass_to(after_ms)
        await scene.limit(*limit)


async def test_the_begin_is_not_searched_before_a_ledger_that_was_closed_earlier(scene):
    scene.topic(closed=-100, l3=[-500, -400, 3_600_000, -200])
    assert await scene.log.position_at(BEGIN) == (3, 4)


async def test_entries_that_come_during_the_replay_are_released_too(scene):
    scene.topic(l3=[0])
    await scene.pass_to(1000)
    await scene.limit(3, 0)
    scene.topic(l3=[0], l5=[800, 1500])
    await scene.limit(5, 0)
    await scene.pass_to(1500)
    await scene.limit(5, 1)


async def test_a_bounded_number_of_entries_is_read_ahead(scene):
    scene.topic(l3=[0, *range(5000, 5000 + 3 * MAX_AHEAD_ENTRIES)])
    await scene.log.located()
    assert MAX_AHEAD_ENTRIES // 2 < len(scene.log._gate) <= MAX_AHEAD_ENTRIES
    assert scene.log.limit == (3, 0)


async def test_a_read_that_fails_is_repeated(scene, monkeypatch):
    monkeypatch.setattr(log_module, "RETRY_S", (0.001, 0.001))
    failures = [BookKeeperError("no bookie")] * 3
    read = ReplayLog.read_stored

    async def failing(log, first, count):
        if failures:
            raise failures.pop()
        return await read(log, first, count)

    monkeypatch.setattr(ReplayLog, "read_stored", failing)
    scene.topic(l3=[0, 100])
    await scene.log.located()
    assert (scene.log.limit, failures) == ((3, 0), [])


@pytest.mark.parametrize(("after_ms", "lost"), [(0, 2 + 2), (300, 1 + 2), (1000, 0)])
async def test_entries_that_are_deleted_before_their_release_are_told(caplog, after_ms, lost):
    """In time, from the third entry of the first ledger on; the last ledger stays."""
    async with played() as made:
        ledgers = {"l3": [-500, 0, 100, 400], "l5": [600, 900], "l7": [2000]}
        made.topic(**ledgers)
        await made.log.located()
        await made.pass_to(after_ms)
        await made.limit(*{0: (3, 1), 300: (3, 2), 1000: (5, 1)}[after_ms])
        made.topic(l7=ledgers["l7"])
        told = [one for one in caplog.messages if one.startswith("retention has deleted entries")]
        assert [f"entries={lost} " in one for one in told] == ([True] if lost else [])
        await made.pass_to(2000)
        await made.limit(7, 0)
