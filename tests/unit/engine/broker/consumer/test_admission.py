"""How a consumer is created, with everything around it played."""

import asyncio
import time
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from readonly_engine.broker.consumer import admission, served
from readonly_engine.broker.consumer.admission import admit
from readonly_engine.broker.consumer.client_consumer import ClientConsumer
from readonly_engine.broker.consumer.exclusives import ExclusiveConsumers
from readonly_engine.broker.consumer.local import LocallyKeptConsumer
from readonly_engine.broker.consumer.proxied import ProxiedConsumer
from readonly_engine.broker.consumer.relay_marks import RELAYED_BY, mark_acks, mark_member
from readonly_engine.broker.consumer.route import CLAIMED_TYPES, CursorPlace, Local
from readonly_engine.broker.consumer.split import HOLDER_VERSION
from readonly_engine.broker.consumer.split_local import AckingConsumer, HeldSplitConsumer, LeasedConsumer
from readonly_engine.broker.cursors.local_requests import LocalRequest
from readonly_engine.broker.pool.bindings import Bindings, from_patterns
from readonly_engine.broker.pool.claim_store import ClaimHandle
from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.broker.pool.pending_redirects import PendingRedirects
from readonly_engine.broker.split.codec import VERSION
from readonly_engine.broker.split.keys import MAX_LOCAL_HASH_RANGES
from readonly_engine.broker.subscription.pause import Pause
from readonly_engine.config.settings import Unbound
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError, RelayError
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandSubscribe,
    IntRange,
    KeySharedMeta,
    KeySharedMode,
    ServerError,
)

TOPIC = parse_topic_name("orders")
BOUND, UNBOUND = Bindings((from_patterns("b", ["orders"]),)), Bindings()


class OwnerSubscriptionNames:
    """Local cursors that keep nobody from the owner, unless they refuse."""

    def __init__(self, refusal=None):
        self.refusal, self.asked = refusal, []

    async def exist(self, topic):
        return True

    async def check(self, topic, identity, subscribe):
        self.asked.append((identity, subscribe.subscription))
        if self.refusal is not None:
            raise self.refusal

    async def answer(self, topic, identity, subscribe):
        raise OwnerRefusedError(ServerError.SubscriptionNotFound, "no")


class Broker:
    """A broker whose other parts agree to everything."""

    def __init__(self, bindings):
        self.unbound = Unbound.REDIRECT
        self.replay = None
        self.bindings = bindings
        self.limits = SimpleNamespace(subscribe=lambda *_: "", leave=lambda *_: None)
        passthrough = SimpleNamespace(admit=self.passes_through, add=lambda _: None, pool="")
        self.topics = SimpleNamespace(state=self.later, join=self.later)
        self.passthrough = passthrough
        self.exclusives = ExclusiveConsumers()
        self.local_names = OwnerSubscriptionNames()
        self.keeps = self.split = self.needs_owner = False
        self.splits = SimpleNamespace(
            wait_ended=self.ended, allows=lambda _: True, end_split=lambda *ended: self.ended_splits.append(ended)
        )
        self.ended_splits = []
        self.spawned = []

    async def later(self, *_):
        return None

    def keeps_cursors(self, *_):
        return self.keeps

    def splits_dispatch(self, *_):
        return self.split

    async def ended(self, _key, *, split):
        return None

    async def passes_through(self, *_):
        return self.needs_owner

    def spawn(self, coroutine):
        self.spawned.append(asyncio.create_task(coroutine))


class Consumer(ClientConsumer):
    """One that attaches as the test lets it."""

    def __init__(self, client, placement, _subscribe, claim, _route, _partition):
        super().__init__(client, placement, claim, 1, exclusive=False)
        self.owner_consumer = self

    async def subscribe(self):
        self.connection.attached(self)
        return "the owner's answer"

    async def begin(self, _sent):
        pass

    async def close(self):
        self.connection.closed = True


