"""Policies of a whole namespace, with two requests for all its topics, where no topic has policies of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from readonly_engine.metadata.topic_name import TopicName

if TYPE_CHECKING:
    from collections.abc import Mapping

SYSTEM_TOPIC: Final = "__change_events"
"""Topic of a namespace with the policies of its topics (SystemTopicNames.NAMESPACE_EVENTS_LOCAL_NAME)."""

_SERVICE: Final = "topicPoliciesServiceClassName"
_SYSTEM_TOPIC_SERVICE: Final = "org.apache.pulsar.broker.service.SystemTopicBasedTopicPoliciesService"
_OFF: Final = "false"

_COUNTS: Final = {
    "maxSubscriptionsPerTopic": "max_subscriptions_per_topic",
    "maxConsumersPerTopic": "max_consumers_per_topic",
    "maxSameAddressConsumersPerTopic": "",  # brokers have this one only
}
"""Names of the brokers' configuration, and of a namespace's policies (Policies)."""

_RATES: Final = {
    "dispatchRate": ("topicDispatchRate", "dispatchThrottlingRatePerTopicIn"),
    "subscriptionDispatchRate": ("subscriptionDispatchRate", "dispatchThrottlingRatePerSubscriptionIn"),
}
"""Names of a topic's policies, of the namespace's by cluster, and of the brokers' configuration without `Msg` and `Byte`."""


def system_topic(topic: TopicName) -> TopicName:
    """Return the topic with the policies of the namespace's topics."""
    return TopicName("persistent", topic.tenant, topic.namespace, SYSTEM_TOPIC)


def topics_have_policies(configuration: Mapping[str, Any], *, empty: bool) -> bool:
    """Whether a topic of the namespace may have policies of its own.

    Args:
        configuration: the brokers' configuration.
        empty: whether `system_topic` has no entry.
    """
    if (
        str(configuration.get("topicLevelPoliciesEnabled")) == _OFF
        or str(configuration.get("systemTopicEnabled")) == _OFF
    ):
        return False
    return not empty or configuration.get(_SERVICE, _SYSTEM_TOPIC_SERVICE) != _SYSTEM_TOPIC_SERVICE


def applied_policies(namespace: Mapping[str, Any], configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policies of topics without their own, by name, as `obstacle` takes them.

    Args:
        namespace: the namespace's policies.
        configuration: the brokers' configuration.
    """
    policies: dict[str, Any] = {}
    for name, key in _COUNTS.items():
        own = namespace.get(key)
        policies[name] = configuration.get(name) if own is None else own
    cluster = configuration.get("clusterName")
    for name, (key, prefix) in _RATES.items():
        rates = namespace.get(key)
        own = rates.get(cluster) if isinstance(rates, dict) else None
        policies[name] = own or {
            f"dispatchThrottlingRateIn{unit}": _number(configuration.get(prefix + unit)) for unit in ("Msg", "Byte")
        }
    return policies


def _number(value: Any) -> int:
    try:
        return int(value or 0)
    except (TypeError, ValueError):
        return 0
