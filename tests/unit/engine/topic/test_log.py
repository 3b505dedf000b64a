"""TopicLog's ordering of events.

The metadata store is a few lines in memory here, and only here: a real ZooKeeper cannot be made to deliver its events in a
chosen order. No bookie is registered in it, so reads fail as without bookies; tests put readable entries into the cache.
"""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from readonly_engine.bookkeeper.errors import BookKeeperError, NoSuchLedgerError
from readonly_engine.bookkeeper.pool import BookiePool
from readonly_engine.metadata.cluster import ClusterMetadata, ledger_path
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.metadata.store import Versioned
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.topic import log as log_module
from readonly_engine.topic import tail_polls
from readonly_engine.topic.cache import EntryCache
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.topic.log import TopicLog
from readonly_engine.topic.position import Position
from readonly_engine.topic.tail_batch import FlushInterval
from readonly_engine.topic.tail_notifier import PREFETCH_ENTRIES
from readonly_engine.topic.view import Follow
from readonly_engine.wire.bookkeeper_pb2 import LedgerMetadataFormat
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.varint import encode_varint

from tests.support.ledgers import ledger_list
from tests.support.waiting import until

TOPIC = parse_topic_name("persistent://public/default/orders")


class EventsInAChosenOrder:
    """A MetadataStore whose watches are fired by the test."""

    connected = True

    def __init__(self):
        self.values = {}
        self.watches = {}
        self.stopped = []

    async def get(self, path):
        value = self.values.get(path)
        return None if value is None else Versioned(value, 0)

    def watch(self, path, changed):
        store = self

        class Watch:
            def stop(self):
                store.stopped.append(path)
                store.watches.pop(path, None)

        self.watches[path] = changed
        return Watch()

    def fire(self, path, value):
        self.watches[path](None if value is None else Versioned(value, 0))


def topic_node(*ledgers):
    return ledger_list(*ledgers).SerializeToString()


def ledger_node(last_entry_id=None):
    closed = last_entry_id is not None
    message = LedgerMetadataFormat(
        quorum_size=1, state=LedgerMetadataFormat.CLOSED if closed else LedgerMetadataFormat.OPEN
    )
    if closed:
        message.last_entry_id = last_entry_id
    message.segment.add(first_entry_id=0, ensemble_member=["nowhere"])
    encoded = message.SerializeToString()
    return b"BookieMetadataFormatVersion\t3\n" + encode_varint(len(encoded)) + encoded


class Scene:
    def __init__(self):
        self.store = EventsInAChosenOrder()
        self.cluster = ClusterMetadata(self.store)
        self.asked = []
        self.cache = EntryCache(1 << 20)
        self.log = TopicLog(TOPIC, self.cluster, BookiePool(self.resolve), self.cache, self.owner)
        self.told, self.bursts = 0, []
        self.log.listen(self.listener)

    def listener(self):
        self.told += 1
        if self.log.latest_batch is not None:  # a call without new entries may follow each with some
            self.bursts.append(self.log.latest_batch)

    async def resolve(self, bookie_id):
        self.asked.append(bookie_id)
        return await self.cluster.bookie_address(bookie_id)

    async def owner(self):
        return None

    def topic(self, *ledgers):
        self.store.fire(TOPIC.managed_ledger_path, topic_node(*ledgers))

    def ledger(self, ledger_id, last_entry_id=None):
        self.store.fire(ledger_path("/ledgers", ledger_id), ledger_node(last_entry_id))

    def watches(self, ledger_id):
        return ledger_path("/ledgers", ledger_id) in self.store.watches

    def keep(self, ledger_id, *entry_ids):
        for entry_id in entry_ids:
            self.cache.put(TopicEntry(Entry(ledger_id, entry_id, entry_id - 1, 0, b"x")))


@asynccontextmanager
async def played_log():
    """Open a log in a scene."""
    made = Scene()
    try:
        yield made
    finally:
        made.log.close()


@pytest.fixture
def stage():
    return played_log()


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


def found(entries):
    return [entry.position for entry in entries]


@pytest.mark.parametrize("open_ledgers", [[], [8]])
async def test_a_topic_is_open_when_it_and_its_open_ledger_are_known(stage, open_ledgers):
    assert not stage.log._opened.done()
    stage.topic((3, 2), *open_ledgers)
    assert (stage.log._opened is None) == (not open_ledgers)
    for ledger_id in open_ledgers:
        stage.ledger(ledger_id)
    await stage.log.opened()
    assert stage.log.limit == (3, 1)


