import asyncio
import gc
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from readonly_engine.broker.cursors import expected_consumers
from readonly_engine.broker.cursors import held_partition as module
from readonly_engine.broker.cursors.consumers import LocalConsumer
from readonly_engine.broker.cursors.held_partition import HeldPartition
from readonly_engine.broker.cursors.local_requests import LocalRequest, marked
from readonly_engine.broker.cursors.store import CursorStoreError
from readonly_engine.broker.cursors.topic_cursors import TopicCursors
from readonly_engine.metadata.errors import MetadataUnavailableError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.consumer_events import OwnerCursorState
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError, RelayError
from readonly_engine.topic.position import Position
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe, ServerError

from tests.support.waiting import until

TOPIC = parse_topic_name("orders")


class Store:
    lost = ""

    def __init__(self):
        self.cursors = TopicCursors(str(TOPIC))

    def of(self, topic):
        return self.cursors

    def find(self, topic, subscription):
        return self.cursors.find(subscription)

    def changed(self, cursors):
        return 1

    async def wait_stored(self, number):
        await asyncio.sleep(0)


class Guards:
    def __init__(self, *_):
        self.forgotten = []
        self.topics = set()

    def has(self, topic):
        return topic in self.topics

    def forget(self, topic):
        self.forgotten.append(topic)

    @asynccontextmanager
    async def retained(self, topic, mark_delete):
        yield


class Access:
    async def subscribe(self, consumer, *, new):
        await asyncio.sleep(0)
        return OwnerCursorState(Position(3, 1), Position(3, 9)) if new else None

    def __init__(self):
        self.added = set()

    def add(self, consumer):
        self.added.add(consumer)

    def remove(self, consumer):
        found = consumer in self.added
        self.added.discard(consumer)
        return found


class Consumer:
    def __init__(self, *keys, number=1, properties=()):
        self.topic, self.number = TOPIC, number
        self.subscribe_command = CommandSubscribe(
            topic=str(TOPIC), subscription="s", sub_type=CommandSubscribe.Exclusive, consumer_name=f"c{number}"
        )
        for key in keys:
            self.subscribe_command.metadata.add(key=key, value="true")
        for key, value in properties:
            self.subscribe_command.subscription_properties.add(key=key, value=value)

    def as_local(self):
        return LocalConsumer.of(self.number, self.subscribe_command)

    def active_changed(self, *, active):
        pass

    def end(self, reason):
        self.ended = reason


def shared(number):
    consumer = Consumer(number=number)
    consumer.subscribe_command.sub_type = CommandSubscribe.Shared
    return consumer


def shared_of(name, number):
    consumer = shared(number)
    consumer.subscribe_command.subscription = name
    return consumer


class Stalled(Store):
    """A store that stores nothing until it may."""

    def __init__(self, may_store):
        super().__init__()
        self.may_store = may_store

    async def wait_stored(self, number):
        await self.may_store.wait()


@pytest.fixture
def partition(monkeypatch):
    monkeypatch.setattr(module, "GuardKeeper", Guards)
    owner_names = SimpleNamespace(check=lambda *_: asyncio.sleep(0), forget=lambda _: None)
    admin = SimpleNamespace(at_owner=None, gate=None)

    async def describe(topic, name):
        if admin.gate is not None:
            await admin.gate.wait()
            admin.gate = None
        return admin.at_owner

    admin.describe = describe
    admin.deleted = False
    admin.asked = 0

    async def was_deleted(topic, cursors):
        assert topic == TOPIC
        assert cursors is partition.store.cursors
        admin.asked += 1
        if isinstance(admin.deleted, Exception):
            raise admin.deleted
        return admin.deleted

    partition = HeldPartition(
        Store(), admin, Access(), owner_names, "guard", lambda _: True, was_deleted, lambda: True, None
    )
    return partition


def run(coroutine):
    return asyncio.run(coroutine)


@pytest.mark.parametrize("request_", [LocalRequest.EXISTING, LocalRequest.FORCE])
def test_a_consumer_that_asks_for_an_existing_subscription_creates_none(partition, request_):
    with pytest.raises(OwnerRefusedError, match="keeps no subscription s"):
        run(partition.subscribe(Consumer(request_)))
    assert partition.store.cursors.find("s") is None
    first = Consumer()
    found = run(partition.subscribe(first))
    partition.leave(first, found)
    assert run(partition.subscribe(Consumer(request_))).cursor is found.cursor


