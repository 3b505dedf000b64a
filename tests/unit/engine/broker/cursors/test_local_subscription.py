"""Consumers of a Failover subscription learn which of them is active, when the acks of the former one have had time."""

from types import SimpleNamespace

import pytest
from readonly_engine.broker.cursors import local_subscription as module
from readonly_engine.broker.cursors.consumers import LocalConsumer
from readonly_engine.broker.cursors.local_subscription import LocalSubscription
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

from tests.support.waiting import until

TOPIC = parse_topic_name("orders-partition-0")


class Member:
    def __init__(self, number, name):
        self.number, self.name = number, name
        self.told = []

    def active_changed(self, *, active):
        self.told.append(active)

    def end(self, reason):
        raise AssertionError


def join(subscription, number, name):
    member = Member(number, name)
    subscription.add(member, LocalConsumer(number, name, 0, CommandSubscribe.Failover))
    subscription.announce(member)
    return member


@pytest.fixture
def subscription(monkeypatch):
    monkeypatch.setattr(module, "FAILOVER_DELAY_S", 0.02)
    return LocalSubscription(TOPIC, SimpleNamespace(name="s"), None, None)


async def told(*members):
    await until(lambda: all(member.told for member in members))


async def test_all_are_told_after_a_while(subscription):
    second = join(subscription, 1, "b")
    assert second.told == []  # its SUBSCRIBE has no answer yet
    await told(second)
    assert second.told == [True]
    first = join(subscription, 2, "a")
    assert (first.told, second.told) == ([], [True, False])  # the former one gets no more messages
    await told(first)
    assert (first.told, second.told) == ([True], [True, False, False])
    third = join(subscription, 3, "c")
    assert third.told == [False]  # nothing has changed


async def test_one_that_leaves_before_it_is_told_is_not_active(subscription):
    join(subscription, 1, "b")
    first = join(subscription, 2, "a")
    subscription.remove(first)
    (second,) = subscription.members
    second.told.clear()
    await told(second)
    assert second.told == [True]
    assert first.told == []
