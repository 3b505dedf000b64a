"""Policies of a whole namespace, with two requests for all its topics, where no topic has policies of its own."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from readonly_engine.metadata.topic_name import TopicName
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.single_flight import SingleFlight

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from readonly_engine.owner.admin import AdminClient

log = logging.getLogger(__name__)

MAX_NAMESPACES: Final = 10_000
"""Bound of the namespaces whose policies are kept."""

SYSTEM_TOPIC: Final = "__change_events"
"""Topic of a namespace with the policies of its topics (SystemTopicNames.NAMESPACE_EVENTS_LOCAL_NAME)."""

_SERVICE: Final = "topicPoliciesServiceClassName"
_SYSTEM_TOPIC_SERVICE: Final = "org.apache.pulsar.broker.service.SystemTopicBasedTopicPoliciesService"
_ON: Final = "true"
_OFF: Final = "false"

_COUNTS: Final = {
    "maxSubscriptionsPerTopic": "max_subscriptions_per_topic",
    "maxConsumersPerTopic": "max_consumers_per_topic",
    "maxSameAddressConsumersPerTopic": "",  # brokers have this one only
}
"""Names of the brokers' configuration, and of a namespace's policies (Policies)."""

_RATES: Final = {
    "dispatchRate": (("topicDispatchRate", "clusterDispatchRate"), "dispatchThrottlingRatePerTopicIn"),
    "subscriptionDispatchRate": (("subscriptionDispatchRate",), "dispatchThrottlingRatePerSubscriptionIn"),
}
"""Names of a topic's policies, of the namespace's by cluster, the first of which counts (AbstractTopic), and of the brokers'
configuration without `Msg` and `Byte`."""


_UNITS: Final = ("Msg", "Byte")


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

    A limit below 0 and a rate without a limit are no policies: the brokers' configuration applies (AbstractTopic.normalizeValue,
    DispatchRateImpl.normalize).

    Args:
        namespace: the namespace's policies.
        configuration: the brokers' configuration.
    """
    policies: dict[str, Any] = {}
    for name, key in _COUNTS.items():
        own = namespace.get(key)
        unset = own is None or (isinstance(own, int) and own < 0)
        policies[name] = configuration.get(name) if unset else own
    cluster = configuration.get("clusterName")
    for name, (keys, prefix) in _RATES.items():
        rates = [rates.get(cluster) for key in keys if isinstance(rates := namespace.get(key), dict)]
        own = next((rate for rate in rates if isinstance(rate, dict)), {})
        if not any(_number(own.get(f"dispatchThrottlingRateIn{unit}")) > 0 for unit in _UNITS):
            own = {f"dispatchThrottlingRateIn{unit}": _number(configuration.get(prefix + unit)) for unit in _UNITS}
        policies[name] = own
    return policies


def filters_may_differ(configuration: Mapping[str, Any]) -> bool:
    """Whether namespaces and topics may have their own entry filters (EntryFilterSupport)."""
    return str(configuration.get("allowOverrideEntryFilters")) == _ON


def entry_filters(namespace: Mapping[str, Any], configuration: Mapping[str, Any]) -> str:
    """Return the names of the entry filters of topics without their own, with commas; empty for none.

    Args:
        namespace: the namespace's policies.
        configuration: the brokers' configuration, with a list as `[a, b]`.
    """
    own = namespace.get("entryFilters") if filters_may_differ(configuration) else None
    names = str(own.get("entryFilterNames") or "") if isinstance(own, dict) else ""
    return names or str(configuration.get("entryFilterNames") or "").strip("[] ")


class _Kept(NamedTuple):
    """Policies of one namespace.

    Attributes:
        at: time of the answer.
        policies: the policies; None if topics may have their own, or if the admin API does not tell.
    """

    at: float
    policies: dict[str, Any] | None


class NamespacePolicies:
    """Requests the policies that all topics of a namespace share.

    Args:
        admin: client of the admin API.
        configuration: returns the brokers' configuration, cached; None if unknown.
    """

    def __init__(self, admin: AdminClient, configuration: Callable[[], Awaitable[dict[str, Any] | None]]) -> None:
        self._admin = admin
        self.configuration = configuration
        self._kept: OrderedDict[TopicName, _Kept] = OrderedDict()
        self._single_flight: SingleFlight[dict[str, Any] | None] = SingleFlight()

    async def applied(self, topic: TopicName, max_age_s: float) -> dict[str, Any] | None:
        """Return the limits that apply to a topic, as `applied_policies`; None if it may have its own, or if that is unknown.

        Args:
            topic: the topic, or a partition.
            max_age_s: greatest age of a kept answer, in seconds.
        """
        configuration = await self.configuration()
        if configuration is None:
            return None
        policies = await self._of(topic, configuration, max_age_s)
        return None if policies is None else applied_policies(policies, configuration)

    async def entry_filters(self, topic: TopicName, max_age_s: float) -> str | None:
        """Return the names of a topic's entry filters, empty for none; None if it may have its own, or if that is unknown.

        Args:
            topic: the topic, or a partition.
            max_age_s: greatest age of a kept answer, in seconds. The brokers' configuration may be older.
        """
        configuration = await self.configuration()
        if configuration is None:
            return None
        if not filters_may_differ(configuration):
            return entry_filters({}, configuration)
        policies = await self._of(topic, configuration, max_age_s)
        return None if policies is None else entry_filters(policies, configuration)

    async def _of(self, topic: TopicName, configuration: Mapping[str, Any], max_age_s: float) -> dict[str, Any] | None:
        events = system_topic(topic)
        kept = self._find(events, max_age_s)
        if kept is None:
            return await self._single_flight.run(events, partial(self._fetch, events, configuration, max_age_s))
        return kept.policies

    def _find(self, events: TopicName, max_age_s: float) -> _Kept | None:
        kept = self._kept.get(events)
        return None if kept is None or asyncio.get_running_loop().time() - kept.at >= max_age_s else kept

    async def _fetch(
        self, events: TopicName, configuration: Mapping[str, Any], max_age_s: float
    ) -> dict[str, Any] | None:
        if (kept := self._find(events, max_age_s)) is not None:
            return kept.policies  # of a caller before
        began = asyncio.get_running_loop().time()
        policies = None
        try:
            if not topics_have_policies(configuration, empty=await self._admin.is_empty(events)):
                policies = await self._admin.namespace_policies(events)
        except OwnerUnavailableError as error:
            log.info("policies of a namespace unknown, asking for each topic: topic=%s error=%s", events, error)
        self._kept[events] = _Kept(began, policies)
        self._kept.move_to_end(events)
        if len(self._kept) > MAX_NAMESPACES:
            self._kept.popitem(last=False)
        return policies


def _number(value: Any) -> int:
    try:
        return int(value or 0)
    except (TypeError, ValueError):
        return 0
