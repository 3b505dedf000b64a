"""Policies and brokers' settings that do not allow local cursors, and the remedy."""

import pytest
from readonly_operator.cluster.cursor_limits import CAUGHT_UP, COMPACTION_SERVICE, NO_LIMITS, CursorLimits
from readonly_operator.cluster.local_cursors.policies import PlannedTopic, has_limits, obstacles

NEW, EXISTING = PlannedTopic("shop/eu", 16, exists=False), PlannedTopic("shop/eu", 16, exists=True)
CAUGHT_UP_POLICY = {"inactiveTopicDeleteMode": CAUGHT_UP, "deleteWhileInactive": True}


def found(wanted, policies, limits=NO_LIMITS, topics=0):
    return [(one.type, one.reason) for one in obstacles(wanted, policies, limits, lambda: topics)]


@pytest.mark.parametrize(
    ("wanted", "policies", "limits", "topics", "reason"),
    [
        (NEW, {}, NO_LIMITS, 10**6, None),
        (NEW, {"encryption_required": True}, NO_LIMITS, 0, "EncryptionRequired"),
        (EXISTING, {}, CursorLimits(encryption=True), 0, "EncryptionRequired"),
        (NEW, {}, CursorLimits(partitions=15), 0, "PartitionLimit"),
        (NEW, {}, CursorLimits(partitions=16), 0, None),
        (EXISTING, {}, CursorLimits(partitions=15), 0, None),
        (NEW, {"max_topics_per_namespace": 20}, NO_LIMITS, 4, None),
        (NEW, {"max_topics_per_namespace": 20}, NO_LIMITS, 5, "TopicLimit"),
        (NEW, {"max_topics_per_namespace": None}, CursorLimits(topics=20), 5, "TopicLimit"),
        (NEW, {"max_topics_per_namespace": 0}, CursorLimits(topics=20), 5, None),
        (EXISTING, {"max_topics_per_namespace": 20}, NO_LIMITS, 21, None),
        (EXISTING, {"max_subscriptions_per_topic": 15}, NO_LIMITS, 0, "SubscriptionLimit"),
        (NEW, {"max_subscriptions_per_topic": 16}, NO_LIMITS, 0, None),
        (NEW, {}, CursorLimits(subscriptions=3), 0, "SubscriptionLimit"),
        (NEW, {"inactive_topic_policies": CAUGHT_UP_POLICY}, NO_LIMITS, 0, "InactiveTopicsDeleted"),
        (
            NEW,
            {"inactive_topic_policies": {**CAUGHT_UP_POLICY, "deleteWhileInactive": False}},
            CursorLimits(deletes_caught_up=True),
            0,
            None,
        ),
        (NEW, {}, CursorLimits(deletes_caught_up=True), 0, "InactiveTopicsDeleted"),
        (NEW, {"subscription_expiration_time_minutes": 60}, NO_LIMITS, 0, "SubscriptionsExpire"),
        (EXISTING, {}, CursorLimits(expiration=1), 0, "SubscriptionsExpire"),
        (NEW, {"subscription_expiration_time_minutes": 0}, CursorLimits(expiration=1), 0, None),
        (NEW, {}, CursorLimits(compaction="org.example.Mine"), 0, "CompactionReplaced"),
    ],
)
def test_each_obstacle(wanted, policies, limits, topics, reason):
    assert found(wanted, policies, limits, topics) == ([("LocalCursors", reason)] if reason else [])


def test_the_remedy_is_a_command():
    (one,) = obstacles(NEW, {"encryption_required": True}, NO_LIMITS, lambda: 0)
    assert "pulsar-admin namespaces set-encryption-required --disable shop/eu" in one.message
    (one,) = obstacles(NEW, {"max_topics_per_namespace": 20}, NO_LIMITS, lambda: 9)
    assert "set-max-topics-per-namespace -t 25 shop/eu" in one.message


def test_topics_are_counted_only_for_a_limit():
    def count():
        raise AssertionError

    assert obstacles(NEW, {"encryption_required": False}, NO_LIMITS, count) == []
    assert not has_limits({}, NO_LIMITS)
    assert has_limits({"max_topics_per_namespace": 1}, NO_LIMITS)


def test_a_brokers_settings_are_texts():
    read = CursorLimits.of_broker(
        {
            "maxNumPartitionsPerPartitionedTopic": "8",
            "maxTopicsPerNamespace": "0",
            "maxSubscriptionsPerTopic": "100",
            "encryptionRequireOnProducer": "true",
            "subscriptionExpirationTimeMinutes": "30",
            "brokerDeleteInactiveTopicsEnabled": "true",
            "brokerDeleteInactiveTopicsMode": CAUGHT_UP,
            "compactionServiceFactoryClassName": COMPACTION_SERVICE,
        }
    )
    assert read == CursorLimits(8, 0, 100, encryption=True, deletes_caught_up=True, expiration=30)
    assert CursorLimits.of_broker({"brokerDeleteInactiveTopicsMode": CAUGHT_UP}) == NO_LIMITS
    assert CursorLimits.of_broker(["?"]) == NO_LIMITS
    other = CursorLimits(4, 50, 0, compaction="x", expiration=9)
    strictest = CursorLimits(4, 50, 100, encryption=True, deletes_caught_up=True, compaction="x", expiration=9)
    assert read.strictest(other) == strictest
