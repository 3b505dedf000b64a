"""The shell of split subscriptions, with claims, the owner's cursor and connections between brokers played."""

import asyncio
from types import SimpleNamespace

import pytest
import uvloop
from readonly_engine.broker.dispatch.consumer_state import ConsumerState
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.broker.dispatch.leased import LeasedDispatcher
from readonly_engine.broker.dispatch.leased_keys import ConsistentHashRing, LeasedKeyDispatcher
from readonly_engine.broker.pool.claim_store import ClaimHandle
from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.broker.split import registry
from readonly_engine.broker.split import runner as split_runner
from readonly_engine.broker.split.coordinator import Coordinator
from readonly_engine.broker.split.key_coordinator import KeyCoordinator
from readonly_engine.broker.split.key_member import KeyMember
from readonly_engine.broker.split.keys import KeyConsumer, KeyPolicy
from readonly_engine.broker.split.leases import Run
from readonly_engine.broker.split.member import Member
from readonly_engine.broker.split.registry import COUNTED_S, MAX_SINGLE, SplitSubscriptions
from readonly_engine.broker.split.runner import SINGLE_S, SplitRunner
from readonly_engine.broker.subscription.leaving_consumers import LeavingConsumers
from readonly_engine.clock import lease_time
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.topic.position import Position
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe, ServerError

from tests.support.waiting import until

KEY = ClaimKey(parse_topic_name("orders"), "work")


class Claims:
    """The claims of all brokers; each broker has a view of its own."""

    def __init__(self):
        self.holder = ""
        self.valid = True
        self.released = []

    def of(self, name):
        async def acquire(key):
            if not self.holder:
                self.holder = name
            return ClaimHandle(key, 1, "" if self.holder == name else self.holder, 1)

        def release(claim):
            self.released.append(name)
            if self.holder == name and not claim.url:
                self.holder = ""

        return SimpleNamespace(
            acquire=acquire,
            release=release,
            is_valid=lambda _: self.valid,
            serves=lambda _: self.holder == name,
            until=lease_time() + 1000,
        )


class PlayedLink:
    """Both ends of a connection between a member and the coordinator; what is sent arrives at the next turn of the loop."""

    def __init__(self, name, member, coordinator):
        self.name, self.member, self.coordinator = name, member, coordinator
        self.reports = 0

    async def open(self):
        if isinstance(self.coordinator, Exception):
            raise self.coordinator
        asyncio.get_running_loop().call_soon(self.joined)

    def joined(self):
        assert self.coordinator.join(self.name, self)

    def report(self, report):
        self.reports += 1
        asyncio.get_running_loop().call_soon(self.coordinator.reported, self.name, self, report)

    def grant(self, grant):
        asyncio.get_running_loop().call_soon(self.member.on_grant, self, grant)

    def end(self, why):
        self.coordinator.left(self.name, self, stopped=False)
        asyncio.get_running_loop().call_soon(self.member.on_link_lost, self, why)

    async def close(self):
        if not isinstance(self.coordinator, Exception):
            self.coordinator.left(self.name, self, stopped=True)