def test_a_subscription_with_consumers_is_not_migrated(partition):
    run(partition.subscribe(Consumer()))
    for request in (LocalRequest.IMPORT, LocalRequest.EXPORT):
        with pytest.raises(OwnerRefusedError, match="has consumers of subscription s"):
            run(partition.subscribe(Consumer(request, number=2)))


def test_a_subscription_that_is_migrated_gets_no_consumers(partition):
    async def both():
        partition.admin.gate = gate = asyncio.Event()
        migrating = asyncio.create_task(partition.subscribe(Consumer(LocalRequest.IMPORT)))
        await asyncio.sleep(0)
        for consumer in (Consumer(LocalRequest.EXPORT, number=2), Consumer(number=3)):
            with pytest.raises(OwnerUnavailableError, match="is being migrated"):
                await partition.subscribe(consumer)
        gate.set()
        with pytest.raises(OwnerRefusedError, match="has no subscription s"):
            await migrating

    run(both())
    assert partition.store.cursors.find("s") is None
    run(partition.subscribe(Consumer(number=4)))


def test_names_at_the_owner_that_are_older_than_a_migration_do_not_count(partition):
    async def check(*_):
        with pytest.raises(OwnerRefusedError):
            await partition.subscribe(Consumer(LocalRequest.EXPORT, number=2))

    partition._owner_names.check = check
    with pytest.raises(OwnerUnavailableError, match="migrated meanwhile"):
        run(partition.subscribe(Consumer()))
    assert partition.store.cursors.find("s") is None


def test_a_mark_alone_goes_with_the_first_consumer(partition):
    cursor = partition.store.cursors.create("s", Position(3, 4))
    partition.store.cursors.set_properties(cursor, marked((), LocalRequest.IMPORT))
    partition.admin.at_owner = object()
    with pytest.raises(OwnerRefusedError, match="is not finished"):
        run(partition.subscribe(Consumer()))
    partition.admin.at_owner = None
    assert run(partition.subscribe(Consumer())).cursor is cursor
    assert cursor.definition.properties == ()


@pytest.mark.parametrize(
    ("case", "refusal"),
    [
        ("absent", ""),
        (
            "present",
            f"pulsar-readonly subscriptions export {TOPIC} s; .* pulsar-readonly subscriptions delete {TOPIC} s",
        ),
        ("deleted with its topic", ""),
        ("not authorized", "no rights"),
        ("being migrated", "is being migrated; try again"),
        ("being created", "is being created; try again"),
    ],
)
def test_a_subscription_that_is_new_at_the_owner_must_not_be_a_local_one(partition, case, refusal):
    async def scene():
        waiting = None
        if case == "being created":
            partition._owner_names.check = lambda *_: asyncio.sleep(60)
            waiting = asyncio.create_task(partition.subscribe(Consumer()))
            await until(lambda: partition._creating)
        elif case != "absent":
            first = Consumer()
            partition.leave(first, await partition.subscribe(first))
        partition.admin.deleted = case == "deleted with its topic"
        if case == "not authorized":
            partition.access.subscribe = refuse
        if case == "being migrated":
            partition.admin.gate = asyncio.Event()
            waiting = asyncio.create_task(partition.subscribe(Consumer(LocalRequest.EXPORT, number=2)))
            await asyncio.sleep(0)
        try:
            await partition.check_absent(Consumer(number=3))
        finally:
            if waiting is not None:
                waiting.cancel()

    async def refuse(consumer, *, new):
        raise OwnerRefusedError(ServerError.AuthorizationError, "no rights")

    forgotten = []
    partition._owner_names.forget = forgotten.append
    partition.guards.topics.add(TOPIC)
    if not refusal:
        run(scene())
        assert forgotten == [TOPIC], "a local one must not be made meanwhile"
    else:
        with pytest.raises(RelayError, match=refusal):
            run(scene())


def test_the_first_local_subscription_of_a_topic_does_not_go_by_names_from_before(partition):
    forgotten = []
    partition._owner_names.forget = forgotten.append
    for number, name in enumerate(("a", "b")):
        run(partition.subscribe(shared_of(name, number)))
        assert forgotten == [TOPIC]
        partition.guards.topics.add(TOPIC)


