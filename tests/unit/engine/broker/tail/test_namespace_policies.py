"""Policies that count for all topics of a namespace."""

from __future__ import annotations

import pytest
from readonly_engine.broker.tail.namespace_policies import applied_policies, system_topic, topics_have_policies
from readonly_engine.broker.tail.obstacles import obstacle
from readonly_engine.metadata.topic_name import parse_topic_name

CONFIGURATION = {
    "clusterName": "here",
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
        (
            {"subscriptionDispatchRate": {"here": SLOW}},
            {},
            "subscriptionDispatchRate has dispatchThrottlingRateInMsg 10",
        ),
        ({}, {"dispatchThrottlingRatePerTopicInByte": "6"}, "dispatchRate has dispatchThrottlingRateInByte 6"),
        ({"topicDispatchRate": {"here": ANY_RATE}}, {"dispatchThrottlingRatePerTopicInByte": "6"}, ""),
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