class Host:
    """A broker with one consumer (LeasedSubscription)."""

    def __init__(self, name, topic, claims, hosts):
        self.name, self.topic, self.hosts = name, topic, hosts
        self.kind, self.indivisible, self.holder = CommandSubscribe.Shared, False, None
        self.cursor = CursorReplica(topic.chain, Position(1, -1))
        self.leases = LeasedDispatcher(topic.chain, self.cursor)
        self.consumer = ConsumerState(permits=10)
        self.leases.add(self.consumer)
        self.leaving = LeavingConsumers()
        self.delivered, self.begun_again, self.single, self.ended = [], [], [], []
        self.cursor_reads = 0
        self.elsewhere = []
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.links = []
        self.runner = SplitRunner(
            KEY,
            name,
            self,
            claims.of(name),
            self.leaving,
            lambda _, seconds, __: self.single.append(seconds),
            self.ended.append,
        )

    def make_member(self, name):
        assert name == self.name
        return Member(self.leases, self.cursor, lambda: lambda: True, self.demand)

    def make_coordinator(self, epoch):
        return Coordinator(epoch, self.topic.chain, self.cursor)

    def demand(self, undelivered):
        return 0, max(self.consumer.permits - undelivered, 0), self.consumer.unacked

    def acked_elsewhere(self, runs):
        self.elsewhere += runs

    def dispatch_leases(self):
        while self.runner.may_dispatch() and (read := self.leases.next_read(0)) is not None:
            if not self.topic.chain.readable(read[0]):
                break
            self.delivered += [one.entry.position for one in self.leases.dispatch(self.topic.read(*read), 0)]

    async def read_owner_cursor(self):
        self.cursor_reads += 1
        await self.may_read.wait()

    def begin_again(self, why):
        self.begun_again.append(why)

    def link(self, url, runner):
        link = PlayedLink(
            self.name, runner, self.hosts[url] if isinstance(self.hosts[url], Exception) else self.hosts[url].runner
        )
        self.links.append(link)
        return link


class KeyHost(Host):
    """The same for Key_Shared."""

    def make_member(self, name):
        self.kind = CommandSubscribe.Key_Shared
        self.leases = LeasedKeyDispatcher(self.topic.chain, self.cursor)
        self.consumer = ConsumerState(permits=10, name=name)
        self.leases.add(self.consumer)
        return KeyMember(name, self.leases, self.cursor, lambda: lambda: True)

    def make_coordinator(self, epoch):
        return KeyCoordinator(epoch)


def pool_of(topic, *names, host=Host):
    """Brokers of a pool; returns the claims, and the brokers by their names."""
    claims, hosts = Claims(), {}
    for name in names:
        hosts[name] = host(name, topic, claims, hosts)
    return claims, hosts


async def joined_pool(topic):
    """Return a broker that coordinates, and one that follows it."""
    _, hosts = pool_of(topic, "a", "b")
    a, b = hosts.values()
    a.runner.begin()
    await until(lambda: a.runner.coordinates)
    b.runner.begin()
    await until(lambda: b.runner.state == "following" and "b" in a.runner.members)
    return a, b


async def test_two_brokers_deliver_each_entry_once(topic):
    a, b = await joined_pool(topic)
    assert b.runner.coordinator == "a"
    positions = [topic.write() for _ in range(20)]
    await until(lambda: a.runner.touch() or len(a.delivered) + len(b.delivered) == 20)
    assert sorted(a.delivered + b.delivered) == positions
    assert a.delivered
    assert b.delivered


async def test_the_holder_of_a_local_cursor_coordinates_without_a_claim_while_its_session_is_valid(topic):
    claims, hosts = pool_of(topic, "a", "b")
    a, b = hosts.values()
    a.holder, b.holder = "", "a"
    a.runner._claims.until = lease_time()
    a.runner.begin()
    await until(lambda: not a.runner._asking)
    assert a.runner.state == "claiming"
    a.runner._claims.until += 1000
    await until(lambda: a.runner.coordinates)
    b.runner.begin()
    await until(lambda: b.runner.state == "following" and "b" in a.runner.members)
    positions = [topic.write() for _ in range(20)]
    await until(lambda: a.runner.touch() or len(a.delivered) + len(b.delivered) == 20)
    assert sorted(a.delivered + b.delivered) == positions
    assert (a.runner.holds_cursor, b.runner.holds_cursor) == (True, False)
    links = len(b.links)
    b.links[-1].end("the connection broke")
    await until(lambda: len(b.links) > links and b.runner.state == "following")
    a.runner.stop()
    b.runner.stop()
    await a.runner.wait_ended()
    assert not claims.holder
    assert not claims.released


