import asyncio
from contextlib import asynccontextmanager, closing
from types import SimpleNamespace

import pytest
from readonly_engine.broker.passthrough import policy as pass_through
from readonly_engine.broker.passthrough.policy import PassThroughPolicy
from readonly_engine.broker.passthrough.pool_metadata import (
    MAX_METADATA_BYTES,
    POOL_KEY,
    add_pool_metadata,
    direct_consumers,
)
from readonly_engine.broker.passthrough.reasons import Reason
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.topic.position import Position
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe
from readonly_engine.wire.subscribe_info import SubscribeInfo

from tests.support.waiting import until

TOPIC = parse_topic_name("orders")
SHARED = CommandSubscribe.Shared


def stats(*pools):
    """Statistics of a topic with one subscription; for each of its consumers the pool that it is of, None for none."""
    consumers = [
        {"address": f"/10.0.0.{n}:1", "metadata": {} if pool is None else {POOL_KEY: pool}}
        for n, pool in enumerate(pools)
    ]
    return {"subscriptions": {"s": {"consumers": consumers}}}


@pytest.mark.parametrize(
    ("pools", "direct"),
    [((), []), (("ours",), []), (("ours", None), ["/10.0.0.1:1"]), (("another", "ours"), ["/10.0.0.0:1"])],
)
def test_consumers_that_are_not_of_the_pool_are_connected_directly(pools, direct):
    assert direct_consumers(stats(*pools), "s", "ours") == direct
    assert direct_consumers(stats(*pools), "other", "ours") == []


def test_the_mark_is_put_beside_the_clients_own_metadata_unless_the_owner_would_refuse_so_much():
    subscribe = CommandSubscribe()
    subscribe.metadata.add(key="k", value="v")
    add_pool_metadata(subscribe, "ours")
    assert {pair.key: pair.value for pair in subscribe.metadata} == {"k": "v", POOL_KEY: "ours"}
    room = MAX_METADATA_BYTES - len(POOL_KEY) - len("ours")
    for size, marked in ((room, True), (room + 1, False)):
        subscribe = CommandSubscribe()
        subscribe.metadata.add(key="k", value="v" * (size - 1))
        add_pool_metadata(subscribe, "ours")
        assert (len(subscribe.metadata) == 2) == marked


class Admin:
    """An owner whose state a test sets."""

    def __init__(self):
        self.consumers = stats()
        self.filters = ""
        self.clusters = ["here"]
        self.asked = self.filter_asked = 0
        self.shared_filters = None  # topics have their own
        self.version_of_policies = None  # changes are not seen

    async def entry_filters(self, _topic, _max_age_s):
        return self.shared_filters

    async def version(self, _topic, _max_age_s):
        return self.version_of_policies

    async def stats(self, _topic):
        self.asked += 1
        await asyncio.sleep(0)
        if isinstance(self.consumers, Exception):
            raise self.consumers
        return self.consumers

    async def policy(self, _topic, name):
        if name == "replication":
            return self.clusters
        assert name == "entryFilters"
        self.filter_asked += 1
        return {"entryFilterNames": self.filters}


class ServedConsumer:
    """A consumer that records the reasons of its closes."""

    def __init__(self, kind=SHARED, name="s"):
        self.topic = TOPIC
        self.info = SubscribeInfo(name, kind)
        self.reasons = []
        self.close_for_resubscribe = self.reasons.append


class ServedSubscriptions:
    """Subscriptions that are served, with one consumer each."""

    def __init__(self):
        self.subscriptions = []

    def add(self, kind=SHARED, name="s", *, local=False):
        consumer = ServedConsumer(kind, name)
        subscription = SimpleNamespace(
            topic=TOPIC, name=name, kind=kind, at_owner=not local, consumers=[consumer], pause=lambda _: None
        )
        self.subscriptions.append(subscription)
        return consumer


@pytest.fixture
@asynccontextmanager
async def played(monkeypatch):
    """A PassThroughPolicy that looks often and changes its mind soon, its admin API, subscriptions and storage."""
    monkeypatch.setattr(pass_through, "POLL_INTERVAL_S", 0.01)
    monkeypatch.setattr(pass_through, "MAX_CHECKS_PER_S", 1000.0)
    monkeypatch.setattr(pass_through, "FILTERS_TTL_S", 0.01)
    monkeypatch.setattr(pass_through, "UNSEEN_TTL_S", 0.01)
    monkeypatch.setattr(pass_through, "CACHE_TTL_S", 0.0)
    monkeypatch.setattr("readonly_engine.broker.passthrough.reasons.ABSENT_S", (0.05, 0.1))
    admin, served, storage = Admin(), ServedSubscriptions(), SimpleNamespace(readable=False, tried=0)

    async def readable(_topic, _position):
        storage.tried += 1
        return storage.readable

    with closing(PassThroughPolicy(admin, admin, "ours", lambda: list(served.subscriptions), readable)) as passing:
        yield passing, admin, served, storage


def subscribe(kind=SHARED, **options):
    return CommandSubscribe(sub_type=kind, subscription="s", **options)


def enter(passing):
    """A consumer that passes through."""
    consumer = ServedConsumer()
    passing.add(consumer)
    return consumer


