"""The classes of the ways, between a played client, a played broker and a played keeper of the cursor."""

import asyncio
from types import SimpleNamespace

import pytest
from readonly_engine.broker.consumer import passed_through, split_local
from readonly_engine.broker.consumer.client_consumer import KEEPER_CHANGED
from readonly_engine.broker.consumer.flow_window import INITIAL_WINDOW
from readonly_engine.broker.consumer.local import LocallyKeptConsumer
from readonly_engine.broker.consumer.passed_through import PassedThroughConsumer
from readonly_engine.broker.consumer.proxied import ProxiedConsumer
from readonly_engine.broker.consumer.route import CursorPlace, Placement
from readonly_engine.broker.consumer.served import OwnerKeptConsumer
from readonly_engine.broker.consumer.split import IndivisibleError
from readonly_engine.broker.consumer.split_local import AckingConsumer, HeldSplitConsumer, LeasedConsumer
from readonly_engine.broker.consumer.stats import OWNER
from readonly_engine.broker.pool.claim_store import ClaimHandle
from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.broker.pool.membership import Member
from readonly_engine.broker.pool.redirects import RedirectHistory
from readonly_engine.broker.split.subscription import SplitSubscription
from readonly_engine.broker.subscription.pause import Pause
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.owner.identity import ANONYMOUS
from readonly_engine.topic.position import Position
from readonly_engine.wire.commands import decode_command
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandActiveConsumerChange,
    CommandFlow,
    CommandMessage,
    CommandReachedEndOfTopic,
    CommandSubscribe,
    MessageIdData,
    ServerError,
)
from readonly_engine.wire.subscribe_info import SubscribeInfo

from tests.support.waiting import until

TOPIC, PEER = parse_topic_name("orders"), "pulsar://peer:6650"
KEY = ClaimKey(TOPIC, "s")


class Subscription:
    """A subscription on this broker that records what its consumers do."""

    durable, topic, name, paused, split = True, TOPIC, "s", Pause(0), False

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *_, **__: self.calls.append(name)


class Keeper:
    """The consumer where the cursor is kept."""

    def __init__(self):
        self.sent, self.closed_with, self.local, self.subscribed = [], [], "the local subscription", True
        self.subscribe_command = CommandSubscribe(topic=str(TOPIC), subscription="s")
        self.acks, self.expected = True, 0

    def send(self, command):
        self.sent.append(command)

    def ack(self, _):
        return self.acks

    async def close(self, command):
        self.closed_with.append(command)

    def expect_return(self):
        self.expected += 1

    @property
    def permits(self):
        return [command.flow.message_permits for command in self.sent if command.type == BaseCommand.FLOW]


class Broker:
    """The shared parts of a broker, and one client of it."""

    def __init__(self, *, version="Pulsar-Java-v4.0.8"):
        self.calls, self.frames, self.tasks, self.served = [], [], [], Subscription()
        self.owners = self.splits = self.topics = self.owner_leases = self.exclusives = self.leaving = (
            self.passthrough
        ) = self
        self.limits = SimpleNamespace(subscribe=lambda *_: "", leave=lambda *_: self.calls.append("place"))
        self.claim_store = SimpleNamespace(
            release=lambda _: self.calls.append("claim"), is_valid=lambda _: True, suspended=True, serves=lambda _: True
        )
        self.pool = SimpleNamespace(members={PEER: Member(PEER)})
        self.redirects, self.replay = RedirectHistory(), None
        self.client = SimpleNamespace(
            services=self, identity=ANONYMOUS, writable=True, takes_entry_metadata=True, peer="10.0.0.7:1",
            address="10.0.0.7", client_version=version, tls=False, listener="", send=self.frames.append,
            drop_consumer=lambda one: one.unregister(),
        )  # fmt: skip

    def spawn(self, coroutine):
        self.tasks.append(asyncio.ensure_future(coroutine))
        return self.tasks[-1]

    def add(self, _):
        self.calls.append("policy")

    def remove(self, *_):
        self.calls.append("removed")

    def subscribed(self, *_):
        self.calls.append("owner lease")

    def leave(self, *_):
        self.calls.append("left")

    def subscription(self, *_):
        return self.served

    async def join(self, _topic, consumer, check_claim, make=None):
        if make is None:
            check_claim(self.served)
        return self.served

    def peer_url(self, url, _):
        return url

    def make(self, *_):
        raise AssertionError("the subscription is there")

    def serve_alone(self, *_):
        self.calls.append("alone")

    def consumer(
        self, kind, *more, bound=True, durable=True, sub_type=CommandSubscribe.Shared, claimed=False, **options
    ):
        subscribe = CommandSubscribe(
            topic=str(TOPIC), subscription="s", sub_type=sub_type, consumer_id=7, request_id=1, durable=durable
        )
        claim = ClaimHandle(KEY, 1, "") if claimed else None
        placement = Placement(TOPIC, SubscribeInfo.of(subscribe), bound, CursorPlace.OWNER)
        made = kind(self.client, placement, subscribe, claim, *more, **options)
        made.owner_consumer = Keeper()
        return made

    def commands(self):
        return [decode_command(frame[4:])[0] for frame in self.frames]


