"""How a consumer joins its subscription, with everything around it played."""

import asyncio
from types import SimpleNamespace

import pytest
from readonly_engine.broker.dispatch.counters import Counters
from readonly_engine.broker.subscription import subscription_starter, topics
from readonly_engine.broker.subscription.kept import Kept
from readonly_engine.broker.subscription.local_keeper import LocalKeeper
from readonly_engine.broker.subscription.owner_keeper import OwnerKeeper
from readonly_engine.broker.subscription.served_topic import ServedTopic
from readonly_engine.broker.subscription.topic_links import TopicLinks
from readonly_engine.broker.subscription.topics import TopicRegistry
from readonly_engine.broker.tail.budget import PushTotals
from readonly_engine.lease_guard import LeaseGuard
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.consumer_events import OwnerCursorState
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.topic.position import Position
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe
from readonly_engine.wire.subscribe_info import SubscribeInfo

from tests.support.played_admin import PlayedAdmin
from tests.support.waiting import until

TOPIC = parse_topic_name("orders")
STATE = OwnerCursorState(Position(1, 9), Position(1, 9))


def ignore_unreadable(*_):
    """Wait for storage."""


class Log:
    """A topic that is open, and empty behind the cursor."""

    def __init__(self, *_):
        self.chain = SimpleNamespace(after=lambda position: Position(position.ledger_id, position.entry_id + 1))
        self.owner_end = object()
        self.closed = self.polled = False

    def expect_no_push(self):
        self.polled = True

    async def opened(self):
        pass

    def confirm(self, last):
        pass

    def limit_dispatches(self, limit):
        pass

    def close(self):
        self.closed = True


class Subscription:
    """One with acks in transactions to find out about first."""

    made, durable = None, True

    def __init__(self, *_):
        self.topic, self.name = TOPIC, "s"
        self.closed = False
        self.replaying = asyncio.Event()
        self.replay = asyncio.Event()
        Subscription.made = self

    def start(self):
        pass

    async def replay_pending_acks(self):
        self.replaying.set()
        await self.replay.wait()

    def close(self):
        self.closed = True


class OwnerConsumer:
    """A consumer at an owner who says where the subscription stands."""

    subscribed = True

    def __init__(self, subscribe):
        self.asked = 0
        self.gate = None

    def hold_early_acks(self, gate):
        self.gate = gate

    async def state(self):
        self.asked += 1
        return STATE


def registry(*, cache=None, batches=None, **configuration):
    """A registry of an owner whose brokers have no transactions, if the test does not say otherwise."""
    admin = PlayedAdmin(configuration={"transactionCoordinatorEnabled": "false"} | configuration)
    made = TopicRegistry(PlayedAdmin(topic=object()), None, cache, admin, None, ignore_unreadable, batches=batches)
    return made, admin


@pytest.fixture(autouse=True)
def _played_parts(monkeypatch):
    monkeypatch.setattr(topics, "TopicLog", Log)
    monkeypatch.setattr(subscription_starter, "Subscription", FakeSubscription)


@pytest.mark.parametrize("ends", ["its client leaves", "its owner closes it"])
async def test_a_subscription_that_is_not_joined_after_all_is_closed(monkeypatch, ends):
    monkeypatch.setattr(subscription_starter, "Subscription", Subscription)
    subscribe = CommandSubscribe(subscription="s", durable=True)
    owner_consumer = OwnerConsumer(subscribe)
    consumer = Consumer(subscribe)
    consumer.owner_consumer = owner_consumer
    Subscription.made = None
    served, _ = registry(transactionCoordinatorEnabled="true")
    joining = asyncio.create_task(served.join(TOPIC, consumer, lambda _: None))
    async with asyncio.timeout(10):
        while Subscription.made is None:
            await asyncio.sleep(0)
        await Subscription.made.replaying.wait()
        if ends == "its client leaves":
            joining.cancel()
            with pytest.raises(asyncio.CancelledError):
                await joining
        else:
            consumer.in_sync = False
            Subscription.made.replay.set()
            with pytest.raises(OwnerUnavailableError):
                await joining
    assert Subscription.made.closed
    assert not list(served.all)


class Consumer:
    """One that is at the owner."""

    in_sync = True

    def __init__(self, subscribe, local=None):
        self.local = local
        self.subscribe_command, self.info = subscribe, SubscribeInfo.of(subscribe)
        self.owner_consumer = OwnerConsumer(subscribe)

    def keeper(self, queries):
        if self.local is None:
            return OwnerKeeper(queries, TOPIC, self.info)
        return LocalKeeper(queries, self.local, self.info.kind)


