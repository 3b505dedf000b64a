"""Consumers of a replay: owners authorize them where the cluster does that, and their cursors are made here."""

from types import SimpleNamespace

import pytest
from readonly_engine.broker.cursors.consumers import LocalConsumer
from readonly_engine.broker.cursors.store import CursorStore
from readonly_engine.broker.replay.access import ReplayAccess
from readonly_engine.broker.replay.node_records import NodeRecords
from readonly_engine.broker.replay.partition import ReplayPartition
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.topic.position import Position
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe, ServerError

from tests.support.memory_store import MemoryStore

TOPIC = parse_topic_name("persistent://public/default/orders")
START = Position(7, 4)


class Consumer:
    """A client's consumer."""

    topic, identity = TOPIC, None

    def __init__(self, number, *, durable=True, kind=CommandSubscribe.Exclusive, name="s"):
        self.number = number
        self.subscribe_command = CommandSubscribe(
            subscription=name, consumer_name=f"c{number}", durable=durable, sub_type=kind
        )
        self.reason = ""

    def as_local(self):
        return LocalConsumer.of(self.number, self.subscribe_command)

    def active_changed(self, *, active):
        pass

    def end(self, reason):
        self.reason = reason


class OwnersThatAreAsked:
    """The questions to owners."""

    def __init__(self):
        self.asked, self.followed, self.refusal = 0, [], None

    async def subscribe(self, consumer, *, new):
        assert not new
        self.asked += 1
        if self.refusal is not None:
            raise self.refusal

    def add(self, consumer):
        self.followed.append(consumer)

    def remove(self, consumer):
        self.followed.remove(consumer)
        return True


class Scene:
    def __init__(self, *, authorizes=False):
        self.owners, self.nodes, self.starts = OwnersThatAreAsked(), MemoryStore(), 0
        self.authorized = authorizes
        positions = SimpleNamespace(start_of=self.start_of)
        self.access = ReplayAccess(self.owners, self.authorizes, positions)

    async def authorizes(self):
        return self.authorized

    async def start_of(self, topic, subscribe):
        self.starts += 1
        return START

    async def partition(self):
        store = CursorStore(NodeRecords(self.nodes, "/pulsar-readonly/pools/p/replays/w/cursors/c"), print, 0.001)
        await store.open()
        return ReplayPartition(store, self.access)


async def test_a_durable_subscription_is_made_once_and_found_by_the_next_broker():
    scene = Scene()
    partition = await scene.partition()
    consumer = Consumer(1)
    found = await partition.subscribe(consumer)
    assert (found.mark_delete, scene.starts) == (START, 1)
    with pytest.raises(OwnerRefusedError, match="Exclusive consumer is already connected"):
        await partition.subscribe(Consumer(2))
    await partition.end("this broker stops")
    assert consumer.reason == "this broker stops"
    later = await scene.partition()
    assert (await later.subscribe(Consumer(3))).mark_delete == START
    assert (scene.starts, scene.owners.asked) == (1, 0)
    await later.end("")


async def test_a_readers_subscription_is_stored_nowhere():
    scene = Scene()
    partition = await scene.partition()
    reader = Consumer(1, durable=False)
    found = await partition.subscribe(reader)
    assert found.mark_delete == START
    await found.move(Position(7, 1))
    assert found.mark_delete == (7, 1)
    partition.leave(reader, found)
    assert (partition.subscriptions, scene.nodes.nodes) == ([], {})


@pytest.mark.parametrize("authorizes", [True, None])
async def test_an_owner_authorizes_a_consumer_and_follows_its_rights(authorizes):
    scene = Scene(authorizes=authorizes)
    partition = await scene.partition()
    consumer = Consumer(1)
    found = await partition.subscribe(consumer)
    assert (scene.owners.asked, scene.owners.followed) == (1, [consumer])
    partition.leave(consumer, found)
    assert scene.owners.followed == []


@pytest.mark.parametrize(
    "code", [ServerError.NotAllowedError, ServerError.ConsumerBusy, ServerError.IncompatibleSchema]
)
async def test_a_subscription_of_that_name_at_the_owner_is_no_obstacle(code):
    scene = Scene(authorizes=True)
    scene.owners.refusal = OwnerRefusedError(code, "the owner has one")
    assert await (await scene.partition()).subscribe(Consumer(1))


async def test_a_consumer_without_the_right_is_refused_and_leaves_nothing():
    scene = Scene(authorizes=True)
    scene.owners.refusal = OwnerRefusedError(ServerError.AuthorizationError, "no")
    partition = await scene.partition()
    with pytest.raises(OwnerRefusedError, match="no"):
        await partition.subscribe(Consumer(1))
    assert (partition.subscriptions, scene.starts, scene.nodes.nodes) == ([], 0, {})


async def test_a_subscription_that_cannot_be_stored_has_no_consumers():
    scene = Scene()
    partition = await scene.partition()
    scene.nodes.silent = True
    with pytest.raises(Exception, match="does not answer"):
        await partition.subscribe(Consumer(1))
    assert partition.subscriptions == []


async def test_requests_about_cursors_of_the_pool_are_refused():
    partition = await Scene().partition()
    consumer = Consumer(1)
    consumer.subscribe_command.metadata.add(key="pulsar-readonly.import", value="")
    with pytest.raises(OwnerRefusedError, match="a replay pool keeps cursors of its own"):
        await partition.subscribe(consumer)
    with pytest.raises(OwnerUnavailableError, match="is served in a replay"):
        await partition.check_absent(consumer)
