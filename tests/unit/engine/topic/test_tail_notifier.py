"""The notifier with a real chain: received entries are dispatched as they are, and only missing ones are read."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from readonly_engine.bookkeeper.errors import BookieUnavailableError
from readonly_engine.topic import dispatch_hold
from readonly_engine.topic import tail_notifier as notifier_module
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.topic.tail_notifier import PREFETCH_ENTRIES, TailNotifier
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.message_pb2 import MessageMetadata

from tests.support.ledgers import chain_of
from tests.support.waiting import until

METADATA = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1).SerializeToString()
STORED = len(METADATA).to_bytes(4, "big") + METADATA


def entry(entry_id, body=b""):
    return TopicEntry(Entry(3, entry_id, entry_id - 1, 0, STORED + body))


class Stage:
    """A topic of one ledger that is written, and a listener."""

    def __init__(self):
        self.chain = chain_of(3)
        self.reads, self.told, self.failing, self.size = [], [], False, 0
        self.topic = "the topic"
        self.notifier = TailNotifier(self)
        self.notifier.listen(self.listener)

    async def read(self, first, count):
        self.reads.append((first.entry_id, count))
        await asyncio.sleep(0)
        if self.failing:
            raise BookieUnavailableError("away")
        last = min(self.chain.limit.entry_id, first.entry_id + count - 1)
        return [entry(number) for number in range(first.entry_id, last + 1)]

    def listener(self):
        burst = self.notifier.latest_batch
        self.told.append(None if burst is None else (burst.first.entry_id, burst.last.entry_id, burst.complete))

    def comes(self, *numbers, body=b""):
        self.notifier.on_entries([entry(number, body) for number in numbers])

    def confirm(self, last):
        self.chain.lac_advanced(3, last)
        self.notifier.on_limit_changed()

    @property
    def bursts(self):
        """Calls with new entries: one without any can follow each of them."""
        return [burst for burst in self.told if burst is not None]

    async def until(self, condition):
        await until(condition)

    async def tells(self, *burst):
        await self.until(lambda: self.bursts and self.bursts[-1] == burst)

    async def holds_back_the_second(self):
        """Entry 1 is dispatched, and 2 arrives within the interval after it."""
        self.comes(1)
        self.confirm(1)
        await self.tells(1, 1, True)
        self.comes(2)
        self.confirm(2)


@pytest.fixture
@asynccontextmanager
async def stage(monkeypatch):
    """A stage after the dispatch of entry 0. The owner has time to answer."""
    monkeypatch.setattr(dispatch_hold, "MAX_HOLD_S", 60.0)
    made = Stage()
    made.confirm(0)
    await made.until(lambda: made.told == [None])
    try:
        yield made
    finally:
        made.notifier.close()


async def test_what_was_not_confirmed_when_others_were_read_is_kept(stage):
    stage.comes(2, 3, 4)
    stage.confirm(2)
    await stage.tells(1, 2, True)
    assert len(stage.reads) == 1
    stage.comes(5)
    stage.confirm(5)
    await stage.tells(3, 5, True)
    assert len(stage.reads) == 1


async def test_more_than_goes_out_together_is_read_in_steps(stage):
    stage.comes(*range(1, PREFETCH_ENTRIES + 2))
    stage.confirm(PREFETCH_ENTRIES + 1)
    await stage.tells(1, PREFETCH_ENTRIES, False)
    stage.comes(*range(PREFETCH_ENTRIES + 2, PREFETCH_ENTRIES + 4), body=bytes(1 << 20))
    stage.confirm(PREFETCH_ENTRIES + 3)
    await stage.until(lambda: len(stage.reads) == 2)


async def test_who_listens_is_called_where_nothing_can_be_read(stage):
    stage.failing = True
    stage.confirm(1)
    await stage.until(lambda: stage.told == [None, None])
    assert stage.notifier.latest_batch is None
    stage.failing = False
    stage.comes(2)
    stage.confirm(2)
    await stage.tells(2, 2, True)


async def test_a_pause_is_kept_except_for_ledgers_that_come_or_go(monkeypatch, stage):
    monkeypatch.setattr("readonly_engine.topic.tail_batch.PAUSE_S", (60.0, 60.0))
    await stage.holds_back_the_second()
    await asyncio.sleep(0.01)
    assert stage.told[-1] == (1, 1, True)
    assert 50 < stage.notifier.pause < 60
    stage.notifier.on_limit_changed(at_once=True)
    await stage.tells(2, 2, True)


async def test_it_is_known_whether_listeners_are_being_called(monkeypatch, stage):
    monkeypatch.setattr(notifier_module, "SLICE_CALLS", 1)
    monkeypatch.setattr(notifier_module, "SLICE_S", 0.0)
    seen = []
    stage.notifier.listen(lambda: seen.append(stage.notifier.notifying))
    stage.notifier.listen(lambda: seen.append(stage.notifier.notifying))
    stage.comes(0)
    stage.confirm(0)
    await stage.until(lambda: len(seen) == 2)
    assert seen == [True, True], "also of those that are called in a later iteration of the loop"
    assert not stage.notifier.notifying


async def test_one_who_fails_keeps_nobody_from_being_told(monkeypatch, caplog, stage):
    monkeypatch.setattr(notifier_module, "RESTART_DELAY_S", 0.01)
    failed = []

    def failing():
        failed.append(1)
        if len(failed) < 3:
            raise ValueError("a mistake")

    stage.notifier.unlisten(stage.listener)
    stage.notifier.listen(failing)
    stage.comes(1)
    stage.confirm(1)
    await stage.until(lambda: len(failed) == 3)
    stage.notifier.listen(stage.listener)
    stage.confirm(2)  # to be read first
    await stage.tells(2, 2, True)
    assert caplog.text.count("dispatch of new entries failed unexpectedly, retrying: topic=the topic") == 2
    assert "a mistake" in caplog.text


async def test_nobody_is_called_after_the_end(stage):
    stage.confirm(1)
    while not stage.reads:
        await asyncio.sleep(0)
    stage.notifier.close()
    stage.notifier.on_limit_changed(at_once=True)
    for _ in range(5):
        await asyncio.sleep(0)
    assert stage.told == [None]
    assert stage.notifier.listeners == 0


class Limit:
    """The owner's limit, which the test moves."""

    def __init__(self, stage, *, active=True):
        self.active = active
        self.limit = Position(3, 0)
        self.requests = []
        self.on_answer = None
        stage.notifier.set_limit(self)

    def request(self, position, _tail):
        self.requests.append(position.entry_id)

    def answer(self, last, awaited=EARLIEST):
        self.limit = Position(3, last)
        self.on_answer(awaited)


