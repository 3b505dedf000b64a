"""The read loop of a subscription: its listeners, and entries that storage does not return."""

import asyncio
from types import SimpleNamespace

import pytest
from readonly_engine.broker.dispatch.consumer_state import Delivery
from readonly_engine.broker.dispatch.latency import LatencySampler
from readonly_engine.broker.dispatch.make import make_consumer_state
from readonly_engine.broker.subscription import delivery
from readonly_engine.broker.subscription.local_keeper import LocalKeeper
from readonly_engine.broker.subscription.subscription import Subscription
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.topic.cache import LARGE_ENTRY
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.topic.position import Position
from readonly_engine.topic.tail_batch import TailBatch
from readonly_engine.wire.commands import NO_EPOCH
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.message_pb2 import MessageMetadata
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

from tests.support.ledgers import chain_of
from tests.support.subscription_parts import subscription_parts
from tests.support.waiting import until

TOPIC = parse_topic_name("persistent://public/default/orders")


class Listeners:
    """Keeps the listeners of a topic."""

    def __init__(self):
        self.listening = {}

    def listen(self, listener, *, latency_tolerant=None):
        self.listening[listener] = latency_tolerant

    def unlisten(self, listener):
        self.listening.pop(listener, None)


class Transactions:
    """Allows the entries up to a limit; keeps those who wait for more."""

    def __init__(self):
        self.limit = Position(0, 2)
        self.waiting = []

    def allows(self, position):
        return position <= self.limit

    def permitted(self, entries):
        return [entry for entry in entries if self.allows(entry.position)]

    def call_on_move(self, waiting):
        self.waiting.append(waiting)

    def forget(self, waiting):
        self.waiting = [one for one in self.waiting if one != waiting]


class Log(Listeners):
    """A topic of three entries, none of which is cached."""

    topic = TOPIC
    latest_batch = None
    notifying = False

    def __init__(self):
        super().__init__()
        self.chain = chain_of(0, lac=2)

    def defer_to_notification(self, _):
        return False

    def cached(self, *_):
        return []


def subscription(log, transactions, kind=CommandSubscribe.Exclusive, on_unreadable=None, local=None, latency=None):
    subscribe = CommandSubscribe(topic=str(TOPIC), subscription="s", sub_type=kind, durable=True)
    given = {"latency": latency or LatencySampler()}
    if local is not None:
        given["keeper"] = LocalKeeper(None, local, kind)
    parts = subscription_parts(log, subscribe, transactions, Position(0, -1), Position(0, 2), **given)
    return Subscription(parts, on_unreadable)


def consumer_of(kind=CommandSubscribe.Exclusive, deliver=lambda *_: None, *, permits, **given):
    """A consumer with permits, at its owner."""
    state = make_consumer_state(CommandSubscribe(sub_type=kind), writable=True)
    state.permits = permits
    owner_consumer = SimpleNamespace(share_acks=lambda _: None)

    def deliver_pieces(pieces, messages):
        frames = b"".join(pieces)
        deliver(frames, messages)
        return len(frames)

    return SimpleNamespace(
        dispatch_state=state,
        lease_valid=True,
        consumer_id=0,
        deliver=deliver,
        deliver_pieces=deliver_pieces,
        owner_consumer=owner_consumer,
        **given,
    )


async def test_an_entry_that_storage_does_not_return_is_reported(monkeypatch):
    reported = []

    async def never(*_, **__):
        return "no bookie has it"

    monkeypatch.setattr(delivery, "read_with_retry", never)
    made = subscription(Log(), Transactions(), on_unreadable=lambda *found: reported.append(found) or made.close())
    made.start()
    made.add(consumer_of(permits=1))
    await until(lambda: bool(reported))
    assert reported == [(made, Position(0, 0), "no bookie has it")]


async def test_a_local_subscription_reads_on_because_no_owner_can_serve_it(monkeypatch):
    attempts, reported = [], []

    async def never(_, position, *__, **___):
        attempts.append(position)
        await asyncio.sleep(0)
        return "no bookie has it"

    monkeypatch.setattr(delivery, "read_with_retry", never)
    local = SimpleNamespace(serve=lambda _: None, release=lambda _: None)
    made = subscription(Log(), Transactions(), on_unreadable=lambda *found: reported.append(found), local=local)
    made.start()
    made.add(consumer_of(permits=1))
    await until(lambda: len(attempts) > 3)
    made.close()
    assert set(attempts) == {Position(0, 0)}
    assert not reported