@pytest.mark.parametrize("after", [BOUND, UNBOUND])
@pytest.mark.parametrize("before", [BOUND, UNBOUND])
async def test_a_consumer_that_comes_while_the_bindings_change_goes_by_the_new_ones(monkeypatch, before, after):
    monkeypatch.setattr(admission, "make_consumer", Consumer)
    broker = Broker(before)
    client = SimpleNamespace(
        identity="me", services=broker, closed=False, attached=lambda _: setattr(broker, "bindings", after)
    )
    coming = admit(client, TOPIC, CommandSubscribe(subscription="s", sub_type=CommandSubscribe.Exclusive))
    if before is after:
        consumer, _ = await coming
        assert consumer.bound == (after is BOUND)
        assert not consumer.unregistered
    else:
        with pytest.raises(OwnerUnavailableError, match="look it up again"):
            await coming
        await asyncio.gather(*broker.spawned)
    assert client.closed == (before is not after)


@pytest.mark.parametrize(("valid", "suspended"), [(True, False), (True, True), (False, False)])
def test_a_consumer_joins_within_a_claim_that_is_still_this_brokers_only(valid, suspended):
    """Between the claim and the first message the owner is asked, and may take its time."""
    paused = []
    claim_store = SimpleNamespace(is_valid=lambda _: valid, suspended=suspended)
    subscription = SimpleNamespace(pause=paused.append, split=False)
    claim = ClaimHandle(ClaimKey(TOPIC, "s"), 1, "", 7)
    if valid:
        served._check_claim(claim_store, claim, subscription)
    else:
        with pytest.raises(OwnerUnavailableError, match="served by another broker; try again"):
            served._check_claim(claim_store, claim, subscription)
    assert paused == ([Pause.LEASE] if suspended else [])


class Partition(str):
    """A partition of local cursors."""

    __slots__ = ()

    def next_number(self):
        return 1


class OnePartition:
    """Local cursors of which this broker has all, and the claims of them."""

    async def key_of(self, topic, _subscription):
        return ClaimKey(topic, "")

    async def open(self, _key):
        return Partition("the partition")

    async def place(self, _key):
        return ""

    async def acquire(self, key):
        return ClaimHandle(key, 1, "", 7)

    def release(self, _claim):
        """Forget the claim."""


class MarkedScene:
    """A Shared subscription that this broker has claimed, and clients that say who brought them."""

    def __init__(self, refusal):
        self.broker = Broker(BOUND)
        self.broker.pending_redirects = PendingRedirects()
        self.broker.pool = SimpleNamespace(url="pulsar://here:6650")
        self.key = ClaimKey(TOPIC, "s")
        self.held_by = ""
        self.broker.claim_store = SimpleNamespace(acquire=self.acquire, release=lambda _: None)
        self.refusal = refusal

    async def acquire(self, key):
        return ClaimHandle(key, 1, self.held_by)

    def attached(self, consumer):
        if self.refusal is not None:
            raise self.refusal

    def make(self, *args):
        return Consumer(*args)

    async def come(self, *marks):
        client = SimpleNamespace(identity="me", services=self.broker, closed=False, attached=self.attached)
        subscribe = CommandSubscribe(subscription="s", sub_type=CommandSubscribe.Shared)
        for mark in marks:
            subscribe.metadata.add(key=RELAYED_BY, value=mark)
        return (await admit(client, TOPIC, subscribe))[0]

    @property
    def expected(self):
        return self.broker.pending_redirects.expected(self.key, time.monotonic())


async def test_a_marked_consumer_is_waited_for_after_the_owner_has_admitted_it(monkeypatch):
    scene = MarkedScene(None)
    monkeypatch.setattr(admission, "make_consumer", scene.make)
    consumer = await scene.come("pulsar://there:6650")
    assert not scene.expected
    consumer.unregister()
    assert scene.expected