@pytest.mark.parametrize("come", [[1, 2, 3, 4], []], ids=["at hand", "to be read"])
async def test_a_dispatch_ends_at_the_limit_and_the_rest_follows(come, stage):
    limit = Limit(stage)
    if come:
        stage.comes(*come)
    stage.confirm(4)
    await stage.until(lambda: limit.requests == [4])
    limit.answer(2, Position(3, 4))
    await stage.tells(1, 2, True)
    await stage.until(lambda: limit.requests == [4, 4])
    limit.answer(4)
    await stage.tells(3, 4, True)


async def test_what_the_owner_holds_is_released_to_those_who_wait_by_themselves(stage):
    limit = Limit(stage)
    stage.comes(1)
    stage.confirm(1)
    await stage.until(lambda: limit.requests == [1])
    limit.answer(0, Position(3, 1))
    await stage.tells(1, 1, True)
    stage.comes(2)
    stage.confirm(2)
    await stage.tells(2, 2, True)
    assert limit.requests == [1]


async def test_a_limit_that_is_not_active_holds_nothing(stage):
    limit = Limit(stage, active=False)
    stage.comes(1)
    stage.confirm(1)
    await stage.tells(1, 1, True)
    assert limit.requests == []
    limit.answer(0)
    await asyncio.sleep(0.01)
    assert len(stage.told) == 2, "an answer without a held dispatch calls nobody"


async def test_dispatches_are_as_far_apart_as_requests(monkeypatch, stage):
    monkeypatch.setattr(notifier_module, "SPACING_S", (60.0, 60.0))
    monkeypatch.setattr("readonly_engine.topic.tail_batch.PAUSE_S", (0.0, 60.0))
    limit = Limit(stage)
    stage.comes(1)
    stage.confirm(1)
    await stage.until(lambda: limit.requests == [1])
    assert stage.notifier.pause == 60, "no bookie is polled while the owner is asked"
    limit.answer(1, Position(3, 1))
    await stage.tells(1, 1, True)
    assert 50 < stage.notifier.pause < 60
    limit.answer(9)
    stage.comes(2)
    stage.confirm(2)
    stage.notifier.on_limit_changed(at_once=True)
    await stage.tells(2, 2, True)
    assert stage.notifier.pause < 1, "no request was necessary"


async def test_at_a_high_rate_pushed_entries_wait_for_those_right_behind_them(stage):
    for number in (1, 2):
        stage.chain.lac_advanced(3, number)
        stage.notifier.on_pushed([entry(number)], asyncio.get_running_loop().time(), flows=True)
    assert stage.told == [None]
    await stage.tells(1, 2, True)
    assert not stage.reads


async def test_a_pushed_entry_waits_for_what_the_owner_allows(stage):
    limit = Limit(stage)
    stage.chain.lac_advanced(3, 1)
    stage.notifier.on_pushed([entry(1)], asyncio.get_running_loop().time(), flows=False)
    await stage.until(lambda: limit.requests == [1])
    assert stage.told == [None]
    limit.answer(1, Position(3, 1))
    await stage.tells(1, 1, True)
    limit.limit = Position(3, 2)  # as for pushed entries, whose limit rises first
    await asyncio.sleep(0.05)
    stage.chain.lac_advanced(3, 2)
    stage.notifier.on_pushed([entry(2)], asyncio.get_running_loop().time(), flows=False)
    assert (stage.told[-1], limit.requests) == ((2, 2, True), [1])


async def test_a_listener_that_fails_on_a_pushed_entry_ends_nothing(monkeypatch, stage):
    monkeypatch.setattr(notifier_module, "RESTART_DELAY_S", 0.01)

    def fail():
        stage.notifier.unlisten(fail)
        raise ValueError("no")

    stage.notifier.listen(fail)
    for number in (1, 2):
        stage.chain.lac_advanced(3, number)
        stage.notifier.on_pushed([entry(number)], asyncio.get_running_loop().time(), flows=False)
    await stage.until(lambda: any(one is not None and one[1] == 2 for one in stage.told))