class FakeSubscription:
    """A subscription whose consumers join and leave."""

    durable, topic, name, batches = True, TOPIC, "s", []
    kind = CommandSubscribe.Exclusive

    def __init__(self, *given):
        self.given = given
        self.at_owner = given[0].keeper.at_owner
        self.started = False
        self.consumers = []
        self.counters = given[0].counters

    def start(self):
        self.started = True

    def add(self, consumer):
        self.consumers.append(consumer)

    def remove(self, consumer):
        self.consumers.remove(consumer)

    def close(self):
        pass


class LocalCursor:
    """The part of a local subscription that a joining consumer reads."""

    topic, mark_delete = TOPIC, Position(1, 9)
    ranges = batches = ()

    def __init__(self):
        self.cursor, self.generation, self.valid = self, 1, True
        self.refresh = lambda: None

    def is_served_by(self, _):
        return self.valid


async def test_a_seek_of_a_local_subscription_is_not_undone_by_a_consumer_that_is_joining():
    """Either the cursor moves after its position was read, or the dispatcher of the former position is still there."""

    def consumer(local):
        return Consumer(CommandSubscribe(subscription="s", durable=True), local)

    (served, _), local = registry(), LocalCursor()

    def seek_meanwhile():
        local.generation += 1

    local.refresh = seek_meanwhile
    with pytest.raises(OwnerUnavailableError, match="was moved meanwhile"):
        await served.join(TOPIC, consumer(local), lambda _: None)
    assert not list(served.all)
    local.refresh = lambda: None
    joined = await served.join(TOPIC, consumer(local), lambda _: None)
    assert [one.log.polled for _, one in served.all] == [True], "a local cursor does not know the end of the topic"
    local.valid = False
    with pytest.raises(OwnerUnavailableError, match="closed after a SEEK"):
        await served.join(TOPIC, consumer(local), lambda _: None)
    with pytest.raises(OwnerUnavailableError, match="the last consumers of the local cursor of s leave"):
        await served.join(TOPIC, consumer(None), lambda _: None)  # an export is just over
    assert len(joined.consumers) == 1
    served.close()


@pytest.mark.parametrize("taken_before", [False, True])
async def test_a_subscription_begins_anew_once_the_owner_has_taken_the_acks_of_those_who_have_left(
    monkeypatch, taken_before
):
    """A consumer comes, and asks the owner; before it has joined the only other one leaves, whose last acks are on their way."""
    subscribe = CommandSubscribe(subscription="s", durable=False)
    first, second = Consumer(subscribe), Consumer(subscribe)
    key = (TOPIC, "s")
    served, _ = registry()
    before = await served.join(TOPIC, first, lambda _: None)
    assert [one.log.polled for _, one in served.all] == [False]
    guard, asked, proceed = served._guard_reads, asyncio.Event(), asyncio.Event()

    async def slow(*args):
        asked.set()
        await proceed.wait()
        await guard(*args)

    monkeypatch.setattr(served, "_guard_reads", slow)
    joining = asyncio.create_task(served.join(TOPIC, second, lambda _: None))
    await asked.wait()
    served.leave(before, first, lambda: True)
    if taken_before:
        served.leaving.remove(key, first)
    proceed.set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert joining.done() == taken_before
    assert second.owner_consumer.asked == 1 + taken_before
    served.leaving.remove(key, first)
    assert (await joining) is not before
    assert second.owner_consumer.asked == 2
    assert not served.leaving.pending(key)
    served.close()


@pytest.mark.parametrize("ours", [False, True])
async def test_batches_are_handed_over_by_a_broker_that_has_the_claim_only(monkeypatch, ours):
    """Another that has it by now knows more of them, and may have handed them over already."""
    monkeypatch.setattr(FakeSubscription, "batches", [(Position(1, 2), 3)])
    monkeypatch.setattr(FakeSubscription, "marked", True, raising=False)
    consumer = Consumer(CommandSubscribe(subscription="s", durable=True))
    kept = []
    batches = SimpleNamespace(save=lambda *asked: kept.append(asked), load=None, close=lambda: None)
    served, _ = registry(batches=batches)
    subscription = await served.join(TOPIC, consumer, lambda _: None)
    served.leave(subscription, consumer, lambda: ours)
    served.close()
    assert len(kept) == ours