class Partition:
    """The partition of a local cursor."""

    access = None

    def next_number(self):
        return 1


def local(broker, *, changes_only=False, **given):
    return broker.consumer(LocallyKeptConsumer, Partition(), changes_only=changes_only, **given)


def proxied(broker, **given):
    return broker.consumer(ProxiedConsumer, PEER, PEER, **given)


def held(broker, **given):
    return broker.consumer(HeldSplitConsumer, Partition(), changes_only=False, **given)


MAKERS = {
    "owner": lambda broker, **given: broker.consumer(OwnerKeptConsumer, **given),
    "local": local,
    "passed": lambda broker, **given: broker.consumer(PassedThroughConsumer, **given),
    "proxied": proxied,
    "held": held,
    "acking": lambda broker, **given: broker.consumer(AckingConsumer, Partition(), **given),
    "leased": lambda broker, **given: broker.consumer(LeasedConsumer, PEER, PEER, **given),
}
JOINING = {"owner", "local", "held", "acking", "leased"}


def flow(permits):
    return BaseCommand(type=BaseCommand.FLOW, flow=CommandFlow(consumer_id=7, message_permits=permits))


def message(entry):
    message = CommandMessage(consumer_id=3, message_id=MessageIdData(ledger_id=1, entry_id=entry))
    return BaseCommand(type=BaseCommand.MESSAGE, message=message)


def ack(entry):
    ids = [MessageIdData(ledger_id=1, entry_id=entry)]
    return BaseCommand(
        type=BaseCommand.ACK, ack=CommandAck(consumer_id=7, ack_type=CommandAck.Individual, message_id=ids)
    )


def played(scene):
    async def run():
        await asyncio.wait_for(scene(), 10)

    asyncio.run(run())


NOW_SERVED = "the pool serves the subscription now"


@pytest.mark.parametrize(
    ("way", "served_by", "movable", "under_claim", "misplaced"),
    [
        # misplaced: bound before and durable, not bound before, not durable; by (owner keeps now, pool keeps now)
        ("owner", "", True, True, [("", KEEPER_CHANGED), ("", KEEPER_CHANGED), ("", "")]),
        ("local", "", False, True, [(KEEPER_CHANGED, ""), (KEEPER_CHANGED, ""), (KEEPER_CHANGED, "")]),
        ("passed", OWNER, True, True, [("", KEEPER_CHANGED), (NOW_SERVED, NOW_SERVED), ("", "")]),
        ("proxied", PEER, False, False, [("", ""), ("", ""), ("", "")]),
        ("held", "", False, True, [(KEEPER_CHANGED, ""), (KEEPER_CHANGED, ""), (KEEPER_CHANGED, "")]),
        ("leased", "", True, False, [(KEEPER_CHANGED, ""), (KEEPER_CHANGED, ""), (KEEPER_CHANGED, "")]),
    ],
)
async def test_what_the_server_and_the_statistics_ask(way, served_by, movable, under_claim, misplaced):
    broker = Broker()
    for (bound, durable), expected in zip([(True, True), (False, True), (True, False)], misplaced, strict=True):
        one = MAKERS[way](broker, bound=bound, durable=durable, claimed=True)
        assert tuple(one.misplaced(keeps_cursor=pool) for pool in (False, True)) == expected
        assert (one.served_by, one.movable, one.figures().served_by) == (served_by, movable, served_by)
        assert one.served_under(KEY) == under_claim
        assert not one.served_under(ClaimKey(TOPIC, "t"))


@pytest.mark.parametrize("closed_first", [False, True])
@pytest.mark.parametrize("way", MAKERS)
async def test_the_claim_is_given_back_after_the_close_and_the_place_at_once(way, closed_first):
    broker = Broker()
    one = MAKERS[way](broker, claimed=True, sub_type=CommandSubscribe.Exclusive)
    await one.begin(0.0)
    assert ("policy" in broker.calls) == (way == "passed")
    assert (one.subscription is not None) == (way in JOINING)
    broker.calls.clear()
    for closes in [closed_first, not closed_first]:
        assert "claim" not in broker.calls
        for _ in range(2):
            if closes:
                await one.close()
            else:
                one.unregister()
                assert broker.calls.count("place") == 1
    assert broker.calls.count("claim") == 1
    assert broker.calls.count("place") == 1
    assert one.claim is None
    assert len(one.owner_consumer.closed_with) == 1
    assert broker.calls.count("left") == (way in JOINING)