async def test_redelivery_counts_survive_a_coordinator_whose_last_consumer_leaves(topic, monkeypatch):
    a, b = await joined_pool(topic)
    position = topic.write()
    await until(lambda: a.runner.touch() or a.delivered or b.delivered)
    await until(lambda: a.runner.touch() or b.runner.touch() or a.consumer.pending or b.consumer.pending)
    holder = a if a.consumer.pending else b
    holder.leases.redeliver(holder.consumer, [position])
    holder.consumer.permits = 0  # it waits, or stays with its consumer
    if holder is a:
        a.leases.remove(a.consumer)
    a.runner.stop()
    await until(lambda: b.begun_again)
    counted = (Run(*position, position.entry_id, 1),)
    assert b.runner.redelivery_counts == counted
    assert a.runner.redelivery_counts == (counted if holder is a else ()), "clients may come back to this broker"
    monkeypatch.setattr(registry, "SplitSubscription", lambda *arguments: arguments[-1])
    monkeypatch.setattr(registry, "MAX_COUNTED", 1)
    now = [0.0]
    brokers = splits(clock=lambda: now[0])
    for key in (KEY, KEY._replace(subscription="other")):
        brokers._runners[key] = runner = SimpleNamespace(key=key, redelivery_counts=counted)
        brokers._ended(runner)
    assert [brokers.make(key, None, None, None) for key in (KEY, key, key)] == [(), counted, ()]
    brokers._runners[key] = runner
    brokers._ended(runner)
    now[0] += COUNTED_S
    assert brokers.make(key, None, None, None) == ()


def test_a_timer_that_is_due_at_once_may_be_set_again(topic):
    """An owner connection ended with it where the process had to wait for a core."""

    async def main():
        a, _ = await joined_pool(topic)
        a.runner._cancel_timer()
        a.runner._call_within(0.0)
        assert not hasattr(a.runner._timer, "when")
        a.runner._call_within(0.0)
        await until(lambda: hasattr(a.runner._timer, "when"))

    uvloop.run(main())


async def test_keys_do_not_move_again_after_the_client_has_the_answer_to_its_subscribe(topic):
    _, hosts = pool_of(topic, "a", "b", host=KeyHost)
    a, b = hosts.values()
    for host in (a, b):
        host.runner.add(host.consumer)
        await host.runner.wait_placed(host.consumer)
    keys = [str(number) for number in range(8)]
    for key in keys:
        topic.write(key=key)
    await until(
        lambda: (
            a.runner.touch() or a.dispatch_leases() or b.dispatch_leases() or len(a.delivered) + len(b.delivered) == 8
        )
    )
    ring = ConsistentHashRing([KeyConsumer("a", 1, "a", 0), KeyConsumer("b", 1, "b", 0)])
    for number, host in enumerate((a, b)):
        own = [one.position for one in topic.entries if ring.number(ring.slot(one.sticky_hash)) == number]
        assert sorted(host.delivered) == own
        assert own


async def test_a_client_gets_its_answer_also_without_a_coordinator(topic, monkeypatch):
    _, hosts = pool_of(topic, "a", host=KeyHost)
    (a,) = hosts.values()
    monkeypatch.setattr(split_runner, "PLACED_S", 0.01)
    await a.runner.wait_placed(a.consumer)
    assert a.runner.state == "claiming"
    monkeypatch.setattr(split_runner, "PLACED_S", 100.0)
    waits = asyncio.ensure_future(a.runner.wait_placed(a.consumer))
    await asyncio.sleep(0)
    a.runner.stop()
    await waits


async def test_a_coordinator_reads_the_owners_cursor_before_it_leases(topic):
    _, hosts = pool_of(topic, "a")
    (a,) = hosts.values()
    a.may_read.clear()
    topic.write()
    a.runner.begin()
    await until(lambda: a.cursor_reads)
    assert not a.runner.coordinates
    a.may_read.set()
    await until(lambda: a.delivered)