async def test_the_owners_metadata_of_entries_is_exposed_as_by_its_brokers(monkeypatch):
    told, cleared = [], []
    monkeypatch.setattr(
        FakeSubscription, "expose_entry_metadata", lambda _, *, exposed: told.append(exposed), raising=False
    )

    async def exposed_to(served, name, *, takes):
        consumer = Consumer(CommandSubscribe(subscription=name))
        consumer.takes_entry_metadata, consumer.dispatch_state = takes, SimpleNamespace(exposed=False)
        await served.join(TOPIC, consumer, lambda _: None)
        return consumer.dispatch_state.exposed

    served, admin = registry(cache=SimpleNamespace(clear=lambda: cleared.append(1)))
    assert not await exposed_to(served, "before", takes=True)
    for exposing, expected in (("false", []), ("true", [True]), ("true", [True]), ("false", [True, False])):
        admin.answers["configuration"] = {"exposingBrokerEntryMetadataToClientEnabled": exposing}
        await served._queries.configuration(0)
        assert told == expected
        if exposing == "true":
            assert await exposed_to(served, "before", takes=True)
            assert not await exposed_to(served, "before", takes=False)
    assert not await exposed_to(served, "before", takes=True)
    assert cleared == [1], "an owner that did not expose it may have pushed entries without it"
    served.close()


async def test_a_subscription_is_started_and_reports_unreadable_entries():
    served, _ = registry()
    joined = []
    for durable in (False, True):
        consumer = Consumer(CommandSubscribe(subscription=f"s-{durable}", durable=durable))
        joined.append((await served.join(TOPIC, consumer, lambda _: None), consumer.owner_consumer.gate is not None))
    served.close()
    (subscription, gated), (_, durable_gated) = joined
    assert (gated, durable_gated) == (False, True), "only a stored cursor outlives a broker"
    assert subscription.started
    assert ignore_unreadable in subscription.given


async def test_a_crowd_of_topics_is_opened_a_bounded_number_at_a_time(monkeypatch):
    made = []

    class Opening(Log):
        def __init__(self, *given):
            super().__init__(*given)
            self.known = asyncio.get_running_loop().create_future()
            made.append(self)

        async def opened(self):
            await self.known

    monkeypatch.setattr(topics, "MAX_OPENING", 3)
    monkeypatch.setattr(topics, "TopicLog", Opening)
    served, _ = registry()
    names = [parse_topic_name(f"t{number}") for number in range(8)]
    joins = []
    for topic in names:
        consumer = Consumer(CommandSubscribe(subscription="s", durable=False))
        joins.append(asyncio.create_task(served.join(topic, consumer, lambda _: None)))
    await until(lambda: len(made) == 3)
    made[0].known.set_exception(MetadataError("not known"))
    joins[1].cancel()
    await until(lambda: len(made) == 5)
    assert [one.closed for one in made] == [True, True, False, False, False]
    joins[7].cancel()  # while it waits for its turn
    for number in range(2, 7):
        await until(lambda number=number: len(made) > number)
        made[number].known.set_result(None)
    ends = await asyncio.gather(*joins, return_exceptions=True)
    assert [isinstance(end, Exception | asyncio.CancelledError) for end in ends] == [True, True] + [False] * 5 + [True]
    assert [topic for topic, _ in served.all] == names[2:7]
    served.close()


class Transactions:
    """Of a topic; knows whether it waits for its owner's word."""

    def __init__(self):
        self.guarded = False

    def guard(self):
        self.guarded = True


async def test_all_topics_wait_for_their_owners_as_soon_as_one_broker_says_that_it_has_transactions(monkeypatch):
    """As while brokers are restarted one by one with transactions switched on."""
    monkeypatch.setattr(topics, "CACHE_TTL_S", 0.0)
    others = [parse_topic_name(name) for name in ("a", "b", "c")]

    async def guarded_after(served, answer, topic):
        admin.answers["configuration"] = answer
        await served.owner_moved(topic)
        return [one.transactions.guarded for _, one in served.all]

    away = OwnerUnavailableError("not now")
    with_transactions, without = ({"transactionCoordinatorEnabled": answer} for answer in ("true", "false"))
    served, admin = registry()
    served._topics = {topic: ServedTopic(Log(), Transactions(), LeaseGuard()) for topic in others}
    assert await guarded_after(served, away, others[0]) == [True, False, False], "nobody says so of the others"
    assert await guarded_after(served, without, others[1]) == [True, False, False]
    assert await guarded_after(served, with_transactions, others[2]) == [True, True, True]
    served._topics[TOPIC] = ServedTopic(Log(), Transactions(), LeaseGuard())
    assert await guarded_after(served, without, TOPIC) == [True] * 4, "one that is not restarted yet"