async def test_a_consumer_that_is_closed_while_it_joins_leaves_again():
    broker = Broker()
    one = MAKERS["owner"](broker, claimed=True)
    one.unregister()
    await one.close()
    assert broker.calls.count("claim") == 1
    broker.calls.clear()
    with pytest.raises(OwnerUnavailableError, match="closed during its creation"):
        await one.begin(0.0)
    assert broker.calls == ["left", "removed"]  # of the subscription, and of those whose acks are awaited
    assert one.subscription is None


async def test_a_served_consumer_relays_acks_and_events():
    broker = Broker()
    one = MAKERS["owner"](broker, claimed=True)
    active = CommandActiveConsumerChange(consumer_id=3, is_active=True)
    change = BaseCommand(type=BaseCommand.ACTIVE_CONSUMER_CHANGE, active_consumer_change=active)
    one.on_owner_command(change, b"")
    one.flow(flow(5))
    await one.begin(0.0)
    assert broker.served.calls == ["pause", "active_changed"]  # the store does not confirm the claim
    assert "owner lease" in broker.calls
    one.flow(flow(5))
    assert one.figures().permits == 10
    one.ack(ack(1))
    one.owner_consumer.acks = False
    one.ack(ack(2))
    one.on_writable_changed(writable=False)
    one.on_writable_changed(writable=True)
    assert broker.served.calls[2:] == ["add_permits", "acknowledge", "leave_fanout", "leave_fanout", "read_more"]
    end = BaseCommand(
        type=BaseCommand.REACHED_END_OF_TOPIC, reached_end_of_topic=CommandReachedEndOfTopic(consumer_id=3)
    )
    one.on_owner_command(end, b"")
    one.on_owner_command(end, b"")
    one.deliver(b"1234", 2)
    assert (one.messages, one.bytes) == (2, 4)
    assert broker.frames.pop() == b"1234"
    assert [command.type for command in broker.commands()] == [
        BaseCommand.ACTIVE_CONSUMER_CHANGE,
        BaseCommand.REACHED_END_OF_TOPIC,
    ]
    assert broker.commands()[0].active_consumer_change.consumer_id == 7
    assert one.stop_delivery() is broker.served


async def test_a_consumer_that_only_changes_a_local_cursor_does_not_join():
    broker = Broker()
    one = local(broker, changes_only=True, sub_type=CommandSubscribe.Exclusive)
    assert one.exclusive
    await one.begin(0.0)
    assert not one.exclusive
    assert one.subscription is None
    assert one.stop_delivery() is None
    assert one.affected_subscription() is broker.served
    one.expect_return()
    assert one.owner_consumer.expected == 1
    assert one.keeper(None).at_owner is False
    one.owner_consumer.local = None
    with pytest.raises(OwnerUnavailableError, match="closed meanwhile"):
        one.keeper(None)


async def test_a_leased_consumer_applies_no_ack_that_its_holder_refuses():
    broker = Broker()
    one = MAKERS["leased"](broker)
    await one.begin(0.0)
    one.ack(ack(1))
    in_transaction = ack(2)
    in_transaction.ack.txnid_most_bits = in_transaction.ack.txnid_least_bits = 1
    one.ack(in_transaction)
    assert broker.served.calls == ["acknowledge"]
    one.refused(OwnerRefusedError(ServerError.AuthorizationError, "no"))
    assert "alone" not in broker.calls
    with pytest.raises(IndivisibleError, match="serves s alone"):
        one.refused(OwnerRefusedError(ServerError.NotAllowedError, "the holder serves s alone"))
    assert "alone" in broker.calls


@pytest.mark.parametrize("in_time", [True, False])
async def test_a_holder_that_drains_takes_the_last_acks_of_other_brokers(monkeypatch, in_time):
    monkeypatch.setattr(split_local, "LEAVE_S", 10.0 if in_time else 0.01)
    broker, stops = Broker(), []
    broker.served = object.__new__(SplitSubscription)
    broker.served.runner = SimpleNamespace(stop=lambda: stops.append("stop"))
    one = MAKERS["acking"](broker)
    one.subscription = broker.served
    monkeypatch.setattr(SplitSubscription, "pause", lambda *_: None)
    assert one.stop_delivery() is broker.served
    assert stops == ["stop"]
    one.subscription = None
    leaving = asyncio.create_task(one.detach())
    await asyncio.sleep(0)
    assert not one.unregistered
    if in_time:
        one.unregister()
    await leaving
    assert one.unregistered


