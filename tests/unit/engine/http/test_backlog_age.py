"""Ages of backlogs: right figures, few reads, and no subscription that is never measured."""

import asyncio
from types import SimpleNamespace

import pytest
from readonly_engine.bookkeeper.errors import ReadFailedError
from readonly_engine.http import backlog_age
from readonly_engine.http.backlog_age import KEPT_S, MAX_READ_BYTES, MAX_READS, BacklogAges
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.topic.position import Position

from tests.support.ledgers import chain_of

NOW_S = 1_800_000_000.0
ENTRIES = 1000


class Log:
    """A topic whose entry N was published N seconds after `began`."""

    def __init__(self, began=NOW_S - 5000):
        self.chain = chain_of(0, lac=ENTRIES - 1)
        self.began = began
        self.reads = []
        self.error = None
        self.held = None
        self.failing = None
        self.size = 100
        self.delay = 0.0

    async def read(self, position, count):
        assert count == 1
        self.reads.append(position)
        if self.held is not None:
            await self.held.wait()
        if self.error is not None and (self.failing is None or position.entry_id in self.failing):
            raise self.error
        await asyncio.sleep(self.delay)
        published = self.began and int((self.began + position.entry_id) * 1000)
        return [SimpleNamespace(timestamp=published, size=self.size)]


class Subscription:
    def __init__(self, acked):
        self.mark_delete = Position(0, acked)

    @property
    def has_backlog(self):
        return self.mark_delete.entry_id < ENTRIES - 1


class Scene:
    """One topic with a subscription for each number of acked entries."""

    def __init__(self, *acked, log=None):
        self.now = NOW_S
        self.loop_time = 0.0
        self.log = log or Log()
        self.topic = parse_topic_name("persistent://public/default/t")
        found = {f"s{number}": Subscription(last) for number, last in enumerate(acked)}
        self.served = SimpleNamespace(log=self.log, subscriptions=found)
        topics = SimpleNamespace(all=[(self.topic, self.served)])
        self.ages = BacklogAges(SimpleNamespace(topics=topics), lambda: self.now)

    def seconds(self, name="s0"):
        return self.ages.seconds(self.topic, name, self.served, self.served.subscriptions[name])

    async def measure(self):
        self.ages._began = float("-inf")  # as after the interval
        await self.ages.measure()


@pytest.fixture(autouse=True)
def _whole_rounds(monkeypatch):
    """A collection waits for the whole round."""
    monkeypatch.setattr(backlog_age, "WAIT_S", 60.0)


async def test_the_age_is_that_of_the_oldest_unacked_entry():
    one = Scene(9, 999)
    assert one.seconds("s0") is None, "nothing was measured yet"
    await one.measure()
    assert one.seconds("s0") == pytest.approx(5000 - 10)
    assert one.seconds("s1") == 0
    assert one.log.reads == [Position(0, 10)], "without backlog nothing is read"


async def test_after_the_next_ack_the_last_measurement_counts_for_a_while():
    one = Scene(9)
    await one.measure()
    one.served.subscriptions["s0"].mark_delete = Position(0, 500)
    one.now += KEPT_S
    assert one.seconds() == pytest.approx(5000 - 10)
    one.now += 1
    assert one.seconds() is None
    await one.measure()
    assert one.seconds() == pytest.approx(5000 + KEPT_S + 1 - 501)


async def test_collections_in_a_row_share_a_round():
    one = Scene(9)
    await one.ages.measure()
    one.served.subscriptions["s0"].mark_delete = Position(0, 10)
    await one.ages.measure()
    assert len(one.log.reads) == 1


async def test_a_round_has_a_bound_and_the_next_one_takes_the_others():
    one = Scene(*range(MAX_READS + 20))
    await one.measure()
    assert len(one.log.reads) == MAX_READS
    for subscription in one.served.subscriptions.values():
        subscription.mark_delete = Position(0, subscription.mark_delete.entry_id + 200)
    one.now += 10
    await one.measure()
    assert len(one.log.reads) == 2 * MAX_READS
    assert all(one.seconds(name) is not None for name in one.served.subscriptions)


async def test_large_entries_do_not_fill_the_cache():
    """A round of 100 entries of 5 MiB would push all that consumers read next out of it."""
    one = Scene(*range(MAX_READS))
    one.log.size = 5 << 20
    await one.measure()
    assert MAX_READ_BYTES <= len(one.log.reads) * one.log.size <= 64 << 20
    first = set(one.log.reads)
    one.now += 10
    await one.measure()
    assert not first & set(one.log.reads[len(first) :]), "the others come next"


@pytest.mark.parametrize("error", [asyncio.CancelledError(), RuntimeError("unexpected")], ids=["closed", "unexpected"])
async def test_a_topic_that_closes_or_fails_does_not_end_the_round(caplog, error):
    one = Scene(*range(20))
    one.log.error, one.log.failing, one.log.delay = error, {1}, 0.01
    await one.measure()
    await asyncio.sleep(0)
    assert [name for name in one.served.subscriptions if one.seconds(name) is None] == ["s0"]
    assert ("unexpected" in caplog.text) == isinstance(error, RuntimeError)


async def test_entries_that_cannot_be_read_do_not_hold_up_the_others():
    one = Scene(*range(MAX_READS + 1))
    one.log.error = ReadFailedError("no bookie answers")
    await one.measure()
    assert one.seconds("s0") is None
    one.log.error = None
    one.now += 10
    await one.measure()
    assert one.log.reads[MAX_READS] == Position(0, MAX_READS + 1), "the one that was not tried comes first"


async def test_a_collection_does_not_wait_for_storage_that_is_silent(monkeypatch):
    monkeypatch.setattr(backlog_age, "WAIT_S", 0.01)
    one = Scene(9)
    one.log.held = asyncio.Event()
    await one.measure()
    assert one.seconds() is None
    await one.measure()
    assert len(one.log.reads) == 1, "the round continues, and no second one begins"
    one.ages.close()