async def test_a_store_that_does_not_tell_is_an_error_and_no_hang(monkeypatch, stage):
    monkeypatch.setattr(log_module, "OPEN_TIMEOUT_S", 0.01)
    with pytest.raises(MetadataError, match="the ledgers of persistent://public/default/orders are not known"):
        await stage.log.opened()


async def test_a_ledger_that_was_trimmed_is_forgotten_whatever_comes_of_it_later(stage):
    stage.topic(3)
    stage.ledger(3)
    old_watch = stage.store.watches[ledger_path("/ledgers", 3)]
    stage.topic((8, 2))
    assert ledger_path("/ledgers", 3) in stage.store.stopped
    old_watch(None)
    old_watch(Versioned(ledger_node(9), 2))
    stage.log.confirm(Position(3, 9))
    assert stage.log.chain.ledger_ids == [8]
    assert stage.log.limit == (8, 1)


async def test_a_ledger_whose_node_is_gone_before_the_list_says_so_changes_nothing(stage):
    stage.topic((3, 2), 8)
    stage.ledger(8)
    stage.store.fire(ledger_path("/ledgers", 8), None)
    assert stage.log.limit == (3, 1)
    assert stage.log.chain.open_ledgers == [8]


async def test_a_damaged_node_leaves_what_was_known(caplog, stage):
    stage.topic((3, 2))
    stage.store.fire(TOPIC.managed_ledger_path, b"\xff")
    assert stage.log.limit == (3, 1)
    assert "cannot follow the topic's node: topic=persistent://public/default/orders" in caplog.text


async def test_listeners_are_told_of_every_way_in_which_the_log_grows_or_shrinks(stage):
    for change in (
        lambda: stage.topic(3),
        lambda: stage.ledger(3),
        lambda: stage.log.confirm(Position(3, 1)),
        lambda: stage.ledger(3, last_entry_id=2),
        lambda: stage.topic((3, 3), 8),
        lambda: stage.topic(8),
        lambda: stage.store.fire(TOPIC.managed_ledger_path, None),
    ):
        before = stage.told
        stage.keep(3, 0, 1, 2)
        change()
        await settle()
        assert stage.told > before
    stage.log.unlisten(stage.listener)
    before = stage.told
    stage.topic((9, 1))
    await settle()
    assert stage.told == before


async def test_all_that_is_new_is_told_as_one_burst(stage):
    stage.topic((2, 1), 3)
    stage.ledger(3)
    await settle()
    stage.log.confirm(Position(3, 0))
    stage.keep(3, *range(5))
    await settle()
    await until(lambda: stage.bursts)
    assert (stage.bursts[-1].first, stage.bursts[-1].complete) == ((3, 0), True)
    stage.log.confirm(Position(3, 1))
    stage.log.confirm(Position(3, 4))
    assert stage.log.defer_to_notification(Position(3, 1))
    assert not stage.log.defer_to_notification(Position(3, 0)), "it was told of already"
    await until(lambda: stage.bursts[-1].last == (3, 4))
    burst = stage.bursts[-1]
    assert (burst.first, burst.following, len(burst)) == ((3, 1), (3, 5), 4)
    assert not stage.log.defer_to_notification(Position(3, 4))


async def test_what_nobody_waits_for_is_not_read_ahead(stage):
    stage.topic((2, 1), 3)
    stage.ledger(3)
    await settle()
    stage.keep(3, *range(2 * PREFETCH_ENTRIES))
    stage.log.confirm(Position(3, 2 * PREFETCH_ENTRIES - 1))
    await until(lambda: stage.bursts)
    await settle()
    assert stage.bursts[-1].last == (3, PREFETCH_ENTRIES - 1)
    assert not stage.log.defer_to_notification(Position(3, PREFETCH_ENTRIES)), "who comes later reads for himself"


async def test_what_is_in_the_cache_is_given_without_a_gap_and_not_beyond_the_limit(stage):
    stage.topic((3, 2), (4, 0), (5, 3), 8)
    stage.keep(3, 0, 1)
    stage.keep(5, 0, 2)
    stage.keep(8, 0)
    assert found(stage.log.cached(Position(3, 0), 10)) == [(3, 0), (3, 1), (5, 0)]
    assert found(stage.log.cached(Position(3, 1), 1)) == [(3, 1)]
    assert found(stage.log.cached(Position(5, 1), 10)) == []
    assert found(stage.log.cached(Position(8, 0), 10)) == []
    assert found(await stage.log.read(Position(5, 2), 10)) == [(5, 2)]


