"""Subscriptions at the tail of a topic on a cluster with transactions: together, and never before the owner."""

import asyncio
from contextlib import asynccontextmanager, closing
from types import SimpleNamespace

import pytest
from readonly_engine.broker.dispatch.make import make_consumer_state
from readonly_engine.broker.fanout.tail_fanout import TailFanout
from readonly_engine.broker.subscription.subscription import Subscription
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.net.direct_writer import NO_DESCRIPTOR
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.topic.position import Position
from readonly_engine.topic.tail_notifier import TailNotifier
from readonly_engine.topic.transactions import TopicTransactions
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.message_pb2 import MessageMetadata
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

from tests.support.ledgers import chain_of
from tests.support.subscription_parts import subscription_parts
from tests.support.waiting import until

TOPIC = parse_topic_name("persistent://public/default/orders")
METADATA = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1).SerializeToString()
STORED = len(METADATA).to_bytes(4, "big") + METADATA
READERS = 5


class Log:
    """A topic of one ledger with a real chain and a real notifier; all entries are cached."""

    topic = TOPIC

    def __init__(self):
        self.chain = chain_of(0, lac=-1)
        self.entries = []
        self.notifier = TailNotifier(self)
        self.listen, self.unlisten = self.notifier.listen, self.notifier.unlisten
        self.defer_to_notification, self.limit_dispatches = self.notifier.defer_to_notification, self.notifier.set_limit

    @property
    def latest_batch(self):
        return self.notifier.latest_batch

    def cached(self, first, count):
        return [one for one in self.entries[first.entry_id :][:count] if self.chain.readable(one.position)]

    async def read(self, first, count, *, exact=False):
        assert not exact
        return self.cached(first, count)

    def write(self, count=1):
        new = [TopicEntry(Entry(0, len(self.entries) + n, len(self.entries) + n - 1, 0, STORED)) for n in range(count)]
        self.entries += new
        self.notifier.on_entries(new)
        self.chain.lac_advanced(0, len(self.entries) - 1)
        self.notifier.on_limit_changed()


class Writer:
    """A connection that accepts everything."""

    tls = True
    descriptor = NO_DESCRIPTOR

    def send(self, data):
        """Drop the bytes."""


class Scene:
    """A topic, its owner, and subscriptions with one consumer each."""

    def __init__(self):
        self.log = Log()
        self.held_from = None
        self.asked = 0
        self.transactions = TopicTransactions(self.log, self)
        self.transactions.guard()
        self.fanout = TailFanout(self.log, self.transactions)
        self.subscriptions = [self.subscription(number) for number in range(READERS)]

    @property
    def limit(self):
        """The last entry that the owner delivers."""
        return Position(0, (len(self.log.entries) if self.held_from is None else self.held_from) - 1)

    async def last_message(self):
        self.asked += 1
        await asyncio.sleep(0)
        return self.limit

    max_read_position = last_message

    async def transaction(self, _):
        return None

    def subscription(self, number):
        command = CommandSubscribe(topic=str(TOPIC), subscription=str(number), durable=True)
        begin = Position(0, -1)
        parts = subscription_parts(self.log, command, self.transactions, begin, begin, fanout=self.fanout)
        made = Subscription(parts, None)
        made.start()
        state = make_consumer_state(command, writable=True)
        state.permits = 1000
        made.add(
            SimpleNamespace(
                dispatch_state=state,
                lease_valid=True,
                consumer_id=number,
                messages=0,
                bytes=0,
                deliver=lambda *_: None,
                connection=Writer(),
            )
        )
        return made

    def received(self):
        """Number of entries that each subscription has delivered."""
        for subscription in self.subscriptions:
            subscription.flush_accounting()
        return [subscription.counters.entries for subscription in self.subscriptions]

    @property
    def together(self):
        return all(subscription._membership is not None for subscription in self.subscriptions)

    async def all_receive(self, count):
        await until(lambda: self.received() == [count] * READERS, what=f"{self.received()} is not {count} each")

    def close(self):
        for subscription in self.subscriptions:
            subscription.close()
        self.transactions.close()
        self.log.notifier.close()


@pytest.fixture
@asynccontextmanager
async def topic():
    with closing(Scene()) as made:
        yield made


async def test_one_answer_covers_a_batch_for_all_subscriptions_and_they_stay_together(topic):
    for batch in range(20):
        topic.log.write(2)
        await topic.all_receive(2 * (batch + 1))
        assert topic.together == (batch > 0), "the first entries of an empty topic come to each alone"
    assert topic.asked <= 20


async def test_nothing_is_delivered_before_the_owner_allows_it_and_all_go_on_together(topic):
    topic.log.write()
    await topic.all_receive(1)
    topic.held_from = 2
    topic.log.write(4)
    await topic.all_receive(2)
    asked = topic.asked
    for _ in range(3):
        topic.log.write()
        await until(lambda asked=asked: topic.asked > asked)
        asked = topic.asked
        assert topic.received() == [2] * READERS
    topic.held_from = None
    await topic.all_receive(8)
    topic.log.write()
    await topic.all_receive(9)
    topic.log.write()
    await topic.all_receive(10)
    assert topic.together