async def test_a_claim_that_was_lost_meanwhile_does_not_count(topic):
    claims, hosts = pool_of(topic, "a")
    (a,) = hosts.values()
    claims.valid = False
    a.runner.begin()
    await until(lambda: claims.released)
    assert not a.runner.coordinates
    claims.valid = True
    await until(lambda: a.runner.coordinates)


async def test_the_claim_is_given_back_after_the_last_acks(topic):
    claims, hosts = pool_of(topic, "a")
    (a,) = hosts.values()
    a.runner.begin()
    await until(lambda: a.runner.coordinates)
    a.leaving.add(KEY, "a consumer")
    a.runner.stop()
    waiting = asyncio.create_task(a.runner.wait_ended())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    assert claims.holder == "a"
    a.leaving.remove(KEY, "a consumer")
    await waiting
    assert claims.holder == ""
    assert a.ended == [a.runner]


async def test_a_stop_during_the_claim_gives_it_back(topic):
    claims, hosts = pool_of(topic, "a")
    (a,) = hosts.values()
    a.may_read.clear()
    a.runner.begin()
    await until(lambda: a.cursor_reads)
    a.runner.stop()
    await a.runner.wait_ended()
    assert claims.holder == ""


async def test_a_read_of_the_owners_cursor_does_not_outlast_the_last_consumer(topic):
    """Nobody could answer it: the owner is asked through consumers of the subscription."""
    a, b = await joined_pool(topic)
    topic.write()
    await until(lambda: a.runner.touch() or b.runner.touch() or b.delivered or topic.write() is None)
    a.may_read.clear()
    reads = a.cursor_reads
    a.runner.left("b", b.links[0], stopped=True)
    await until(lambda: a.cursor_reads > reads)
    a.runner.stop()
    async with asyncio.timeout(10):
        await a.runner.wait_ended()
    assert a.ended == [a.runner]


@pytest.mark.parametrize(
    ("error", "single"),
    [
        (OwnerRefusedError(ServerError.NotAllowedError, "alone"), True),
        (OwnerUnavailableError("not yet"), False),
        (TimeoutError(), False),
    ],
)
async def test_a_broker_that_serves_alone_ends_the_split_and_others_are_tried_again(topic, error, single, caplog):
    caplog.set_level("INFO")
    claims, hosts = pool_of(topic, "a", "b")
    claims.holder = "a"
    hosts["a"] = error
    b = hosts["b"]
    b.runner.begin()
    await until(lambda: b.single if single else len(b.links) > 1)
    assert bool(b.begun_again) == bool(b.single) == single
    assert caplog.text.count("coordinator not reached") == 1, "the same reason again is no news"


async def test_a_member_that_connects_again_replaces_its_former_connection(topic):
    a, b = await joined_pool(topic)
    former = b.links[0]
    again = PlayedLink("b", SimpleNamespace(on_grant=lambda *_: None, on_link_lost=lambda *_: None), a.runner)
    again.joined()
    a.runner.left("b", former, stopped=True)
    assert list(a.runner.members) == ["b"]


async def test_a_lost_claim_ends_the_coordinator_and_its_members(topic):
    a, b = await joined_pool(topic)
    a.runner.claim_lost()
    assert a.begun_again
    assert not a.runner.may_dispatch()
    await a.runner.wait_ended()
    await until(lambda: b.runner.coordinates)


# The registry


def splits(claims="", clock=lambda: 0.0, members=("a", "b")):
    pool = SimpleNamespace(url="a", members=dict.fromkeys(members))
    topics = SimpleNamespace(subscription=lambda *_: None)
    return SplitSubscriptions(pool, SimpleNamespace(serves=lambda _: claims), topics, None, clock)