@pytest.mark.parametrize(
    ("way", "given_back"), [("admitted", []), ("no way", ["place", "claim"]), ("refused by the owner", ["place"])]
)
def test_a_refused_consumer_gives_its_place_and_its_claim_back(monkeypatch, way, given_back):
    """That of one that the owner has refused is given back after its close (test_ways.py)."""

    def refuse(*_):
        raise OwnerRefusedError(ServerError.AuthorizationError, "no")

    async def run():
        scene, calls = MarkedScene(None), []
        scene.broker.limits.leave = lambda *_: calls.append("place")
        scene.broker.claim_store.release = lambda _: calls.append("claim")
        monkeypatch.setattr(admission, "make_consumer", refuse if way == "no way" else scene.make)
        scene.attached = refuse if way == "refused by the owner" else scene.attached
        with nullcontext() if way == "admitted" else pytest.raises(OwnerRefusedError):
            await scene.come()
        assert calls == given_back
        assert len(scene.broker.spawned) == (way == "refused by the owner")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("kind", "durable", "allowed", "needs_owner", "split"),
    [
        (CommandSubscribe.Shared, True, True, False, True),
        (CommandSubscribe.Shared, True, True, True, False),
        (CommandSubscribe.Shared, True, False, False, False),
        (CommandSubscribe.Shared, False, True, False, False),
        (CommandSubscribe.Key_Shared, True, True, False, True),
        (CommandSubscribe.Key_Shared, False, True, False, False),
        (CommandSubscribe.Failover, True, True, False, False),
    ],
)
async def test_a_consumer_of_a_split_subscription_has_no_claim(monkeypatch, kind, durable, allowed, needs_owner, split):
    scene, claimed = MarkedScene(None), []
    placements = []

    async def acquire(key):
        claimed.append(key)
        return ClaimHandle(key, 1, "")

    def make(client, placement, *rest):
        placements.append(placement)
        return Consumer(client, placement, *rest)

    broker = scene.broker
    broker.split, broker.needs_owner = True, needs_owner
    broker.splits.allows = lambda _: allowed
    broker.claim_store.acquire = acquire
    monkeypatch.setattr(admission, "make_consumer", make)
    client = SimpleNamespace(identity="me", services=broker, closed=False, attached=scene.attached)
    await admit(client, TOPIC, CommandSubscribe(subscription="s", sub_type=kind, durable=durable))
    assert placements[0].split == split
    assert len(claimed) == (not split and kind in CLAIMED_TYPES)


STICKY = KeySharedMeta(key_shared_mode=KeySharedMode.STICKY)
ANY_ORDER = KeySharedMeta(key_shared_mode=KeySharedMode.AUTO_SPLIT, allow_out_of_order_delivery=True)


def ranges(count):
    return KeySharedMeta(key_shared_mode=KeySharedMode.STICKY, hash_ranges=[IntRange(start=0, end=0)] * count)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, ""),
        ({"consumer_name": "\N{BULLET}" * 33 + "n"}, ""),  # 100 bytes
        ({"consumer_name": "\N{BULLET}" * 33 + "nn"}, "the name of a consumer has more than 100 bytes"),
        ({"key_shared_meta": STICKY}, ""),
        ({"key_shared_meta": ranges(MAX_LOCAL_HASH_RANGES)}, ""),
        ({"key_shared_meta": ranges(MAX_LOCAL_HASH_RANGES + 1)}, "a consumer names more than 500 ranges of hashes"),
        ({"key_shared_meta": ANY_ORDER}, ""),
        ({"key_shared_meta": ranges(9_999), "sub_type": CommandSubscribe.Shared}, ""),
    ],
)
async def test_one_broker_serves_a_key_shared_consumer_that_can_not_be_split(monkeypatch, fields, why):
    scene = MarkedScene(None)
    scene.broker.split = True
    scene.broker.splits.allows = lambda _: not scene.broker.ended_splits
    monkeypatch.setattr(admission, "make_consumer", scene.make)
    client = SimpleNamespace(identity="me", services=scene.broker, closed=False, attached=scene.attached)
    subscribe = CommandSubscribe(**({"subscription": "s", "sub_type": CommandSubscribe.Key_Shared} | fields))
    consumer, _ = await admit(client, TOPIC, subscribe)
    assert scene.broker.ended_splits == ([(ClaimKey(TOPIC, "s"), why)] if why else [])
    assert (consumer.claim is not None) == bool(why)


