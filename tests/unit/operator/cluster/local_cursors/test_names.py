"""Operator and engine give topics with cursors and guards the same names, and nothing else passes for a pool's own."""

import pytest
from readonly_engine.broker.cursors import partitions
from readonly_engine.config import settings
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_operator.api import cursors
from readonly_operator.cluster.local_cursors.names import POOL_PROPERTY, cursor_topic, is_guard, is_system, rest_path

POOLS = ("team.demo@0d8fb1a5-9f0f-4bd3-b9bd-9f9ee2a0ef6a", "a.b", "sp ace/#@x")


@pytest.mark.parametrize("pool", POOLS)
def test_names_are_the_engines(pool):
    engines = partitions.cursor_topic(parse_topic_name("persistent://shop/eu/orders"), pool)
    assert cursor_topic("shop/eu", pool) == str(engines)
    assert rest_path(cursor_topic("shop/eu", pool)) == engines.rest_path
    for partition in (0, 7, settings.MAX_PARTITIONS - 1):
        assert is_guard(partitions.guard_name(pool, partition), pool)


def test_the_property_and_the_numbers_are_the_engines(make_pool):
    assert POOL_PROPERTY == partitions.POOL_PROPERTY
    assert cursors.MAX_PARTITIONS == settings.MAX_PARTITIONS
    assert settings.EngineConfig.__dataclass_fields__["cursor_partitions"].default == cursors.DEFAULT_PARTITIONS
    assert make_pool().cursor_partitions == cursors.DEFAULT_PARTITIONS
    assert [str(one).capitalize() for one in settings.Cursors] == list(cursors.KEEPERS)


def test_the_identity_is_that_of_the_brokers(make_pool):
    assert make_pool().identity == "team.demo@uid-of-demo"


@pytest.mark.parametrize(
    "subscription",
    [
        "pulsar-readonly-guard-team.demo@u-",
        "pulsar-readonly-guard-team.demo@u-x",
        "pulsar-readonly-guard-team.demo@u-1024",
        "pulsar-readonly-guard-team.demo@u-01",
        "pulsar-readonly-guard-team.demo@u-1\n",
        "pulsar-readonly-guard-team.demo@u2-1",
        "pulsar-readonly-guard-teamXdemo@u-1",
        "my-pulsar-readonly-guard-team.demo@u-1",
        "pulsar-readonly-guard-team.demo@u-1-1",
    ],
)
def test_other_subscriptions_are_no_guards(subscription):
    assert not is_guard(subscription, "team.demo@u")


def test_system_topics_have_no_guards():
    assert is_system(f"{cursor_topic('a/b', 'x')}-partition-3")
    assert not is_system("persistent://a/b/orders__x")