def test_one_broker_serves_a_subscription_for_a_while_and_so_many_are_remembered():
    now = [0.0]
    found = splits(clock=lambda: now[0])
    keys = [ClaimKey(KEY.topic, str(number)) for number in range(MAX_SINGLE + 1)]
    for key in keys[:-1]:
        found.serve_alone(key, SINGLE_S, "a chunk")
    assert not found.allows(keys[0])
    found.serve_alone(keys[-1], SINGLE_S, "a chunk")
    assert found.allows(keys[0])
    assert not found.allows(keys[1])
    now[0] = SINGLE_S
    assert found.allows(keys[1])


def test_a_broker_that_serves_a_subscription_alone_goes_on_until_its_consumers_have_left():
    """A consumer that came after the ten minutes would wait for the end of the others."""
    now, serves = [0.0], [True]
    found = splits(clock=lambda: now[0])
    found._claims.serves = lambda _: serves[0]
    found.serve_alone(KEY, SINGLE_S, "a chunk")
    now[0] = 2 * SINGLE_S
    assert not found.allows(KEY)
    serves[0] = False
    assert found.allows(KEY)


def test_a_consumer_that_can_not_be_split_ends_the_split_here():
    found, ended = splits(), []
    found._runners[KEY] = SimpleNamespace(end_split=lambda: ended.append(KEY), indivisible=False)
    found.end_split(KEY, "a consumer names its ranges")
    assert ended == [KEY]
    assert not found.allows(KEY)


@pytest.mark.parametrize(
    ("state", "name", "error", "text"),
    [
        ({}, "b", OwnerUnavailableError, "does not coordinate it"),
        ({"claims": True}, "b", OwnerRefusedError, "serves work of .* alone"),
        ({"runner": False}, "b", OwnerUnavailableError, "does not coordinate it"),
        ({"runner": True, "kind": CommandSubscribe.Failover}, "b", OwnerUnavailableError, "does not coordinate it"),
        ({"runner": True, "policy": KeyPolicy(sticky=True)}, "b", OwnerUnavailableError, "another Key_Shared policy"),
        (
            {"runner": True, "policy": KeyPolicy(any_order=True)},
            "b",
            OwnerUnavailableError,
            "another Key_Shared policy",
        ),
        ({"runner": True}, "c", OwnerUnavailableError, "c is no other broker of the pool"),
        ({"runner": True}, "a", OwnerUnavailableError, "a is no other broker of the pool"),
        ({"runner": True}, "b", None, ""),
    ],
)
def test_who_may_be_a_member(state, name, error, text):
    found = splits(claims=state.get("claims", False))
    if "runner" in state:
        kind, policy = state.get("kind", CommandSubscribe.Key_Shared), state.get("policy", KeyPolicy())
        found._runners[KEY] = SimpleNamespace(coordinates=state["runner"], kind=kind, policy=policy)
    subscribe = CommandSubscribe(sub_type=CommandSubscribe.Key_Shared)
    if error is None:
        assert found.coordinator(KEY, name, subscribe) is found._runners[KEY]
        return
    with pytest.raises(error, match=text):
        found.coordinator(KEY, name, subscribe)


async def test_a_new_part_of_a_broker_waits_for_the_end_of_the_former_one(monkeypatch):
    monkeypatch.setattr(registry, "END_WAIT_S", 0.01)
    found = splits()

    await found.wait_ended(KEY, split=True)
    never = asyncio.Event()
    for ending, split in ((False, False), (True, False), (True, True)):
        found._runners[KEY] = SimpleNamespace(ending=ending, wait_ended=never.wait)
        with pytest.raises(OwnerUnavailableError, match="its leases have not ended; try again"):
            await found.wait_ended(KEY, split=split)
    found._runners[KEY].ending = False
    await found.wait_ended(KEY, split=True)
    found._runners[KEY].ending = True
    await found.wait_all_ended()
    with pytest.raises(OwnerUnavailableError, match="its leases have not ended; try again"):
        found.make(KEY, None, None, None)