async def test_a_shared_subscription_with_a_direct_consumer_passes_until_that_is_gone(monkeypatch, played):
    passing, admin, _, _ = played
    admin.consumers = stats(None)
    assert await passing.admit(TOPIC, subscribe())
    consumer = enter(passing)
    (found,) = passing.passed_through
    assert (found.reason, found.consumers) == (Reason.DIRECT_CONSUMERS, 1)
    assert found.text.startswith("consumers that are connected to the owner directly: 1, one of them from /10.0.0.0")
    admin.consumers = stats("ours")
    await until(lambda: consumer.reasons)
    passing.remove(consumer)
    assert list(passing.passed_through) == []
    assert not await passing.admit(TOPIC, subscribe())


async def test_a_direct_consumer_that_comes_later_is_found(monkeypatch, played):
    passing, admin, served, _ = played
    assert not await passing.admit(TOPIC, subscribe())
    consumer = served.add()
    await until(lambda: admin.asked > 3)
    assert not consumer.reasons
    admin.consumers = stats("ours", None)
    await until(lambda: consumer.reasons)
    assert await passing.admit(TOPIC, subscribe())


async def test_a_subscription_that_is_kept_here_needs_the_owner_for_filters_and_replication_only(monkeypatch, played):
    passing, admin, served, _ = played
    admin.consumers = stats(None)
    consumer = served.add(local=True)
    assert await passing.refusal(TOPIC, subscribe()) == ""
    await until(lambda: admin.filter_asked > 3)
    assert admin.asked == 0
    passing.on_unreadable(served.subscriptions[0], Position(1, 1), "no bookie answers")
    assert await passing.refusal(TOPIC, subscribe()) == ""
    replicated = subscribe(CommandSubscribe.Exclusive)
    replicated.replicate_subscription_state = True
    admin.clusters = ["here", "there"]
    assert await passing.refusal(TOPIC, replicated) == "the subscription is replicated to here, there"
    consumer.reasons.clear()
    admin.filters = "only-even"
    await until(lambda: consumer.reasons)
    assert await passing.refusal(TOPIC, subscribe()) == "the owner filters entries with only-even"


async def test_one_answer_about_filters_serves_all_topics_of_a_namespace(monkeypatch, played):
    passing, admin, served, _ = played
    admin.shared_filters = ""
    assert not await passing.admit(TOPIC, subscribe(CommandSubscribe.Exclusive))
    consumers = [served.add(CommandSubscribe.Exclusive, f"s-{number}") for number in range(20)]
    for number, subscription in enumerate(served.subscriptions):
        subscription.topic = parse_topic_name(f"orders-{number}")
    admin.shared_filters = "only-even"
    await until(lambda: all(consumer.reasons for consumer in consumers))
    assert await passing.admit(TOPIC, subscribe(CommandSubscribe.Exclusive))
    assert admin.asked == 0
    passed = enter(passing)
    admin.shared_filters = ""
    await until(lambda: passed.reasons)
    assert admin.filter_asked == 0, "no topic is asked about"


async def test_what_cannot_be_read_passes_until_it_can(monkeypatch, played):
    passing, _, served, storage = played
    consumer = served.add()
    assert not await passing.admit(TOPIC, subscribe())
    passing.on_unreadable(served.subscriptions[0], Position(3, 4), "no bookie")
    assert consumer.reasons == ["no bookie"]
    served.subscriptions.clear()
    assert await passing.admit(TOPIC, subscribe())
    passed = enter(passing)
    tried = storage.tried
    await until(lambda: storage.tried > tried + 10)
    assert not passed.reasons
    storage.readable = True
    await until(lambda: passed.reasons)
    assert not await passing.admit(TOPIC, subscribe())


async def test_an_owner_that_does_not_say_who_is_there_refuses_a_new_consumer_and_leaves_the_others(
    monkeypatch, played
):
    passing, admin, served, _ = played
    consumer = served.add()
    assert not await passing.admit(TOPIC, subscribe())
    admin.consumers = OwnerUnavailableError("no answer")
    with pytest.raises(OwnerUnavailableError):
        await passing.admit(TOPIC, subscribe())
    asked = admin.asked
    await until(lambda: admin.asked > asked + 2)
    assert not consumer.reasons


async def test_consumers_that_come_together_share_one_question():
    admin = Admin()
    passing = PassThroughPolicy(admin, admin, "ours", list, None)
    await asyncio.gather(*(passing.admit(TOPIC, subscribe()) for _ in range(20)))
    assert admin.asked == 1
    passing.close()


async def test_a_replicated_subscription_passes_as_long_as_its_topic_is_replicated(monkeypatch, played):
    passing, admin, _, _ = played
    replicated = subscribe(CommandSubscribe.Exclusive, replicate_subscription_state=True)
    assert not await passing.admit(TOPIC, replicated)
    admin.clusters = ["here", "there"]
    assert not await passing.admit(TOPIC, subscribe(CommandSubscribe.Exclusive))
    assert await passing.admit(TOPIC, replicated)
    consumer = enter(passing)
    assert next(passing.passed_through).reason == Reason.REPLICATED
    admin.clusters = ["here"]
    await until(lambda: consumer.reasons)
