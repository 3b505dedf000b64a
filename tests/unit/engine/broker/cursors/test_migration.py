"""Import and export against a model of the owner, ended at each of their requests and run again."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from readonly_engine.broker.cursors import migration as migration_module
from readonly_engine.broker.cursors.local_requests import LocalRequest, marked, migration_of
from readonly_engine.broker.cursors.migration import Migration
from readonly_engine.broker.cursors.topic_cursors import TopicCursors, by_topic
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.cursor_admin import AckedState, SubscriptionDescription
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.topic.position import EARLIEST, Position, PositionRanges
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck, CommandSubscribe, ServerError

TOPIC = parse_topic_name("persistent://public/default/t")
LEDGERS = ((3, 5), (4, 5), (7, 0))
ENTRIES = [Position(ledger, entry) for ledger in (3, 4, 7) for entry in range(5)]
PROPERTIES = (("team", "blue"),)


class CrashError(Exception):
    """The broker has died."""


class World:
    """The owner's subscription, and the stored records of the pool.

    Attributes:
        steps: requests until the crash.
        acked: the entries that the owner's subscription has acked; None without it.
    """

    def __init__(self):
        self.steps = 10_000
        self.acked = None
        self.mark_delete = None
        self.properties = ()
        self.replicated = False
        self.consumers = 0
        self.log = []
        self.authorized = True
        self.moves = []
        self.start()

    def start(self):
        """Start a broker."""
        self.cursors = TopicCursors(str(TOPIC))
        self.cursors.restore(by_topic(self.log).get(str(TOPIC), {}).items())
        self.consumers = 0

    def step(self):
        self.steps -= 1
        if self.steps < 0:
            raise CrashError

    def ack(self, entries):
        self.acked |= set(entries)

    def stored_acked(self):
        """The entries that the stored records of the pool have acked."""
        restored = World()
        restored.log = self.log
        restored.start()
        return restored.local_acked

    @property
    def local(self):
        return self.cursors.find("s")

    @property
    def local_acked(self):
        ranges = [(EARLIEST, self.local.mark_delete), *self.local.ranges]
        return {entry for entry in ENTRIES if any(lower < entry <= upper for lower, upper in ranges)}

    # CursorStore

    def of(self, topic):
        return self.cursors

    def find(self, topic, subscription):
        return self.cursors.find(subscription)

    def changed(self, cursors):
        return 1

    async def wait_stored(self, number):
        for record in self.cursors.take_changes():
            self.step()
            self.log.append(record)
        self.step()

    # CursorAdmin

    async def describe(self, topic, name):
        self.step()
        if self.acked is None:
            return None
        return SubscriptionDescription(self.properties, self.replicated, self.consumers)

    async def acked_state(self, topic, name):
        self.step()
        if self.acked is None:
            return None
        ranges = PositionRanges()
        for ledger, first in ((3, 0), (4, 0), (7, 0)):
            for entry in ENTRIES:
                if entry.ledger_id == ledger and entry.entry_id >= first and entry in self.acked:
                    ranges.add(entry)
        first = next((entry for entry in ENTRIES if entry not in self.acked), Position(7, 5))
        mark = Position(first.ledger_id, first.entry_id - 1)
        if self.moves:
            self.acked |= {self.moves.pop()}
        return AckedState(((EARLIEST, mark), *ranges.after(mark)), LEDGERS)

    # OwnerAccess

    async def subscribe(self, consumer, *, new):
        self.step()
        if not self.authorized:
            raise OwnerRefusedError(ServerError.AuthorizationError, "no")

    def consumer_at_owner(self, consumer, subscribe):
        return AtOwner(self, subscribe)

    # GuardKeeper

    @asynccontextmanager
    async def retained(self, topic, mark_delete):
        self.step()
        yield

    def migration(self):
        admin = SimpleNamespace(describe=self.describe, acked=self.acked_state)
        return Migration(self, admin, self, self)


class AtOwner:
    def __init__(self, world, subscribe):
        self.world = world
        self.command = subscribe
        self.subscribed = False

    async def subscribe(self):
        world = self.world
        world.step()
        assert not self.command.metadata, "the owner must not see the request"
        assert self.command.sub_type == CommandSubscribe.Exclusive
        assert not self.command.force_topic_creation
        if not world.authorized:
            raise OwnerRefusedError(ServerError.AuthorizationError, "no")
        if world.consumers:
            raise OwnerRefusedError(ServerError.ConsumerBusy, "busy")
        if world.acked is None:
            assert self.command.initial_position == CommandSubscribe.Earliest
            world.acked = set()
            world.properties = tuple((one.key, one.value) for one in self.command.subscription_properties)
        world.consumers, self.subscribed = 1, True
        world.step()

    async def request(self, command):
        world = self.world
        world.step()
        if command.type == BaseCommand.UNSUBSCRIBE:
            assert world.acked <= world.stored_acked(), "a subscription is deleted that nothing covers"
            world.acked = None
        else:
            ids = [Position(one.ledger_id, one.entry_id) for one in command.ack.message_id if not one.ack_set]
            if command.ack.ack_type == CommandAck.Cumulative:
                ids = [entry for entry in ENTRIES if entry <= ids[0]]
            world.ack(ids)
        world.step()
        return BaseCommand(type=BaseCommand.SUCCESS)

    async def close(self):
        if self.subscribed:
            self.world.consumers = 0


CLIENT = SimpleNamespace(
    topic=TOPIC,
    subscribe_command=CommandSubscribe(
        topic=str(TOPIC), subscription="s", sub_type=CommandSubscribe.Exclusive, consumer_id=1, request_id=1
    ),
)
ACKED = {*ENTRIES[:3], *ENTRIES[5:7], ENTRIES[9], ENTRIES[10], ENTRIES[12]}


def at_owner():
    world = World()
    world.acked, world.properties = set(ACKED), PROPERTIES
    return world


def at_pool():
    world = World()
    cursor = world.cursors.create("s", Position(3, 2), 17, PROPERTIES)
    ranges = PositionRanges()
    for entry in sorted(ACKED - set(ENTRIES[:3])):
        ranges.add(entry)
    world.cursors.reset(cursor, Position(3, 2), ranges=ranges)
    asyncio.run(world.wait_stored(1))
    assert world.local_acked == ACKED
    return world


def import_subscription(world):
    return asyncio.run(world.migration().import_subscription(CLIENT))


def give_back(world):
    return asyncio.run(world.migration().give_back(CLIENT))


def requests_of(world, run):
    """The number of requests of a migration."""
    before = world.steps
    run(world)
    return before - world.steps


@pytest.mark.parametrize("steps", range(requests_of(at_owner(), import_subscription)))
def test_an_import_that_dies_is_run_again(steps):
    world = at_owner()
    world.steps = steps
    with pytest.raises(CrashError):
        import_subscription(world)
    world.steps = 10_000
    world.start()
    expected = set(ACKED)
    if world.acked is not None:
        # Consumers go on at the owner meanwhile. Nobody consumes from the local cursor: it has a mark.
        assert world.local is None or migration_of(world.local.definition) is LocalRequest.IMPORT
        world.ack([ENTRIES[3]])
        expected.add(ENTRIES[3])
    import_subscription(world)
    world.start()
    assert world.acked is None
    assert world.local_acked == expected
    assert world.local.definition.properties == PROPERTIES


@pytest.mark.parametrize("steps", range(requests_of(at_pool(), give_back)))
def test_an_export_that_dies_is_run_again(steps):
    world = at_pool()
    world.steps = steps
    with pytest.raises(CrashError):
        give_back(world)
    world.steps = 10_000
    world.start()
    expected = set(ACKED)
    if world.acked is not None:
        if world.local is not None:
            assert migration_of(world.local.definition) is LocalRequest.EXPORT
        world.ack([ENTRIES[8]])  # by a consumer at the owner
        expected.add(ENTRIES[8])
    if world.local is not None:
        assert give_back(world) == Position(3, 2)
        world.start()
    assert world.local is None
    assert world.acked == expected
    assert world.properties == PROPERTIES


def test_only_one_of_two_subscriptions_without_a_migration_can_be_meant():
    world = at_pool()
    world.acked = set()
    for run in (import_subscription, give_back):
        with pytest.raises(OwnerRefusedError, match="each have a subscription s"):
            run(world)
    assert world.acked == set()
    assert world.local_acked == ACKED


@pytest.mark.parametrize(
    ("run", "migration"), [(import_subscription, LocalRequest.EXPORT), (give_back, LocalRequest.IMPORT)]
)
def test_an_unfinished_migration_is_not_reversed(run, migration):
    world = at_pool()
    world.acked = set()
    world.cursors.set_properties(world.local, marked(PROPERTIES, migration))
    with pytest.raises(OwnerRefusedError, match=f"the {migration.word} of subscription s is not finished"):
        run(world)
    assert world.local is not None
    assert world.acked == set()


@pytest.mark.parametrize("migration", [LocalRequest.IMPORT, LocalRequest.EXPORT])
def test_a_mark_alone_goes_when_the_owner_has_no_subscription(migration):
    world = at_pool()
    world.cursors.set_properties(world.local, marked(PROPERTIES, migration))
    world.acked = set()
    with pytest.raises(OwnerRefusedError, match=f"subscriptions {migration.word} {TOPIC} s` again"):
        asyncio.run(world.migration().finish(TOPIC, world.local))
    assert migration_of(world.local.definition) is migration
    world.acked = None
    asyncio.run(world.migration().finish(TOPIC, world.local))
    world.start()
    assert world.local.definition.properties == PROPERTIES
    assert world.local_acked == ACKED


@pytest.mark.parametrize(
    ("make", "run", "state", "says"),
    [
        (at_owner, import_subscription, {"authorized": False}, "no"),
        (at_pool, give_back, {"authorized": False}, "no"),
        (at_owner, import_subscription, {"consumers": 1}, "has consumers of subscription s: close them"),
        (at_owner, import_subscription, {"replicated": True}, "replicated"),
        (World, import_subscription, {}, "has no subscription s"),
        (World, give_back, {}, "this pool keeps no subscription s"),
    ],
)
def test_a_migration_that_is_refused_changes_nothing(make, run, state, says):
    world = make()
    vars(world).update(state)
    before = (world.acked, list(world.log))
    with pytest.raises(OwnerRefusedError, match=says):
        run(world)
    assert (world.acked, world.log) == before


def test_a_cursor_that_an_administrator_moves_meanwhile_is_copied_again():
    world = at_owner()
    world.moves = [ENTRIES[4], ENTRIES[3]]
    import_subscription(world)
    assert world.local_acked == {*ACKED, ENTRIES[3], ENTRIES[4]}
    world = at_owner()
    world.moves = [*ENTRIES[3:5], *ENTRIES[7:9], ENTRIES[11], *ENTRIES[13:]]
    with pytest.raises(OwnerUnavailableError, match="moves at its owner"):
        import_subscription(world)
    assert world.acked is not None
    assert migration_of(world.local.definition) is LocalRequest.IMPORT


def test_too_many_acks(monkeypatch):
    monkeypatch.setattr(migration_module, "MAX_ACKED_RANGES", 2)
    world = at_owner()
    with pytest.raises(OwnerRefusedError, match="has 4 acked ranges, a local one at most 2"):
        import_subscription(world)
    assert world.acked == ACKED
    monkeypatch.setattr(migration_module, "MAX_ACKED_ENTRIES", 4)
    world = at_pool()
    with pytest.raises(OwnerRefusedError, match="has acked 5 entries after its mark-delete position 3:2"):
        give_back(world)
    assert world.local_acked == ACKED


def test_an_owner_that_does_not_apply_acks_gets_no_subscription(monkeypatch):
    monkeypatch.setattr(migration_module, "CHECK_INTERVAL_S", 0)
    monkeypatch.setattr(World, "ack", lambda self, entries: None)
    world = at_pool()
    with pytest.raises(OwnerUnavailableError, match="has not applied all acks"):
        give_back(world)
    world.start()
    assert world.local_acked == ACKED