async def test_the_owner_gets_permits_within_a_window():
    broker = Broker()
    one = MAKERS["passed"](broker)
    one.flow(flow(1000))
    assert one.owner_consumer.permits == [INITIAL_WINDOW]
    for entry in range(2):
        one.on_owner_command(message(entry), b"an entry")
    assert [command.message.consumer_id for command in broker.commands()] == [7, 7]
    assert one.figures() == (OWNER, 998, 2, False, 2, 16)
    one.ack(ack(0))
    assert one.flow_window.pending == {Position(1, 1)}
    window = one.stop_delivery()
    assert window.outstanding
    one.on_owner_command(message(2), b"an entry")
    assert len(broker.frames) == 2
    assert one.ack_entries(None) is False
    broker.client.writable = False
    slow = MAKERS["passed"](broker)
    slow.flow(flow(1000))
    assert slow.owner_consumer.permits == []
    broker.client.writable = True
    slow.on_writable_changed(writable=True)
    assert slow.owner_consumer.permits == [INITIAL_WINDOW]


@pytest.mark.parametrize(
    ("permits", "version", "request_", "redirected"),
    [
        (1000, "Pulsar-Java-v4.0.8", False, True),
        (1000, "Pulsar-Java-v4.0.8", True, True),
        (1, "Pulsar-Java-v4.0.8", False, False),  # it asks for one message at a time
        (1000, "Pulsar-Java-v2.10.0", False, False),  # it does not know such redirects
    ],
)
async def test_a_proxied_consumer_is_redirected_or_relayed(permits, version, request_, redirected):
    broker = Broker(version=version)
    one = proxied(broker)
    await one.begin(0.0)
    one.on_answered()
    if request_:
        async with one.requesting():
            one.flow(flow(permits))
            await asyncio.sleep(0.05)
            assert not broker.frames, "the request would fail after the redirect"
    else:
        one.flow(flow(permits))
    if redirected:
        assert one.owner_consumer.permits == []
        await until(lambda: bool(broker.frames))
        (close,) = broker.commands()
        assert close.close_consumer.assigned_broker_service_url == PEER
        (to_peer,) = one.owner_consumer.closed_with
        assert to_peer.close_consumer.assigned_broker_service_url == PEER
        assert one.unregistered
    else:
        await until(lambda: bool(one.owner_consumer.permits))
        assert one.owner_consumer.permits == [min(permits, INITIAL_WINDOW)]
        assert not broker.frames


class Peers(Keeper):
    """The broker that serves a proxied consumer. It answers the first CLOSE_CONSUMER when it is told to."""

    def __init__(self):
        super().__init__()
        self.answers, self.calls, self.joining = asyncio.Event(), [], None

    async def close(self, command):
        self.calls.append("close")
        await self.answers.wait()
        await super().close(command)

    async def subscribe(self):
        self.calls.append("subscribe")
        self.joining.flow(flow(100))
        assert not self.permits, "it has no consumer there now"

    async def request(self, _):
        self.calls.append("request")

    def ack(self, _):
        self.calls.append("ack")
        return True


async def redirected(monkeypatch):
    """Return a broker, and a consumer that is redirected to another broker, which has not answered its close."""
    broker = Broker()
    one = proxied(broker)
    peer = one.owner_consumer = Peers()
    monkeypatch.setattr(passed_through, "OwnerConsumer", lambda *_, **__: peer)
    one.on_answered()
    one.flow(flow(1000))
    await until(lambda: peer.calls == ["close"])
    return broker, one, peer


@pytest.mark.parametrize("command", ["request", "ack"])
async def test_a_command_that_comes_while_the_other_broker_closes_the_consumer_keeps_it_here(monkeypatch, command):
    broker, one, peer = await redirected(monkeypatch)

    async def request():
        async with one.requesting():
            await one.owner_consumer.request(None)

    asking = None
    if command == "request":
        asking = asyncio.create_task(request())
    else:
        one.ack(ack(0))
    await asyncio.sleep(0)
    peer.joining = one
    peer.answers.set()
    await until(lambda: bool(peer.permits))
    if asking is not None:
        await asking
    assert peer.calls == ["close", "subscribe", command]
    assert peer.permits == [INITIAL_WINDOW]
    assert one.flow_window.permits == 1100
    assert not broker.frames
    assert not one.unregistered
    await one.detach()
    assert peer.calls[-1] == "close"


async def test_a_client_that_leaves_while_the_other_broker_closes_the_consumer_is_not_subscribed_again(monkeypatch):
    broker, one, peer = await redirected(monkeypatch)
    one.ack(ack(0))
    leaving = asyncio.create_task(one.detach())
    await asyncio.sleep(0)
    peer.answers.set()
    await asyncio.gather(leaving, *broker.tasks)
    assert peer.calls == ["close"]