@pytest.mark.parametrize("change", ["move", "delete"])
async def test_a_change_is_completed_for_all_consumers_also_if_its_client_has_gone(partition, change):
    first, second = shared(1), shared(2)
    found = await partition.subscribe(first)
    assert await partition.subscribe(second) is found
    cursor = found.cursor
    may_store = asyncio.Event()
    found._store = Stalled(may_store)
    if change == "move":
        asked = asyncio.create_task(partition.move(first, found, Position(1, 1), []))
    else:
        asked = asyncio.create_task(partition.delete(first, found))
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.wait([asked])
    assert not hasattr(second, "ended")
    may_store.set()
    while not hasattr(second, "ended"):
        await asyncio.sleep(0)
    assert not hasattr(first, "ended")  # the caller's part
    kept = partition.store.cursors.find("s")
    assert (kept is cursor and cursor.mark_delete == Position(1, 1)) if change == "move" else kept is None


async def test_a_change_that_fails_after_its_client_has_gone_is_no_unexpected_error(partition, monkeypatch):
    closed = asyncio.Event()

    @asynccontextmanager
    async def retained(topic, mark_delete):
        await closed.wait()
        raise CursorStoreError("the store is closed")
        yield

    unexpected = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unexpected.append(context))
    first = Consumer(number=1)
    found = await partition.subscribe(first)
    monkeypatch.setattr(partition.guards, "retained", retained)
    asked = asyncio.create_task(partition.move(first, found, Position(1, 1), []))
    while not partition._changes:
        await asyncio.sleep(0)
    asked.cancel()
    await asyncio.wait([asked])
    closed.set()
    while partition._changes:
        await asyncio.sleep(0)
    del asked  # with the frame that has the task
    gc.collect()
    assert unexpected == []


async def test_a_seek_that_waited_for_the_owner_moves_the_consumers_that_have_come_back_meanwhile(
    partition, monkeypatch
):
    """The guard moves first. Before, the cursor changed under the dispatcher of the new consumer, whose acks were lost."""
    owner = asyncio.Event()

    @asynccontextmanager
    async def retained(topic, mark_delete):
        await owner.wait()
        yield

    monkeypatch.setattr(partition.guards, "retained", retained)
    first, second = Consumer(number=1), Consumer(number=2)
    owner.set()
    found = await partition.subscribe(first)
    owner.clear()
    seek = asyncio.create_task(partition.move(first, found, Position(1, 9), []))
    await asyncio.sleep(0)
    partition.leave(first, found)
    again = await partition.subscribe(second)
    assert again is not found
    served = SimpleNamespace(cursor=SimpleNamespace(mark_delete=Position(3, 7)))
    again.serve(served)
    owner.set()
    await seek
    assert second.ended == "seek"
    assert not again.is_served_by(served)
    assert again.cursor.mark_delete == Position(1, 9)


async def test_a_seek_of_a_subscription_that_was_deleted_meanwhile_does_not_move_a_new_one_of_its_name(partition):
    first, second = Consumer(number=1), Consumer(number=2)
    found = await partition.subscribe(first)
    await partition.delete(first, found)
    again = await partition.subscribe(second)
    with pytest.raises(OwnerUnavailableError, match="was deleted meanwhile"):
        await partition.move(first, found, Position(1, 9), [])
    assert again.cursor.mark_delete == Position(3, 1)
    assert not hasattr(second, "ended")


async def test_an_administrator_that_was_first_deletes_the_subscription_of_the_consumers(partition):
    """Its consumer is no member, so it has an object of its own. Before, acks went on with the deleted cursor."""
    cursor = partition.store.cursors.create("s", Position(3, 1))
    administrator, consumer = Consumer(LocalRequest.FORCE, number=1), Consumer(number=2)
    held = await partition.subscribe(administrator)
    found = await partition.subscribe(consumer)
    assert found is not held
    await partition.delete(administrator, held)
    assert consumer.ended == "unsubscribe by force"
    found.acked()
    partition.store.cursors.take_changes()
    assert partition.store.cursors.find("s") is None
    assert cursor.served is None


async def test_the_place_of_a_redirected_exclusive_consumer_is_kept(partition):
    first = Consumer(number=1)
    found = await partition.subscribe(first)
    partition.expect_return(first)
    partition.leave(first, found)
    other = asyncio.create_task(partition.subscribe(Consumer(number=2)))
    await asyncio.sleep(0)
    found = await partition.subscribe(first)
    with pytest.raises(OwnerRefusedError, match="Exclusive consumer is already connected"):
        await other
    partition.leave(first, found)
    await partition.subscribe(Consumer(number=2))


