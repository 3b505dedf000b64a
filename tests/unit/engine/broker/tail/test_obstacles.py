"""Policies that leave the tail of a topic to bookies."""

import asyncio
import time

import pytest
from readonly_engine.broker.tail import obstacles as module
from readonly_engine.broker.tail.obstacles import MAX_CONCURRENT, PushPolicies, obstacle
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.namespace_policies import NamespacePolicies

from tests.support.played_admin import PlayedAdmin

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


def admin_of(*, configuration=None, namespace=None, topic=None, applied=None, policies=None, empty=False):
    """An owner with the policies of brokers, a namespace and a topic. Some topics have their own, or not (`empty`)."""
    return PlayedAdmin(
        configuration=configuration or {},
        extent=OwnerUnavailableError("the admin API answered 403") if empty is None else (empty, "3:7"),
        namespace_policies=policies,
        namespace_policy=namespace,
        topic_policy=topic,
        policy=lambda _, name: (applied or {}).get(name),
    )


def obstacles_of(admin, *topics):
    """What keeps the owner from pushing these topics, asked for at once."""

    async def ask():
        policies = PushPolicies(admin, NamespacePolicies(admin, admin.configuration))
        return await asyncio.gather(*(policies.obstacle(parse_topic_name(topic)) for topic in topics))

    return asyncio.run(ask())


def found(**given):
    return obstacles_of(admin_of(**given), "orders")[0]


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
    begin = time.monotonic()
    obstacles_of(admin_of(), *(f"orders-{number}" for number in range(10)))
    assert time.monotonic() - begin > 0.085


def test_an_answer_is_used_for_a_while_and_for_all_partitions(monkeypatch):
    async def ask(*topics):
        admin = admin_of()
        policies = PushPolicies(admin, NamespacePolicies(admin, admin.configuration))
        for name in topics:
            await policies.obstacle(parse_topic_name(name))
        return admin.count("topic_policy")

    together = admin_of()
    obstacles_of(together, *(f"orders-partition-{number}" for number in range(10)))
    assert together.count("topic_policy") <= MAX_CONCURRENT
    assert asyncio.run(ask("a", "b", "a", "b")) == 2
    monkeypatch.setattr(module, "MAX_KEPT", 1)
    assert asyncio.run(ask("a", "b", "a", "b")) == 4, "bounded"
    monkeypatch.setattr(module, "MAX_KEPT", 9)
    monkeypatch.setattr(module, "KEPT_S", 0.0)
    assert asyncio.run(ask("a", "a")) == 2


def test_an_admin_api_that_is_away_is_an_error():
    admin = admin_of()
    admin.answers["configuration"] = None
    with pytest.raises(OwnerUnavailableError, match="unknown"):
        obstacles_of(admin, "orders")


def test_one_answer_serves_all_topics_of_a_namespace_whose_topics_have_no_policies(monkeypatch):
    topics = [f"{where}/orders-{number}" for where in ("public/default", "a/b") for number in range(99)]
    admin = admin_of(empty=True, policies={"max_consumers_per_topic": 5})
    assert {*obstacles_of(admin, *topics)} == {"maxConsumersPerTopic is 5"}
    assert sorted(str(topic) for (topic,) in admin.requests("extent")) == [
        "persistent://a/b/__change_events",
        "persistent://public/default/__change_events",
    ]
    assert admin.count("topic_policy") == 0
    monkeypatch.setattr(module, "NAMESPACE_KEPT_S", 0.0)
    monkeypatch.setattr(module, "MAX_TOPICS_PER_S", 1e9)
    unknown = admin_of(empty=None)
    assert {*obstacles_of(unknown, *topics)} == {""}
    assert unknown.count("topic_policy") == 2 * 99
