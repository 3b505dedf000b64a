"""How a consumer is created, with everything around it played."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from readonly_engine.broker import admission
from readonly_engine.broker.admission import admit
from readonly_engine.broker.bindings import Bindings, Unbound, from_patterns
from readonly_engine.broker.claiming import Hold
from readonly_engine.broker.claims import ClaimKey
from readonly_engine.broker.pause import Pause
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.relay.errors import OwnerUnavailableError
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

TOPIC = parse_topic_name("orders")
BOUND, UNBOUND = Bindings((from_patterns("b", ["orders"]),)), Bindings()


class Broker:
    """A broker whose other parts agree to everything."""

    def __init__(self, bindings):
        self.unbound = Unbound.REDIRECT
        self.bindings = bindings
        self.limits = SimpleNamespace(subscribe=lambda *_: "")
        passing = SimpleNamespace(admit=self.later, enter=lambda _: None)
        self.topics = SimpleNamespace(passing=passing, state=self.later, join=self.later)
        self.spawned = []

    async def later(self, *_):
        return None

    def spawn(self, coroutine):
        self.spawned.append(asyncio.create_task(coroutine))


class Consumer:
    """One that attaches as the test lets it."""

    def __init__(self, client, *_, bound, **__):
        self.client, self.bound = client, bound
        self.relayed = self
        self.left = self.exclusive = False

    async def attach(self):
        self.client.attached(self)
        return "the owner's answer"

    def joined(self, *_):
        pass

    def leave(self):
        self.left = True

    async def close(self):
        self.client.closed = True


@pytest.mark.parametrize("after", [BOUND, UNBOUND])
@pytest.mark.parametrize("before", [BOUND, UNBOUND])
def test_a_consumer_that_comes_while_the_bindings_change_goes_by_the_new_ones(monkeypatch, before, after):
    monkeypatch.setattr(admission, "Consumer", Consumer)
    broker = Broker(before)
    client = SimpleNamespace(broker=broker, closed=False, attached=lambda _: setattr(broker, "bindings", after))

    async def run():
        coming = admit(client, TOPIC, CommandSubscribe(subscription="s", sub_type=CommandSubscribe.Exclusive))
        if before is after:
            consumer, _ = await coming
            assert consumer.bound == (after is BOUND)
            assert not consumer.left
        else:
            with pytest.raises(OwnerUnavailableError, match="look it up again"):
                await coming
            await asyncio.gather(*broker.spawned)
        assert client.closed == (before is not after)

    asyncio.run(run())


@pytest.mark.parametrize(("valid", "resting"), [(True, False), (True, True), (False, False)])
def test_a_consumer_joins_within_a_claim_that_is_still_this_brokers_only(valid, resting):
    """Between the claim and the first message the owner is asked, and may take its time."""
    paused = []
    broker = SimpleNamespace(claiming=SimpleNamespace(valid=lambda _: valid, resting=resting))
    subscription = SimpleNamespace(pause=paused.append)
    hold = Hold(ClaimKey(TOPIC, "s"), 1, "", 7)
    if valid:
        admission._check_claim(broker, hold, subscription)
    else:
        with pytest.raises(OwnerUnavailableError, match="served by another broker; try again"):
            admission._check_claim(broker, hold, subscription)
    assert paused == ([Pause.LEASE] if resting else [])