@pytest.mark.parametrize(
    ("version", "kind", "error"),
    [
        (0, CommandSubscribe.Shared, f"version '0' of the leases of split subscriptions, this broker has {VERSION}"),
        (VERSION, CommandSubscribe.Failover, "only Shared and Key_Shared are split"),
        (VERSION, CommandSubscribe.Key_Shared, "not here"),
        (HOLDER_VERSION, CommandSubscribe.Shared, "not here"),
    ],
)
async def test_a_member_of_a_split_subscription_is_refused_before_the_owner_is_asked(version, kind, error):
    def coordinator(*_):
        raise OwnerUnavailableError("not here")

    scene = MarkedScene(None)
    scene.broker.splits.coordinator = coordinator
    client = SimpleNamespace(identity="me", services=scene.broker, closed=False)
    subscribe = CommandSubscribe(subscription="s", sub_type=kind)
    mark_member(subscribe, "pulsar://there:6650", str(version))
    with pytest.raises(RelayError, match=error):
        await admit(client, TOPIC, subscribe)


PEER = "pulsar://there:6650"


@pytest.mark.parametrize(
    ("kind", "request_", "place", "marks", "allowed", "made"),
    [
        (CommandSubscribe.Shared, None, "", "", True, HeldSplitConsumer),
        (CommandSubscribe.Shared, None, PEER, "", True, LeasedConsumer),
        (CommandSubscribe.Shared, None, "", "relayed", True, HeldSplitConsumer),  # by a broker that splits none
        (CommandSubscribe.Shared, None, "", "relayed acks", True, AckingConsumer),
        (CommandSubscribe.Shared, None, "", "acks", True, HeldSplitConsumer),  # a client's own mark
        (CommandSubscribe.Shared, LocalRequest.EXISTING, "", "", True, AckingConsumer),
        (CommandSubscribe.Shared, LocalRequest.EXISTING, PEER, "", True, ProxiedConsumer),
        (CommandSubscribe.Shared, LocalRequest.FORCE, "", "", True, LocallyKeptConsumer),
        (CommandSubscribe.Shared, None, "", "", False, LocallyKeptConsumer),
        (CommandSubscribe.Shared, None, PEER, "", False, ProxiedConsumer),
        (CommandSubscribe.Shared, None, "", "relayed acks", False, None),
        (CommandSubscribe.Key_Shared, None, "", "", True, LocallyKeptConsumer),
        (CommandSubscribe.Key_Shared, None, PEER, "", True, ProxiedConsumer),
    ],
)
async def test_the_holder_of_a_local_cursor_leases_to_the_others(
    monkeypatch, kind, request_, place, marks, allowed, made
):
    make_consumer, found = admission.make_consumer, []

    def make(*args):
        found.append(type(make_consumer(*args)))
        return Consumer(*args)

    async def placed(_key):
        return place

    async def no_refusal(*_):
        return ""

    async def ended(_key, *, split):
        waited.append(split)

    waited: list[bool] = []
    monkeypatch.setattr(admission, "make_consumer", make)
    scene, cursors = MarkedScene(None), OnePartition()
    broker = scene.broker
    broker.keeps = broker.split = True
    broker.splits.allows = lambda _: allowed
    broker.splits.wait_ended = ended
    broker.local_cursors = broker.claim_store = cursors
    cursors.place = placed
    broker.pool = SimpleNamespace(url="pulsar://here:6650", members={})
    broker.owners = SimpleNamespace(peer_url=lambda url, _: url)
    broker.passthrough.refusal = no_refusal
    client = SimpleNamespace(
        identity="me",
        services=broker,
        closed=False,
        attached=scene.attached,
        writable=True,
        client_version="",
        tls=False,
    )
    subscribe = CommandSubscribe(subscription="s", sub_type=kind)
    if request_ is not None:
        subscribe.metadata.add(key=request_.value, value="true")
    if "relayed" in marks:
        subscribe.metadata.add(key=RELAYED_BY, value=PEER)
    if "acks" in marks:
        mark_acks(subscribe)
    with nullcontext() if made else pytest.raises(OwnerRefusedError, match="here:6650 serves s of persistent:"):
        await admit(client, TOPIC, subscribe)
    assert found == ([made] if made else [])
    splits = allowed and kind == CommandSubscribe.Shared
    assert waited == ([] if made is None or request_ is LocalRequest.FORCE else [splits]), "beside the consumers"


