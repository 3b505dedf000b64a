"""Which consumers are sent away when the bindings change."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import pytest
from readonly_engine.broker.bindings import Binding, Bindings, Lifecycle, parse_pattern
from readonly_engine.broker.broker import Broker
from readonly_engine.metadata.topic_name import parse_topic_name

TOPIC = parse_topic_name("orders")
UNBOUND = Bindings()


def bound(lifecycle=Lifecycle.DRAIN):
    return Bindings((Binding("b", (parse_pattern("orders"),), lifecycle=lifecycle),))


class Consumer:
    """One that keeps why it was sent away."""

    topic = TOPIC
    consumer_id = 0
    subscribe = SimpleNamespace(subscription="s")

    def __init__(self, *, bound, via="", pass_through=False):
        self.bound, self.via = bound, via
        self.pass_through = pass_through or bool(via)
        self.dismissed = ""

    def dismiss(self, reason):
        self.dismissed = reason


def change(consumer, *states):
    """The bindings go from one state to the next."""
    for before, after in pairwise(states):
        Broker._evict(SimpleNamespace(consumers=[consumer], bindings=after), before)
    return consumer


@pytest.mark.parametrize("via", ["", "pulsar://another:6650"])
def test_a_consumer_stays_as_long_as_its_subscription_is_bound(via):
    assert not change(Consumer(bound=True, via=via), bound(), bound()).dismissed
    assert "not bound to the pool any more" in change(Consumer(bound=True, via=via), bound(), UNBOUND).dismissed


def test_a_consumer_that_passes_through_comes_back_when_its_subscription_is_bound():
    assert "serves the subscription now" in change(Consumer(bound=False, pass_through=True), UNBOUND, bound()).dismissed


@pytest.mark.parametrize("via", ["", "pulsar://another:6650"])
def test_one_that_was_let_stay_is_served_on_and_is_bound_again_without_being_disturbed(via):
    consumer = Consumer(bound=True, via=via)
    detached = bound(Lifecycle.DETACH)
    assert not change(consumer, detached, UNBOUND, UNBOUND).dismissed
    assert not consumer.bound
    assert not change(consumer, UNBOUND, bound()).dismissed
    assert consumer.bound
    assert change(consumer, bound(), UNBOUND).dismissed