async def test_a_redirected_consumer_that_does_not_come_is_waited_for_and_no_longer(partition, monkeypatch):
    monkeypatch.setattr(expected_consumers, "ARRIVAL_S", 0.2)
    first = Consumer(number=1)
    partition.leave(first, await partition.subscribe(first))
    partition.expect_return(first)
    found = await partition.subscribe(Consumer(number=2))
    assert [member.number for member in found.members] == [2]


@pytest.mark.parametrize("kind", [CommandSubscribe.Exclusive, CommandSubscribe.Shared])
async def test_an_administrator_ignores_consumers_of_the_same_type(partition, kind):
    first, forced = Consumer(number=1), Consumer(LocalRequest.FORCE, number=2)
    first.subscribe_command.sub_type = kind
    found = await partition.subscribe(first)
    for other in {CommandSubscribe.Exclusive, CommandSubscribe.Shared} - {kind}:
        forced.subscribe_command.sub_type = other
        with pytest.raises(OwnerRefusedError, match="another type"):
            await partition.subscribe(forced)
    forced.subscribe_command.sub_type = kind
    held = await partition.subscribe(forced)
    assert held is found
    assert held.members == [first]
    await partition.move(forced, held, Position(1, 1), [])
    assert first.ended == "seek"
    assert held.cursor.mark_delete == Position(1, 1)
    partition.leave(forced, held)
    assert partition.subscriptions == [held]
    partition.leave(first, held)
    assert partition.subscriptions == []
    partition.leave(forced, await partition.subscribe(forced))
    assert partition.subscriptions == []


def test_the_subscriptions_of_a_deleted_topic_go_with_it(partition):
    async def scene():
        found = await partition.subscribe(consumer := shared(1))
        partition.store.cursors.create("idle", Position(3, 4))
        assert not await partition.forget_if_deleted(TOPIC)
        partition.admin.deleted = True
        assert await partition.forget_if_deleted(TOPIC)
        assert consumer.ended == "the topic was deleted"
        assert found.acked() == 0
        return consumer, found

    consumer, found = run(scene())
    assert len(partition.store.cursors) == 0
    assert partition.guards.forgotten == [TOPIC]
    assert not partition.subscriptions
    partition.leave(consumer, found)
    assert run(partition.subscribe(Consumer(number=2))).cursor is not found.cursor


async def test_a_stored_subscription_of_a_former_topic_is_not_gone_on_with(partition):
    """The topic was deleted and created again while no consumer here followed it, so nobody has told this broker."""
    idle = partition.store.cursors.create("s", Position(3, 4))
    partition.admin.deleted = True
    found = await partition.subscribe(first := Consumer())
    partition.admin.deleted = False
    assert found.cursor is not idle
    partition.leave(first, found)
    again = await partition.subscribe(second := Consumer(number=2))
    assert again.cursor is found.cursor
    asked = partition.admin.asked
    await partition.subscribe(other := shared_of("other", 3))
    assert partition.admin.asked == asked, "the topic is watched while it has a consumer"
    partition.leave(other, again)
    partition.leave(second, again)
    partition.leave(second, again)
    await partition.subscribe(Consumer(number=4))
    assert partition.admin.asked == asked + 1


@pytest.mark.parametrize("unknown", [OwnerUnavailableError("silent"), MetadataUnavailableError("silent")])
def test_a_topic_of_which_nothing_is_known_keeps_its_subscriptions(partition, unknown):
    run(partition.subscribe(consumer := Consumer()))
    partition.admin.deleted = unknown
    assert not run(partition.forget_if_deleted(TOPIC))
    assert partition.store.cursors.find("s") is not None
    assert not hasattr(consumer, "ended")


def test_a_topic_with_a_migration_keeps_its_subscriptions(partition):
    run(partition.subscribe(Consumer()))
    partition.admin.deleted = True
    partition._migrating.add((TOPIC, "other"))
    assert not run(partition.forget_if_deleted(TOPIC))
    assert partition.store.cursors.find("s") is not None


@pytest.mark.parametrize("existing", [True, False])
def test_a_reader_of_the_same_name_at_the_owner_keeps_only_new_subscriptions_away(partition, existing):
    async def busy(consumer, *, new):
        raise OwnerRefusedError(ServerError.ConsumerBusy, "Exclusive consumer is already connected")

    if existing:
        partition.store.cursors.create("s", Position(3, 4))
    partition.access.subscribe = busy
    if existing:
        assert run(partition.subscribe(Consumer())).cursor.mark_delete == Position(3, 4)
    else:
        with pytest.raises(OwnerRefusedError, match="already connected"):
            run(partition.subscribe(Consumer()))