@pytest.mark.parametrize(
    ("code", "admitted"),
    [
        (ServerError.ConsumerAssignError, True),
        (ServerError.ConsumerBusy, False),
        (ServerError.AuthorizationError, False),
    ],
)
async def test_a_member_whose_ranges_its_own_consumer_has_is_authorized(monkeypatch, code, admitted):
    async def subscribe_at_owner(*_):
        raise OwnerRefusedError(code, "range conflict")

    monkeypatch.setattr(admission, "subscribe_at_owner", subscribe_at_owner)
    scene, closed = MarkedScene(None), []
    client = SimpleNamespace(identity="me", services=scene.broker, closed=False)
    member = SimpleNamespace(connection=client, unregister=lambda: closed.append("consumer"), close=lambda: None)
    monkeypatch.setattr(admission, "MemberConsumer", lambda *_: member)
    scene.broker.splits.coordinator = lambda *_: SimpleNamespace(holds_cursor=False)
    scene.broker.spawn = closed.append
    subscribe = CommandSubscribe(subscription="s", sub_type=CommandSubscribe.Key_Shared, key_shared_meta=ranges(1))
    mark_member(subscribe, "pulsar://there:6650", str(VERSION))
    if admitted:
        consumer, answer = await admit(client, TOPIC, subscribe)
        assert (consumer, answer.type, closed) == (member, BaseCommand.SUCCESS, [])
        return
    with pytest.raises(OwnerRefusedError):
        await admit(client, TOPIC, subscribe)
    assert closed == ["consumer", None]


def test_a_limit_refuses_a_consumer_that_then_holds_nothing():
    broker = Broker(BOUND)
    broker.limits = SimpleNamespace(subscribe=lambda *_: "Topic reached max consumers limit")
    with pytest.raises(OwnerRefusedError, match="max consumers") as refused:
        come(broker, subscribe_of())
    assert refused.value.code == ServerError.ConsumerBusy


async def test_a_liar_that_the_owner_refuses_makes_nobody_wait(monkeypatch):
    """Anyone can send the mark: before the owner has answered, the client may have no right to the topic."""
    scene = MarkedScene(OwnerRefusedError(ServerError.AuthorizationError, "no"))
    monkeypatch.setattr(admission, "make_consumer", scene.make)
    with pytest.raises(OwnerRefusedError):
        await scene.come("pulsar://there:6650")
    assert not scene.expected


@pytest.mark.parametrize("marks", [[""], ["", ""], ["", "pulsar://there:6650", ""]])
async def test_a_liar_cannot_hide_that_a_broker_brought_it(monkeypatch, marks):
    """All marks are taken off, and none of them makes a broker relay to the next."""
    scene = MarkedScene(None)
    monkeypatch.setattr(admission, "make_consumer", scene.make)
    await scene.come(*marks)
    scene.held_by = "pulsar://elsewhere:6650"
    with pytest.raises(OwnerUnavailableError, match="but another broker of the pool serves it"):
        await scene.come(*marks)


def subscribe_of(*requests, durable=True):
    subscribe = CommandSubscribe(subscription="s", sub_type=CommandSubscribe.Exclusive, durable=durable)
    for request in requests:
        subscribe.metadata.add(key=request.value, value="true")
    return subscribe


