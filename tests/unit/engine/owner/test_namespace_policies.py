"""Policies that count for all topics of a namespace."""

import asyncio

import pytest
from readonly_engine.broker.tail.obstacles import obstacle
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner import namespace_policies as module
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.namespace_policies import (
    NamespacePolicies,
    applied_policies,
    dispatch_policies,
    entry_filters,
    system_topic,
    topics_have_policies,
)

from tests.support.played_admin import PlayedAdmin

CONFIGURATION = {
    "clusterName": "here",
    "allowOverrideEntryFilters": "false",
    "entryFilterNames": "[]",
    "topicLevelPoliciesEnabled": "true",
    "systemTopicEnabled": "true",
    "topicPoliciesServiceClassName": "org.apache.pulsar.broker.service.SystemTopicBasedTopicPoliciesService",
    "maxSubscriptionsPerTopic": "0",
    "maxConsumersPerTopic": "0",
    "maxSameAddressConsumersPerTopic": "0",
    "dispatchThrottlingRatePerTopicInMsg": "0",
    "dispatchThrottlingRatePerTopicInByte": "0",
    "dispatchThrottlingRatePerSubscriptionInMsg": "0",
    "dispatchThrottlingRatePerSubscriptionInByte": "0",
}
ANY_RATE = {"dispatchThrottlingRateInMsg": -1, "dispatchThrottlingRateInByte": -1}
SLOW = {"dispatchThrottlingRateInMsg": 10, "dispatchThrottlingRateInByte": -1}


@pytest.mark.parametrize(
    ("namespace", "configuration", "expected"),
    [
        ({}, {}, ""),
        ({"topicDispatchRate": {}, "max_consumers_per_topic": None}, {}, ""),
        ({"max_subscriptions_per_topic": 2}, {}, "maxSubscriptionsPerTopic is 2"),
        ({"max_consumers_per_topic": 3}, {}, "maxConsumersPerTopic is 3"),
        ({}, {"maxConsumersPerTopic": "4"}, "maxConsumersPerTopic is 4"),
        ({"max_consumers_per_topic": 0}, {"maxConsumersPerTopic": "4"}, ""),
        ({}, {"maxSameAddressConsumersPerTopic": "5"}, "maxSameAddressConsumersPerTopic is 5"),
        ({"topicDispatchRate": {"here": SLOW}}, {}, "dispatchRate has dispatchThrottlingRateInMsg 10"),
        ({"topicDispatchRate": {"there": SLOW}}, {}, ""),
        ({"clusterDispatchRate": {"here": SLOW}}, {}, "dispatchRate has dispatchThrottlingRateInMsg 10"),
        ({"topicDispatchRate": {"here": ANY_RATE}, "clusterDispatchRate": {"here": SLOW}}, {}, ""),
        (
            {"subscriptionDispatchRate": {"here": SLOW}},
            {},
            "subscriptionDispatchRate has dispatchThrottlingRateInMsg 10",
        ),
        ({}, {"dispatchThrottlingRatePerTopicInByte": "6"}, "dispatchRate has dispatchThrottlingRateInByte 6"),
        (
            {"topicDispatchRate": {"here": ANY_RATE}},
            {"dispatchThrottlingRatePerTopicInByte": "6"},
            "dispatchRate has dispatchThrottlingRateInByte 6",
        ),
        ({"topicDispatchRate": {"here": "?"}}, {}, ""),
        ({"max_consumers_per_topic": -1}, {"maxConsumersPerTopic": "4"}, "maxConsumersPerTopic is 4"),
        (
            {},
            {"dispatchThrottlingRatePerSubscriptionInMsg": "7"},
            "subscriptionDispatchRate has dispatchThrottlingRateInMsg 7",
        ),
    ],
)
def test_a_namespace_goes_before_the_brokers(namespace, configuration, expected):
    assert obstacle(applied_policies(namespace, CONFIGURATION | configuration)) == expected


def test_topics_may_have_policies_unless_that_is_known():
    assert not topics_have_policies(CONFIGURATION, empty=True)
    assert topics_have_policies(CONFIGURATION, empty=False)
    assert not topics_have_policies(CONFIGURATION | {"topicLevelPoliciesEnabled": "false"}, empty=False)
    assert not topics_have_policies(CONFIGURATION | {"systemTopicEnabled": "false"}, empty=False)
    assert topics_have_policies(CONFIGURATION | {"topicPoliciesServiceClassName": "org.example.Own"}, empty=True)
    assert not topics_have_policies({}, empty=True), "brokers before 4.0 have one kind only"


def test_the_system_topic_is_of_the_namespace():
    assert str(system_topic(parse_topic_name("non-persistent://a/b/c"))) == "persistent://a/b/__change_events"


@pytest.mark.parametrize(
    ("namespace", "configuration", "expected"),
    [
        ({}, {}, ""),
        ({}, {"entryFilterNames": "[a, b]"}, "a, b"),
        ({"entryFilters": {"entryFilterNames": "c"}}, {}, ""),
        ({"entryFilters": {"entryFilterNames": "c"}}, {"allowOverrideEntryFilters": "true"}, "c"),
        (
            {"entryFilters": {"entryFilterNames": ""}},
            {"allowOverrideEntryFilters": "true", "entryFilterNames": "[a]"},
            "a",
        ),
        ({"entryFilters": None}, {"allowOverrideEntryFilters": "true"}, ""),
    ],
)
def test_filters_of_a_namespace_count_where_the_brokers_allow_them(namespace, configuration, expected):
    assert entry_filters(namespace, CONFIGURATION | configuration) == expected


