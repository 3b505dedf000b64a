"""Policies that leave the tail of a topic to bookies."""

from __future__ import annotations

import asyncio

import pytest
from readonly_engine.broker.tail import obstacles as module
from readonly_engine.broker.tail.obstacles import MAX_CONCURRENT, PushPolicies, obstacle
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.namespace_policies import NamespacePolicies

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
    """The admin API, with the policies of brokers, a namespace and a topic. Some topics have their own, or not."""

    def __init__(self, *, configuration=None, namespace=None, topic=None, applied=None, policies=None, empty=False):
        self.policies, self.empty, self.namespaces = policies, empty, []
        self.answers = {"configuration": configuration or {}, "namespace": namespace, "topic": topic}
        self.applied = applied or {}
        self.asked, self.most, self.pending = [], 0, 0

    async def configuration(self):
        return self.answers["configuration"]

    async def extent(self, topic):
        self.namespaces.append(str(topic))
        await asyncio.sleep(0)
        if self.empty is None:
            raise OwnerUnavailableError("the admin API answered 403")
        return self.empty, "3:7"

    async def namespace_policies(self, topic):
        return self.policies

    async def topic_policy(self, topic, name):
        self.asked.append(str(topic))
        self.pending += 1
        self.most = max(self.most, self.pending)
        await asyncio.sleep(0)
        self.pending -= 1
        return self.answers["topic"]

    async def namespace_policy(self, topic, name):
        return self.answers["namespace"]

    async def policy(self, topic, name):
        return self.applied.get(name)


def obstacle_of(admin, topic):
    return PushPolicies(admin, NamespacePolicies(admin, admin.configuration)).obstacle(parse_topic_name(topic))


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


def test_the_requests_are_spread_over_time(monkeypatch):
    monkeypatch.setattr(module, "MAX_TOPICS_PER_S", 100.0)

    async def ask(admin):
        policies = PushPolicies(admin, NamespacePolicies(admin, admin.configuration))
        begin = asyncio.get_running_loop().time()
        await asyncio.gather(*(policies.obstacle(parse_topic_name(f"orders-{number}")) for number in range(10)))
        return asyncio.get_running_loop().time() - begin

    assert asyncio.run(ask(Admin())) > 0.085


def test_an_answer_is_used_for_a_while_and_for_all_partitions(monkeypatch):
    async def ask_together(admin, topics):
        policies = PushPolicies(admin, NamespacePolicies(admin, admin.configuration))
        await asyncio.gather(*(policies.obstacle(parse_topic_name(name)) for name in topics))
        return len(admin.asked)

    async def ask(*topics):
        admin = Admin()
        policies = PushPolicies(admin, NamespacePolicies(admin, admin.configuration))
        for name in topics:
            await policies.obstacle(parse_topic_name(name))
        return len(admin.asked)

    partitions = [f"orders-partition-{number}" for number in range(10)]
    assert asyncio.run(ask_together(Admin(), partitions)) <= MAX_CONCURRENT
    assert asyncio.run(ask("a", "b", "a", "b")) == 2
    monkeypatch.setattr(module, "MAX_KEPT", 1)
    assert asyncio.run(ask("a", "b", "a", "b")) == 4, "bounded"
    monkeypatch.setattr(module, "MAX_KEPT", 9)
    monkeypatch.setattr(module, "KEPT_S", 0.0)
    assert asyncio.run(ask("a", "a")) == 2


def test_an_admin_api_that_is_away_is_an_error():
    class Away(Admin):
        async def configuration(self):
            return None

    async def ask():
        await obstacle_of(Away(), "orders")

    with pytest.raises(OwnerUnavailableError, match="unknown"):
        asyncio.run(ask())


def test_one_answer_serves_all_topics_of_a_namespace_whose_topics_have_no_policies(monkeypatch):
    async def ask(admin):
        policies = PushPolicies(admin, NamespacePolicies(admin, admin.configuration))
        topics = [
            parse_topic_name(f"{where}/orders-{number}") for where in ("public/default", "a/b") for number in range(99)
        ]
        return set(await asyncio.gather(*map(policies.obstacle, topics)))

    admin = Admin(empty=True, policies={"max_consumers_per_topic": 5})
    assert asyncio.run(ask(admin)) == {"maxConsumersPerTopic is 5"}
    assert sorted(admin.namespaces) == [
        "persistent://a/b/__change_events",
        "persistent://public/default/__change_events",
    ]
    assert not admin.asked
    monkeypatch.setattr(module, "NAMESPACE_KEPT_S", 0.0)
    monkeypatch.setattr(module, "MAX_TOPICS_PER_S", 1e9)
    unknown = Admin(empty=None)
    assert asyncio.run(ask(unknown)) == {""}
    assert len(unknown.asked) == 2 * 99