class CachedLog(Log):
    """The same with all entries in the cache."""

    def __init__(self):
        super().__init__()
        metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1).SerializeToString()
        stored = len(metadata).to_bytes(4, "big") + metadata
        self.entries = [TopicEntry(Entry(0, number, number - 1, 0, stored)) for number in range(3)]

    def cached(self, first, count):
        return self.entries[first.entry_id :][:count]


@pytest.mark.parametrize("kind", [CommandSubscribe.Exclusive, CommandSubscribe.Shared])
async def test_what_the_owner_does_not_allow_yet_is_delivered_when_it_does_and_asked_for_once(kind):
    transactions, got = Transactions(), []
    transactions.limit = Position(0, 0)
    made = subscription(CachedLog(), transactions, kind)
    made.start()
    made.add(consumer_of(kind, lambda _, count: got.append(count), permits=10))
    assert sum(got) == 1
    assert transactions.waiting == [made.read_more]
    transactions.limit = Position(0, 2)
    transactions.waiting.pop()()
    assert sum(got) == 3
    assert transactions.waiting == [], "nothing is left to wait for"
    made.close()


@pytest.mark.parametrize("kind", [CommandSubscribe.Exclusive, CommandSubscribe.Shared])
@pytest.mark.parametrize("takes", [True, False])
@pytest.mark.parametrize("body", [b"", bytes(LARGE_ENTRY)], ids=["small", "large"])
async def test_the_owners_metadata_of_entries_is_sent_while_it_is_exposed_to_clients_that_take_it(kind, takes, body):
    front = b"\x0e\x02\0\0\0\x02\x10\x07"
    log, got = CachedLog(), []
    log.entries = [TopicEntry(Entry(0, n, n - 1, 0, front + one.stored + body)) for n, one in enumerate(log.entries)]
    made = subscription(log, Transactions(), kind)
    consumer = consumer_of(kind, lambda frames, _: got.append(front in frames), permits=0, takes_entry_metadata=takes)
    made.add(consumer)
    for exposed in (None, True, False):
        if exposed is not None:
            made.expose_entry_metadata(exposed=exposed)
        consumer.dispatch_state.permits = 1
        made.add_permits(consumer, 1)
    assert got == [False, takes, False]
    made.close()


@pytest.mark.parametrize("kind", [CommandSubscribe.Exclusive, CommandSubscribe.Shared])
@pytest.mark.parametrize(("latest", "notifying"), [(False, False), (False, True), (True, True), (True, False)])
async def test_a_delivery_is_a_sample_of_latency_while_one_is_due(kind, latest, notifying):
    """The last entry of a quiet topic may be hours old: a client that connects or has permits then is no measure of the tail."""
    tail = latest and notifying
    log, timers = CachedLog(), []
    if latest:
        log.latest_batch = TailBatch(log.entries, Position(0, 3))
    log.notifying = notifying
    latency = LatencySampler(timers.append, lambda: 2.001)
    made = subscription(log, Transactions(), kind, latency=latency)
    made.start()
    consumer = consumer_of(kind, permits=1)
    made.add(consumer)
    measured, other = (latency.tail, latency.backlog) if tail else (latency.backlog, latency.tail)
    assert (sum(measured.counts), measured.total) == (1, 2.0)
    consumer.dispatch_state.permits = 2
    made.add_permits(consumer, 2)
    assert sum(measured.counts) == 1, "no sample is due"
    assert sum(other.counts) == 0
    assert len(timers) == 1
    made.close()


async def test_a_redelivery_is_no_sample_of_latency():
    log, latency = CachedLog(), LatencySampler(lambda _: None)
    made = subscription(log, Transactions(), CommandSubscribe.Shared, latency=latency)
    consumer = consumer_of(CommandSubscribe.Shared, permits=0)
    made.add(consumer)
    made._send([Delivery(consumer.dispatch_state, log.entries[0], 1)])
    assert latency.due
    made._send([Delivery(consumer.dispatch_state, log.entries[0], 0)])
    assert not latency.due
    assert sum(latency.backlog.counts) == 1
    made.close()


async def test_a_backlog_of_large_entries_is_sent_in_the_frames_of_a_small_one_and_counted():
    log, got = CachedLog(), []
    log.entries = [
        TopicEntry(Entry(0, n, n - 1, 0, one.stored + bytes(LARGE_ENTRY))) for n, one in enumerate(log.entries)
    ]
    made = subscription(log, Transactions())
    made.add(consumer_of(deliver=lambda *found: got.append(found), permits=3))
    frames = TailBatch(log.entries, Position(0, 3)).frames(0, -1, NO_EPOCH)
    assert got == [(frames, 3)]
    assert (made.counters.entries, made.counters.messages, made.counters.bytes) == (3, 3, len(frames))
    made.close()