@pytest.mark.parametrize(
    ("namespace", "configuration", "expected"),
    [
        ({}, {}, (None, None, {"active": True})),
        ({}, {"maxUnackedMessagesPerConsumer": "7", "maxUnackedMessagesPerSubscription": "x"}, (7, None, {"active": True})),
        ({"max_unacked_messages_per_consumer": 0}, {"maxUnackedMessagesPerConsumer": "7"}, (0, None, {"active": True})),
        ({"max_unacked_messages_per_subscription": -1}, {"maxUnackedMessagesPerSubscription": "8"}, (None, 8, {"active": True})),
        ({}, {"delayedDeliveryEnabled": "false"}, (None, None, {"active": False})),
        ({"delayed_delivery_policies": {"active": True}}, {"delayedDeliveryEnabled": "false"}, (None, None, {"active": True})),
    ],
)  # fmt: skip
def test_policies_of_dispatch_of_a_namespace_come_before_those_of_the_brokers(namespace, configuration, expected):
    assert dispatch_policies(namespace, configuration) == expected


FORBIDDEN = OwnerUnavailableError("the admin API answered 403")


def owner(**changed):
    """An owner whose namespaces have policies, and no topic with its own."""
    policies = {"max_consumers_per_topic": 5, "entryFilters": {"entryFilterNames": "f"}}
    usual = {"configuration": CONFIGURATION, "extent": (True, "3:7"), "namespace_policies": policies}
    return PlayedAdmin(**usual | changed)


def namespaces(admin):
    """The namespaces that were asked about, in order."""
    return [topic.namespace for (topic,) in admin.requests("extent")]


def ask(admin, *topics, age=60.0, of="applied"):
    """All answers, asked for at once."""

    async def run():
        policies = NamespacePolicies(admin, admin.configuration)
        asked = [getattr(policies, of)(parse_topic_name(topic), age) for topic in topics]
        return await asyncio.gather(*asked)

    return asyncio.run(run())


@pytest.mark.parametrize("admin", [owner(configuration=None), owner(extent=(False, "3:7")), owner(extent=FORBIDDEN)])
def test_topics_that_may_differ_or_that_nobody_tells_of_have_no_shared_policies(admin):
    assert ask(admin, "a/b/c") == [None]


def test_filters_that_only_brokers_have_need_no_request():
    admin = owner(configuration=CONFIGURATION | {"entryFilterNames": "[a]"})
    overridden = CONFIGURATION | {"allowOverrideEntryFilters": "true"}
    assert ask(admin, "a/b/c", "a/c/d", of="entry_filters") == ["a", "a"]
    assert not namespaces(admin)
    assert ask(owner(configuration=overridden), "a/b/c", of="entry_filters") == ["f"]
    assert ask(owner(configuration=overridden, extent=(False, "3:7")), "a/b/c", of="entry_filters") == [None]
    assert ask(owner(configuration=None), "a/b/c", of="entry_filters") == [None]


def test_kept_answers_are_bounded_in_age_and_number(monkeypatch):
    monkeypatch.setattr(module, "MAX_NAMESPACES", 2)

    async def run(age, *names):
        admin = owner()
        policies = NamespacePolicies(admin, admin.configuration)
        for name in names:
            await policies.applied(parse_topic_name(f"a/{name}/c"), age)
        return namespaces(admin)

    assert asyncio.run(run(60.0, "n", "n", "m", "n")) == ["n", "m"]
    assert asyncio.run(run(0.0, "n", "n")) == ["n", "n"]
    assert asyncio.run(run(60.0, "n", "m", "o", "n")) == ["n", "m", "o", "n"]


@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.parametrize("changed", ["extent", "namespace_policies", "configuration", ""])
async def test_each_change_that_is_followed_changes_the_version(empty, changed):
    admin = owner(extent=(empty, "3:7"))
    policies = NamespacePolicies(admin, admin.configuration)
    topic = parse_topic_name("a/b/c")
    before = await policies.version(topic, 0.0)
    other = {
        "extent": (empty, "3:8"),
        "namespace_policies": {"max_unacked_messages_per_consumer": 3},
        "configuration": CONFIGURATION | {"dispatchThrottlingRateInMsg": "4"},
    }
    if changed:
        admin.answers[changed] = other[changed]
    assert (before is not None, await policies.version(topic, 0.0) != before) == (True, bool(changed))


async def test_policies_of_topics_that_are_kept_elsewhere_count_as_changed_after_a_while(monkeypatch):
    """With PIP-469 a topic's policies are in the metadata store, where a change is not seen."""
    elsewhere = {"topicPoliciesServiceClassName": "MetadataStoreTopicPoliciesService"}
    admin = owner(configuration=CONFIGURATION | elsewhere)
    policies = NamespacePolicies(admin, admin.configuration)
    versions = [await policies.version(parse_topic_name("a/b/c"), 0.0)]
    monkeypatch.setattr(module, "UNSEEN_S", module.UNSEEN_S / 1e9)
    first, second = [*versions, await policies.version(parse_topic_name("a/b/c"), 0.0)]
    assert first != second


@pytest.mark.parametrize("admin", [owner(configuration=None), owner(extent=FORBIDDEN)])
def test_what_nobody_tells_of_has_no_version(admin):
    assert ask(admin, "a/b/c", of="version") == [None]