async def test_an_entry_is_asked_for_once_however_many_want_it(monkeypatch, stage):
    monkeypatch.setattr("readonly_engine.bookkeeper.pool.RETRY_AFTER_S", 60.0)
    stage.store.values[ledger_path("/ledgers", 3)] = ledger_node(4)
    stage.topic((3, 5))
    reads = [stage.log.read(Position(3, entry), 100) for entry in (0, 0, 2, 4)]
    results = await asyncio.gather(*reads, return_exceptions=True)
    assert all(isinstance(result, BookKeeperError) for result in results)
    assert stage.asked == ["nowhere"]
    assert "bookie nowhere is not registered" in str(results[0])
    assert not stage.log._reads.pending, "the next one asks again"


async def test_a_read_stops_where_another_has_begun(stage):
    stage.store.values[ledger_path("/ledgers", 3)] = ledger_node(4)
    stage.topic((3, 5))
    tasks = []
    for entry in (2, 0):
        tasks.append(asyncio.create_task(stage.log.read(Position(3, entry), 100)))
        await asyncio.sleep(0)
    assert sorted((read.first, read.last) for read in stage.log._reads.pending) == [(0, 1), (2, 4)]
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_ledger_that_was_deleted_is_the_named_error(stage):
    stage.topic((3, 5))
    with pytest.raises(NoSuchLedgerError, match="ledger 3 was deleted"):
        await stage.log.read(Position(3, 0), 10)


async def test_a_ledger_that_was_copied_to_other_bookies_is_read_there(stage):
    node = ledger_node(4)
    stage.store.values[ledger_path("/ledgers", 3)] = node
    stage.topic((3, 5))
    with pytest.raises(BookKeeperError, match="bookie nowhere is not registered"):
        await stage.log.read(Position(3, 0), 100)
    stage.store.values[ledger_path("/ledgers", 3)] = node.replace(b"nowhere", b"anywher")
    with pytest.raises(BookKeeperError, match="bookie anywher is not registered"):
        await stage.log.read(Position(3, 0), 100)


@pytest.mark.parametrize(
    ("others", "latency_tolerant"), [("latency-tolerant", True), ("hurried", False), ("gone", True)]
)
async def test_the_longest_flush_interval_needs_latency_tolerant_listeners_only(
    others, latency_tolerant, monkeypatch, stage
):
    told = []
    monkeypatch.setattr(
        FlushInterval, "notified", lambda _, now, *, latency_tolerant, **__: told.append((now > 0, latency_tolerant))
    )

    def other():
        pass

    stage.log.unlisten(stage.listener)
    stage.log.listen(stage.listener, latency_tolerant=True)
    stage.log.listen(other, latency_tolerant=others == "latency-tolerant")
    if others == "gone":
        stage.log.unlisten(other)
    stage.topic((2, 1), 3)
    stage.ledger(3)
    await settle()
    stage.keep(3, 0)
    stage.log.confirm(Position(3, 0))
    await until(lambda: stage.log.latest_batch is not None)
    assert told == [(True, latency_tolerant)]


async def test_a_listener_to_the_end_is_called_at_the_pace_of_dispatch_and_reads_nothing(monkeypatch, stage):
    told = []
    monkeypatch.setattr(FlushInterval, "notified", lambda *_, end_only, **__: told.append(end_only))
    stage.log.listen(stage.listener, latency_tolerant=True, follow=Follow.END)
    stage.topic(3)
    stage.ledger(3)
    await settle()
    stage.log.confirm(Position(3, 0))
    await settle()
    before = stage.told
    stage.log.confirm(Position(3, 5))
    await until(lambda: stage.told > before)
    assert told == [True]
    assert not stage.bursts
    assert stage.log._reads is None
    assert not stage.log.defer_to_notification(Position(3, 6))
    stage.log.listen(stage.listener)  # now it needs the entries
    stage.keep(3, 6)
    stage.log.confirm(Position(3, 6))
    await until(lambda: stage.bursts)
    assert stage.bursts[-1].first == Position(3, 6), "not those of before"