def pushed_to(served):
    parts = list(served.pushed)
    return sum(one.messages for one in parts), sum(one.bytes for one in parts)


async def test_what_owners_pushed_counts_after_the_end_of_a_topic_or_of_its_tail():
    served, _ = registry()
    assert pushed_to(served) == (0, 0)
    others = [parse_topic_name(name) for name in ("a", "b", "c")]
    for topic in others:
        one = served._topics[topic] = ServedTopic(Log(), SimpleNamespace(close=lambda: None), LeaseGuard())
        one.tail = SimpleNamespace(delivered=PushTotals(5, 50), settings="before", close=lambda: None)
    assert pushed_to(served) == (15, 150)
    served._close_if_unused(others[0], served._topics[others[0]])
    assert (len(list(served.all)), pushed_to(served)) == (2, (15, 150))
    served.bindings_changed()  # none names another source now: the tails end
    assert all(one.tail is None for _, one in served.all)
    assert pushed_to(served) == (15, 150)


async def test_the_tail_is_told_of_consumers_that_leave_and_finds_those_that_stay():
    topics_served, _ = registry()
    consumers = [Consumer(CommandSubscribe(subscription="s", durable=False)) for _ in range(4)]
    connections = [None, "first", "second", "first"]
    for consumer, connection in zip(consumers, connections, strict=True):
        consumer.owner_consumer.owner_connection = connection
        subscription = await topics_served.join(TOPIC, consumer, lambda _: None)
    left = []
    (_, served), *_ = topics_served.all
    served.tail = SimpleNamespace(consumer_left=left.append, close=lambda: None, delivered=PushTotals(0, 0))
    links = TopicLinks(topics_served._links, TOPIC)
    assert [links.connection(one) for one in (None, "second", "gone")] == [
        "first",
        "second",
        "first",
    ]
    topics_served.leave(subscription, consumers[1], lambda: True)
    assert links.connection("first") == "first"
    topics_served.leave(subscription, consumers[3], lambda: True)
    assert links.connection("first") == "second"
    topics_served.leave(subscription, consumers[2], lambda: True)
    assert links.connection("second") is None
    assert left == ["first", "first", "second"]
    topics_served.close()


async def test_deliveries_to_subscriptions_that_are_forgotten_still_count(monkeypatch):
    monkeypatch.setattr(subscription_starter, "MAX_REMEMBERED", 2)
    served, _ = registry()
    for number in range(5):
        served._starter.keep_counters(TOPIC, f"reader-{number}", Counters(messages=1, bytes=10))
    assert len(served.counters) == 2
    assert (served.dropped_counters.messages, served.dropped_counters.bytes) == (3, 30)


async def test_a_sample_of_latency_is_due_again_after_the_interval():
    latency = registry()[0].latency
    latency.observe(SimpleNamespace(deliver_at=0, timestamp=1), tail=True)
    assert not latency.due
    await until(lambda: latency.due)


async def test_polls_of_idle_subscriptions_look_at_a_list_that_stays_the_same():
    served, _ = registry()
    looks = []
    durable = Kept(served.subscriptions, lambda one: looks.append(one) or one.durable)
    consumers = [Consumer(CommandSubscribe(subscription=f"s{number}", durable=False)) for number in range(2)]
    joined = []
    for number, consumer in enumerate(consumers):
        joined.append(await served.join(TOPIC, consumer, lambda _: None))
        joined[-1].name = f"s{number}"
        listed = served.subscriptions()
        assert listed == joined
        for _ in range(3):
            durable()
            assert (served.subscriptions() is listed, served._with_policies() is served._with_policies()) == (
                True,
                True,
            )
        assert looks == joined[:1] * number + joined, "each list is looked at once"
    served.leave(joined[0], consumers[0], lambda: True)
    assert served.subscriptions() == joined[1:]
    served.leave(joined[1], consumers[1], lambda: True)
    assert (served.subscriptions(), served._with_policies(), durable()) == ([], [], [])
    served.close()
