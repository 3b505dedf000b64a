"""Policies that leave the tail of a topic to bookies."""

from __future__ import annotations

import asyncio

import pytest
from readonly_engine.broker.tail import obstacles as module
from readonly_engine.broker.tail.obstacles import MAX_CONCURRENT, PushPolicies, obstacle
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerUnavailableError

UNLIMITED = {"dispatchThrottlingRateInMsg": -1, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 1}
FREE = {"dispatchRate": UNLIMITED, "subscriptionDispatchRate": None, "maxConsumersPerTopic": 0}


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ({}, ""),
        (FREE, ""),
        ({"maxSubscriptionsPerTopic": "0", "maxSameAddressConsumersPerTopic": "0"}, ""),
        ({"maxSubscriptionsPerTopic": 3}, "maxSubscriptionsPerTopic is 3"),
        ({"maxConsumersPerTopic": "7"}, "maxConsumersPerTopic is 7"),
        ({"maxConsumersPerTopic": {"a": 1}}, "maxConsumersPerTopic is {'a': 1}"),
        (
            FREE | {"dispatchRate": UNLIMITED | {"dispatchThrottlingRateInByte": 1000}},
            "dispatchRate has dispatchThrottlingRateInByte 1000",
        ),
        (
            FREE | {"subscriptionDispatchRate": UNLIMITED | {"dispatchThrottlingRateInMsg": 5}},
            "subscriptionDispatchRate has dispatchThrottlingRateInMsg 5",
        ),
    ],
)
def test_limits_are_obstacles(policies, expected):
    assert obstacle(policies) == expected


class Admin:
    """The admin API, with the policies of brokers, a namespace and a topic."""

    def __init__(self, *, configuration=None, namespace=None, topic=None, applied=None):
        self.answers = {"configuration": configuration or {}, "namespace": namespace, "topic": topic}
        self.applied = applied or {}
        self.asked, self.most, self.pending = [], 0, 0

    async def configuration(self):
        self.pending += 1
        self.most = max(self.most, self.pending)
        await asyncio.sleep(0)
        self.pending -= 1
        return self.answers["configuration"]

    async def topic_policy(self, topic, name):
        self.asked.append(str(topic))
        return self.answers["topic"]

    async def namespace_policy(self, topic, name):
        return self.answers["namespace"]

    async def policy(self, topic, name):
        return self.applied.get(name)


def obstacle_of(admin, topic):
    return PushPolicies(admin, admin.configuration).obstacle(parse_topic_name(topic))


def found(**policies):
    async def ask():
        return await obstacle_of(Admin(**policies), "orders")

    return asyncio.run(ask())


def test_the_nearest_limit_counts():
    limited = {"maxSubscriptionsPerTopic": "2"}
    assert found() == ""
    assert found(configuration=limited) == "maxSubscriptionsPerTopic is 2"
    assert found(configuration=limited, namespace=0) == ""
    assert found(namespace=4, topic=0) == ""
    assert found(namespace=0, topic=4) == "maxSubscriptionsPerTopic is 4"
    assert found(applied={"maxConsumers": 9}) == "maxConsumersPerTopic is 9"
    assert found(configuration={"dispatchRate": {"dispatchThrottlingRateInMsg": 7}}) == ""


def test_a_partition_has_the_policies_of_its_topic():
    async def ask(admin):
        await obstacle_of(admin, "orders-partition-3")

    admin = Admin()
    asyncio.run(ask(admin))
    assert admin.asked == ["persistent://public/default/orders"]


def test_few_topics_are_asked_about_at_once(monkeypatch):
    monkeypatch.setattr(module, "MAX_TOPICS_PER_S", 1e9)

    async def ask(admin):
        policies = PushPolicies(admin, admin.configuration)
        await asyncio.gather(*(policies.obstacle(parse_topic_name(f"orders-{number}")) for number in range(50)))

    admin = Admin()
    asyncio.run(ask(admin))
    assert admin.most == MAX_CONCURRENT


def test_the_requests_are_spread_over_time(monkeypatch):
    monkeypatch.setattr(module, "MAX_TOPICS_PER_S", 100.0)

    async def ask(admin):
        policies = PushPolicies(admin, admin.configuration)
        begin = asyncio.get_running_loop().time()
        await asyncio.gather(*(policies.obstacle(parse_topic_name(f"orders-{number}")) for number in range(10)))
        return asyncio.get_running_loop().time() - begin

    assert asyncio.run(ask(Admin())) > 0.085


def test_an_answer_is_used_for_a_while_and_for_all_partitions(monkeypatch):
    async def ask(admin, *topics):
        policies = PushPolicies(admin, admin.configuration)
        await asyncio.gather(*(policies.obstacle(parse_topic_name(name)) for name in topics))
        for name in topics:
            await policies.obstacle(parse_topic_name(name))
        return len(admin.asked)

    topics = [f"orders-partition-{number}" for number in range(10)]
    assert asyncio.run(ask(Admin(), *topics)) <= MAX_CONCURRENT
    monkeypatch.setattr(module, "MAX_KEPT", 1)
    assert asyncio.run(ask(Admin(), "a", "b")) == 4, "bounded"
    monkeypatch.setattr(module, "MAX_KEPT", 9)
    monkeypatch.setattr(module, "KEPT_S", 0.0)
    assert asyncio.run(ask(Admin(), "a")) == 2


def test_an_admin_api_that_is_away_is_an_error():
    class Away(Admin):
        async def configuration(self):
            return None

    async def ask():
        await obstacle_of(Away(), "orders")

    with pytest.raises(OwnerUnavailableError, match="unknown"):
        asyncio.run(ask())