def come(broker, subscribe, attached=lambda _: None):
    async def run():
        client = SimpleNamespace(identity="me", services=broker, closed=False, attached=attached)
        return (await admit(client, TOPIC, subscribe))[0]

    return asyncio.run(run())


@pytest.mark.parametrize("bindings", [BOUND, UNBOUND])
def test_a_durable_subscription_comes_to_the_owner_only_if_it_is_no_local_one(monkeypatch, bindings):
    monkeypatch.setattr(admission, "make_consumer", Consumer)
    broker = Broker(bindings)
    come(broker, subscribe_of())
    come(broker, subscribe_of(durable=False))
    assert broker.local_names.asked == [("me", "s")]
    broker.local_names.refusal = OwnerRefusedError(ServerError.NotAllowedError, "a local cursor")
    arrived = []
    with pytest.raises(OwnerRefusedError, match="a local cursor"):
        come(broker, subscribe_of(), arrived.append)
    assert not arrived


def test_a_consumer_that_comes_while_the_keeper_changes_comes_again(monkeypatch):
    monkeypatch.setattr(admission, "make_consumer", Consumer)
    broker = Broker(BOUND)
    with pytest.raises(OwnerUnavailableError, match="look it up again"):
        come(broker, subscribe_of(), lambda _: vars(broker).update(keeps=True, bindings=Bindings(BOUND.bindings)))


def test_a_question_for_a_local_cursor_creates_nothing(monkeypatch):
    monkeypatch.setattr(admission, "make_consumer", None)
    with pytest.raises(OwnerRefusedError) as refused:
        come(Broker(BOUND), subscribe_of(LocalRequest.FORCE, LocalRequest.CHECK))
    assert refused.value.code == ServerError.SubscriptionNotFound


@pytest.mark.parametrize("bindings", [BOUND, UNBOUND])
@pytest.mark.parametrize("request_", LocalRequest)
def test_local_cursors_can_be_exported_and_deleted_after_the_owner_has_become_the_keeper(
    monkeypatch, bindings, request_
):
    made = []

    class Made(Consumer):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(args[-2:])

    monkeypatch.setattr(admission, "make_consumer", Made)
    broker = Broker(bindings)
    broker.pending_redirects = PendingRedirects()
    broker.local_cursors = broker.claim_store = OnePartition()
    moves = request_ in {LocalRequest.EXPORT, LocalRequest.EXISTING, LocalRequest.FORCE}
    if moves:
        come(broker, subscribe_of(request_))
    for subscribe in [subscribe_of(request_, durable=False), *([] if moves else [subscribe_of(request_)])]:
        with pytest.raises(OwnerRefusedError):
            come(broker, subscribe)
    assert made == [(Local(changes_only=request_ is LocalRequest.FORCE), "the partition")] * moves


@pytest.mark.parametrize("durable", [True, False])
async def test_a_consumer_of_a_replay_has_a_cursor_of_the_replay_and_no_owner_is_asked(monkeypatch, durable):
    """Not even for the compacted ledger, which is of the present."""
    broker, made = Broker(BOUND), []

    def make(client, placement, subscribe, claim, route, partition):
        made.append((placement, subscribe.read_compacted, route, partition))
        return Consumer(client, placement, subscribe, claim, route, partition)

    monkeypatch.setattr(admission, "make_consumer", make)
    broker.replay = object()
    broker.passthrough = broker.local_names = None
    broker.local_cursors = broker.claim_store = OnePartition()
    broker.pending_redirects = SimpleNamespace(arrived=lambda _: None)
    client = SimpleNamespace(identity="me", services=broker, closed=False, attached=lambda _: None)
    subscribe = CommandSubscribe(subscription="s", durable=durable, read_compacted=True, topic=str(TOPIC))
    await admit(client, TOPIC, subscribe)
    ((placement, compacted, route, partition),) = made
    assert (placement.cursor, placement.bound, compacted) == (CursorPlace.POOL, True, False)
    assert (route, partition) == (Local(changes_only=False), "the partition")
