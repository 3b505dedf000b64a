"""Consumers that go back to their owner when they are few."""

import asyncio
import time
from types import SimpleNamespace

import pytest
from readonly_engine.broker.pool.bindings import Binding, Bindings, Placing
from readonly_engine.broker.pool.cheaper import FEW, Consumers, RecentRedirects, belongs_at_owner
from readonly_engine.broker.server import owner_returns
from readonly_engine.broker.server.owner_returns import CHECKS, TURN_CONSUMERS, OwnerReturns
from readonly_engine.config.listeners import NO_URLS, Urls
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerUnavailableError

OWNER = Urls("pulsar://owner:6650")
ORDERS, BILLS = parse_topic_name("orders"), parse_topic_name("bills")


class Broker:
    """One that serves consumers of topics."""

    def __init__(self, *topics):
        self.consumers = [
            SimpleNamespace(
                topic=topic,
                served_by="",
                placeable=True,
                info=SimpleNamespace(name="s"),
                connection=SimpleNamespace(identity="app", listener="", tls=False),
            )
            for topic in topics
        ]
        self.recent_redirects = RecentRedirects()
        self.bindings = Bindings((Binding("b", placement=Placing.WHEN_CHEAPER),))
        self.counted, self.moved = {topic: topics.count(topic) for topic in topics}, []
        self.looked_up, self.sent_to = [], []
        self.returns = OwnerReturns(self)

    async def count(self, _, topic, *__):
        if self.counted[topic] is None:
            raise OwnerUnavailableError("no")
        return Consumers(self.counted[topic], 0, 0)

    async def urls(self, client, topic):
        self.looked_up.append(client.identity)
        if client.identity == "refused":
            raise OwnerUnavailableError("no")
        return OWNER

    async def move(self, _, consumers, _reason, to):
        self.moved += [consumer.topic for consumer in consumers]
        self.sent_to += [to(consumer) for consumer in consumers]
        came_back = [self.recent_redirects.names(consumer.topic, time.monotonic()) for consumer in consumers]
        assert all(belongs_at_owner(Consumers(1, 1, 0), names, "s") for names in came_back), "it would stay"

    def look(self, monkeypatch, times):
        monkeypatch.setattr(owner_returns, "may_be_placed", lambda consumer: consumer.placeable)
        monkeypatch.setattr(owner_returns, "owner_consumers", self.count)
        monkeypatch.setattr(owner_returns, "owner_urls", self.urls)
        monkeypatch.setattr(owner_returns, "move", self.move)

        async def run():
            for _ in range(times):
                await self.returns.check()

        asyncio.run(run())
        return self.moved


def test_one_subscription_goes_back_after_some_checks(monkeypatch):
    broker = Broker(ORDERS, *[BILLS] * (FEW + 1))
    for number, consumer in enumerate(broker.consumers[1:]):
        consumer.info.name = f"s-{number}"
    assert broker.look(monkeypatch, CHECKS - 1) == []
    assert broker.look(monkeypatch, 1) == [ORDERS]
    assert broker.look(monkeypatch, CHECKS - 1) == [ORDERS], "it begins to count again"


def test_clients_connect_to_the_owner_without_a_lookup_of_their_own(monkeypatch):
    """It has one answer for all with the same identity. The others look up."""
    broker = Broker(*[ORDERS] * 5)
    broker.counted[ORDERS] = 1
    for consumer, identity, tls in zip(
        broker.consumers[1:], ("app", "app", "refused", "app"), (0, 0, 0, 1), strict=True
    ):
        consumer.connection = SimpleNamespace(identity=identity, listener="", tls=bool(tls))
    broker.look(monkeypatch, CHECKS)
    assert broker.sent_to == [OWNER, OWNER, OWNER, NO_URLS, NO_URLS]
    assert broker.looked_up == ["app", "refused", "app"]


def test_a_subscription_more_between_the_checks_starts_the_count_again(monkeypatch):
    broker = Broker(ORDERS)
    broker.look(monkeypatch, CHECKS - 1)
    alone = list(broker.consumers)
    for number in range(FEW):
        other = {**vars(alone[0]), "info": SimpleNamespace(name=f"s-{number}")}
        broker.consumers.append(SimpleNamespace(**other))
    broker.look(monkeypatch, 1)
    broker.consumers = alone
    assert broker.look(monkeypatch, CHECKS - 1) == []
    assert broker.look(monkeypatch, 1) == [ORDERS]


@pytest.mark.parametrize("counted", [FEW + 1, None])
def test_nothing_moves_while_others_have_consumers_or_the_owner_is_silent(monkeypatch, counted):
    broker = Broker(ORDERS)
    broker.counted[ORDERS] = counted
    assert broker.look(monkeypatch, CHECKS) == []


@pytest.mark.parametrize("change", [{"placeable": False}, {"served_by": "the owner"}])
def test_a_topic_stays_with_a_consumer_that_cannot_go(monkeypatch, change):
    broker = Broker(ORDERS, BILLS)
    vars(broker.consumers[0]).update(change)
    assert broker.look(monkeypatch, CHECKS) == [BILLS]


def test_without_such_a_binding_no_consumer_is_looked_at(monkeypatch):
    broker = Broker(ORDERS)
    broker.bindings, broker.consumers = Bindings((Binding("b"),)), None
    assert broker.look(monkeypatch, CHECKS) == []


async def test_many_consumers_leave_turns_of_the_event_loop_to_others(monkeypatch):
    broker = Broker(*[ORDERS] * (3 * TURN_CONSUMERS))
    monkeypatch.setattr(owner_returns, "may_be_placed", lambda consumer: consumer.placeable)
    turns = []

    checking = asyncio.create_task(broker.returns.check())
    while not checking.done():
        turns.append(1)
        await asyncio.sleep(0)
    assert len(turns) >= 3


def test_one_check_asks_for_a_bounded_number_of_topics(monkeypatch):
    monkeypatch.setattr(owner_returns, "MAX_TOPICS", 3)
    topics = [parse_topic_name(f"t-{number}") for number in range(5)]
    broker = Broker(*topics)
    assert broker.look(monkeypatch, CHECKS) == topics[:3]
    assert broker.look(monkeypatch, 1) == topics
