import asyncio
from types import SimpleNamespace

import pytest
from readonly_engine.broker.pool.claim_store import ClaimHandle
from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.broker.pool.membership import Member
from readonly_engine.broker.server import rebalance
from readonly_engine.broker.server.rebalance import Rebalancer, _units
from readonly_engine.metadata.topic_name import parse_topic_name


def consumer(name, subscription="", peer=""):
    claim = ClaimHandle(ClaimKey(parse_topic_name("orders"), subscription), 1, peer) if subscription else None
    return SimpleNamespace(name=name, claim=claim, movable=not peer)


def test_a_claimed_subscription_moves_as_a_whole_and_after_all_others():
    consumers = [
        consumer("a", "large"),
        consumer("b", "small"),
        consumer("c"),
        consumer("d", "large"),
        consumer("e", "large", peer="pulsar://other:6650"),
        consumer("f"),
    ]
    assert [[one.name for one in unit] for unit in _units(consumers)] == [["c"], ["f"], ["b"], ["a", "d"]]


class Connected:
    """A consumer without a subscription on this broker."""

    def __init__(self, created_at, claim=None):
        self.created_at, self.claim, self.movable = created_at, claim, True
        self.subscription = None
        self.stop_delivery = lambda: None
        self.unregistered = False
        self.reasons = []
        self.owner_consumer = SimpleNamespace(wait_for_acks=self.acked)

    async def acked(self):
        return None

    def close_for_resubscribe(self, reason, _to=None):
        self.reasons.append(reason)
        self.unregistered = True


class Pool:
    """A pool that this broker shares with brokers of other localities."""

    def __init__(self, *localities):
        self.url, self.published = "pulsar://broker-0:6650", []
        self.live(*localities)

    def live(self, *localities):
        found = [Member(f"pulsar://broker-{index}:6650", locality=name) for index, name in enumerate(localities)]
        self.members = {member.url: member for member in found}

    @property
    def neighbours(self):
        own = self.members[self.url].locality
        return [member for member in self.members.values() if member.locality == own]

    async def publish(self, consumers):
        self.published.append(consumers)


class Broker:
    """A broker whose clock the test moves: each sleep of the rebalancer is one second."""

    def __init__(self, pool, consumers):
        self.pool, self.all, self.draining = pool, consumers, False
        self.limits = SimpleNamespace(consumers=len(consumers))
        self.tasks = []

    @property
    def consumers(self):
        return [one for one in self.all if not one.unregistered]

    def spawn(self, coroutine):
        self.tasks.append(asyncio.get_running_loop().create_task(coroutine))
        return self.tasks[-1]


def play(monkeypatch, broker, seconds, at):
    """Run the rebalancer of a broker for some seconds; `at` maps seconds to what happens then."""
    clock = SimpleNamespace(now=0)

    async def run():
        ended = asyncio.Event()
        sleep = asyncio.sleep

        async def second(_):
            while any(not task.done() for task in broker.tasks[1:]):
                await sleep(0)  # a move ends within its second
            clock.now += 1
            if clock.now in at:
                at[clock.now]()
            if clock.now >= seconds:
                ended.set()
                await sleep(60)

        monkeypatch.setattr(rebalance, "sleep_to_tick", second)
        monkeypatch.setattr(rebalance, "time", SimpleNamespace(monotonic=lambda: clock.now))
        broker.tasks = []
        rebalancer = Rebalancer(broker)
        rebalancer.start()
        await ended.wait()
        rebalancer.stop()

    asyncio.run(run())


def test_consumers_of_an_absence_return_in_tenths_and_others_stay(monkeypatch):
    pool = Pool("/a", "/b")
    early, claimed = Connected(2), Connected(25, claim="claim")
    arrived = [Connected(20 + index / 100) for index in range(28)]
    broker = Broker(pool, [early, claimed, *arrived])
    at = {10: lambda: pool.live("/a"), 40: lambda: pool.live("/a", "/b")}

    play(monkeypatch, broker, 54, at)
    assert not any(one.reasons for one in broker.all), "the locality must have brokers for 15 s"
    play(monkeypatch, broker, 62, at)
    assert [one for one in broker.all if one.reasons] == arrived[:6], "two times a tenth of 30"
    play(monkeypatch, broker, 120, at)
    assert all(one.reasons == ["a locality has brokers again"] for one in arrived)
    assert early.reasons == claimed.reasons == []


@pytest.mark.parametrize(("locality", "moved"), [("/a", True), ("/b", False)])
def test_only_brokers_of_the_own_locality_relieve_a_broker(monkeypatch, locality, moved):
    pool = Pool("/a", locality)
    pool.members[pool.url] = Member(pool.url, consumers=100, locality="/a")
    broker = Broker(pool, [Connected(0) for _ in range(100)])
    play(monkeypatch, broker, 30, {})
    assert any(one.reasons for one in broker.all) == moved
