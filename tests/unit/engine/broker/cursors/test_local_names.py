"""Whether a subscription that is new at its owner is a local one, and which questions that costs."""

import asyncio
from types import SimpleNamespace

import pytest
from readonly_engine.broker.cursors import local_names as module
from readonly_engine.broker.cursors.local_names import KEPT_S, LocalSubscriptionNames
from readonly_engine.broker.cursors.local_requests import LocalRequest, request_of
from readonly_engine.broker.cursors.partitions import cursor_topic
from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.metadata.errors import MetadataUnavailableError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe, ServerError

TOPIC = parse_topic_name("orders")
SUBSCRIBE = CommandSubscribe(topic=str(TOPIC), subscription="s", sub_type=CommandSubscribe.Exclusive)
LOCAL = OwnerRefusedError(ServerError.NotAllowedError, "a local cursor")
MISSING = OwnerRefusedError(ServerError.SubscriptionNotFound, "none")
PEER = "pulsar://peer:6650"


class World:
    """A pool with a metadata store, and a clock that the test moves."""

    def __init__(self, monkeypatch):
        self.partitioned, self.subscriptions, self.holder = 16, set(), ""
        self.local, self.peer_answer = None, MISSING
        self.reads, self.questions, self.store_down = [], [], False
        self.now = 100.0
        pool = SimpleNamespace(identity="pool", members={PEER: SimpleNamespace(tls_url="pulsar+ssl://peer:6651")})
        owners = SimpleNamespace(peer_url=lambda url, tls_url: f"{url} {tls_url}")
        monkeypatch.setattr(module, "OwnerConsumer", self.consumer)
        self.owner_names = LocalSubscriptionNames(self, self, owners, pool)

    async def partitions(self, topic):
        assert topic == cursor_topic(TOPIC, "pool")
        self.reads.append("partitions")
        if self.store_down:
            raise MetadataUnavailableError("down")
        return self.partitioned

    async def has_subscription(self, topic, name):
        assert topic == TOPIC
        self.reads.append(name)
        return name in self.subscriptions

    async def key_of(self, topic, subscription):
        return ClaimKey(cursor_topic(TOPIC, "pool").at(3), "")

    async def place(self, key):
        return self.holder

    async def open(self, key):
        return SimpleNamespace(check_absent=self.check_absent)

    async def check_absent(self, asker):
        assert (asker.topic, asker.identity, asker.subscribe_command) == (TOPIC, "me", SUBSCRIBE)
        self.reads.append("cursor")
        if self.local is not None:
            raise self.local

    def consumer(self, owners, identity, subscribe, events, *, zero_permit, peer_url):
        assert (identity, peer_url) == ("me", f"{PEER} pulsar+ssl://peer:6651")
        self.questions.append(subscribe)
        return SimpleNamespace(subscribe=self.asked, close=self.closed)

    async def asked(self):
        if self.peer_answer is not None:
            raise self.peer_answer

    async def closed(self):
        self.questions.append("closed")

    def run(self, method):
        async def run():
            asyncio.get_running_loop().time = lambda: self.now
            await getattr(self.owner_names, method)(TOPIC, "me", SUBSCRIBE)

        self.reads.clear()
        asyncio.run(run())

    def check(self):
        self.run("check")


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def test_a_pool_that_never_had_local_cursors_reads_once_in_a_while(world):
    world.partitioned = 0
    world.check()
    assert world.reads == ["partitions"]
    world.partitioned, world.now = 16, world.now + KEPT_S - 0.1
    world.check()
    assert world.reads == []
    world.now += 0.2
    world.store_down = True
    world.check()
    assert world.reads == ["partitions"], "the last answer counts while the store is down"
    world.store_down = False
    world.check()
    assert world.reads == ["partitions", "s", "cursor"]


def test_an_unknown_answer_refuses(world):
    world.store_down = True
    with pytest.raises(MetadataUnavailableError):
        world.check()


async def test_answers_have_a_bound(world, monkeypatch):
    monkeypatch.setattr(module, "MAX_KEPT", 2)

    async def partitions(topic):
        return 0

    world.partitions = partitions
    for number in range(3):
        assert not await world.owner_names.exist(parse_topic_name(f"t/n{number}/orders"))
    assert [topic.namespace for topic in world.owner_names._kept] == ["n1", "n2"]


@pytest.mark.parametrize(
    ("at_owner", "reads"),
    [({"s"}, ["s"]), (set(), ["s", "cursor"])],
)
def test_a_cursor_is_looked_for_where_the_owner_has_no_subscription_also_without_a_guard(world, at_owner, reads):
    world.subscriptions, world.local = at_owner, LOCAL
    if "cursor" in reads:
        with pytest.raises(OwnerRefusedError, match="a local cursor"):
            world.check()
    else:
        world.check()
    assert world.reads == ["partitions", *reads]


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        (MISSING, None),
        (LOCAL, "a local cursor"),
        (OwnerUnavailableError("another broker has them"), "another broker"),
        (None, "may have a local cursor of s; try again"),  # a broker of an earlier version
    ],
)
def test_the_broker_that_has_the_partition_is_asked(world, answer, refused):
    world.holder, world.peer_answer = PEER, answer
    if refused is None:
        world.check()
    else:
        with pytest.raises((OwnerRefusedError, OwnerUnavailableError), match=refused):
            world.check()
    question = world.questions[0]
    assert (question.topic, question.subscription) == (str(TOPIC), "s")
    assert request_of(question) is LocalRequest.CHECK
    assert (world.questions[1:] == ["closed"]) == (answer is None)


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ({"partitioned": 0}, ServerError.SubscriptionNotFound),
        ({}, ServerError.SubscriptionNotFound),
        ({"local": LOCAL}, ServerError.NotAllowedError),
        ({"holder": PEER, "local": LOCAL}, ServerError.ServiceNotReady),
    ],
)
def test_the_answer_of_a_broker(world, state, code):
    for name, value in state.items():
        setattr(world, name, value)
    with pytest.raises((OwnerRefusedError, OwnerUnavailableError)) as refused:
        world.run("answer")
    assert refused.value.code == code