async def test_where_only_the_ledgers_are_followed_no_bookie_is_polled(monkeypatch, stage):
    changes = []
    stage.log.follower = SimpleNamespace(followed=lambda: changes.append(stage.log.followed))
    stage.log.listen(stage.listener, follow=Follow.LEDGERS)
    stage.topic(3)
    stage.ledger(3)
    await settle()
    called = stage.told
    assert not stage.asked
    stage.log.confirm(Position(3, 5), counted=False)
    stage.log.suspend_polls()
    stage.log.push_ended()
    stage.log.expect_no_push()
    await settle()
    assert not stage.asked
    assert (stage.log.limit, stage.told) == (Position(3, 5), called), "the listener knows what it confirms"
    assert not stage.log.owner_end.counts(Position(3, 5))
    stage.topic((3, 6), 4)
    stage.ledger(4)
    await until(lambda: stage.told > called)
    assert not stage.asked
    stage.log.listen(stage.listener, follow=Follow.END)
    await until(lambda: stage.asked, what="a poll")
    stage.log.unlisten(stage.listener)
    assert changes == [Follow.LEDGERS, Follow.END, Follow.ENTRIES]


async def test_entries_that_were_readable_before_any_listener_needed_some_are_not_read_for_all(stage):
    stage.log.listen(stage.listener, follow=Follow.LEDGERS)
    stage.topic(3)
    stage.ledger(3)
    stage.log.confirm(Position(3, 500))
    await settle()
    stage.log.listen(stage.listener)
    called = stage.told
    stage.keep(3, 501)
    stage.log.confirm(Position(3, 501))
    await until(lambda: stage.told > called)
    stage.keep(3, 502)
    stage.log.confirm(Position(3, 502))
    await until(lambda: stage.bursts)
    assert stage.bursts[-1].first == Position(3, 502)
    assert stage.log._reads is None


def pushed(ledger_id, entry_id):
    return TopicEntry(Entry(ledger_id, entry_id, entry_id, 0, b"x"))


async def test_a_pushed_entry_of_a_ledger_that_is_not_known_yet_is_readable_once_it_is(stage):
    stage.topic(3)
    stage.ledger(3)
    stage.log.suspend_polls()
    stage.log.push([pushed(5, 0)], 0.0)
    stage.log.push([pushed(5, 2)], 0.0)
    assert stage.log.limit is None
    stage.topic((3, 4), 5)
    assert stage.log.limit == (3, 3)
    stage.ledger(5)
    assert stage.log.limit == (5, 2)


async def test_a_topic_that_the_owner_will_push_is_not_polled_unless_it_does_not(stage):
    stage.log.expect_push()
    stage.topic(3)
    stage.ledger(3)
    stage.log.listen(stage.listener, follow=Follow.LEDGERS)
    stage.log.listen(stage.listener)
    stage.log.confirm(Position(3, 5))
    await settle()
    assert (stage.log.limit, stage.asked) == (Position(3, 5), [])
    stage.log.suspend_polls()
    stage.log.expect_no_push()
    await settle()
    assert not stage.asked
    stage.log.expect_push()
    stage.log.expect_no_push()
    await until(lambda: stage.asked, what="a poll")


async def test_the_end_of_pushes_does_not_resume_the_polls_of_a_closed_log(stage):
    stage.topic(3)
    stage.ledger(3)
    stage.log.suspend_polls()
    stage.log.close()
    stage.log.push_ended()
    stage.log.expect_no_push()
    await settle()
    assert not stage.asked


async def test_a_new_ledger_is_polled_for_a_while_unless_the_owner_pushes_an_entry_of_it(monkeypatch, stage):
    monkeypatch.setattr(tail_polls, "NEW_LEDGER_POLL_S", 0.2)
    monkeypatch.setattr(tail_polls, "NEW_PUSH_S", 60.0)
    stage.topic(3)
    stage.log.suspend_polls()
    stage.ledger(3)
    await settle()
    assert (stage.asked, stage.log._polls.timers) == ([], {}), "its owner has just begun to push"
    monkeypatch.setattr(tail_polls, "NEW_PUSH_S", 0.0)
    stage.topic((3, 1), 5)
    stage.ledger(5)
    await until(lambda: stage.asked, what="a poll of the new ledger")
    stage.log.push([pushed(5, 0)], 0.0)
    assert not stage.log._polls.timers
    stage.topic((3, 1), (5, 1), 6)
    stage.ledger(6)
    assert list(stage.log._polls.timers) == [6]
    await until(lambda: not stage.log._polls.timers)


def test_explicit_lac_is_known_of_open_ledgers_only():
    log = TopicLog.__new__(TopicLog)
    log._tails = {}
    assert log.explicit_lac is None
    log._tails = {1: SimpleNamespace(explicit=False)}
    assert log.explicit_lac is False
    log._tails[2] = SimpleNamespace(explicit=True)
    assert log.explicit_lac is True
