"""Policies of a whole namespace, with two requests for all its topics, where no topic has policies of its own."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import sys
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from readonly_engine.metadata.topic_name import TopicName
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.single_flight import SingleFlight

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from readonly_engine.owner.admin import AdminClient

_Read = TypeVar("_Read")

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

_RATES: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "brokerDispatchRate": ((), "dispatchThrottlingRateIn"),
    "dispatchRate": (("topicDispatchRate", "clusterDispatchRate"), "dispatchThrottlingRatePerTopicIn"),
    "subscriptionDispatchRate": (("subscriptionDispatchRate",), "dispatchThrottlingRatePerSubscriptionIn"),
}
"""Names of a topic's policies, of the namespace's by cluster, the first of which counts (AbstractTopic), and of the brokers'
configuration without `Msg` and `Byte`."""

_UNACKED: Final = {
    "maxUnackedMessagesPerConsumer": "max_unacked_messages_per_consumer",
    "maxUnackedMessagesPerSubscription": "max_unacked_messages_per_subscription",
}

_FOLLOWED: Final = (
    "allowOverrideEntryFilters",
    "delayedDeliveryEnabled",
    "entryFilterNames",
    "keySharedLookAheadMsgInReplayThresholdPerConsumer",
    "keySharedLookAheadMsgInReplayThresholdPerSubscription",
    *_UNACKED,
    *_COUNTS,
    *(prefix + unit for _, prefix in _RATES.values() for unit in ("Msg", "Byte")),
)
"""Keys of the brokers' configuration that are followed while clients are connected."""

UNSEEN_S: Final = 60.0
"""Age of policies of topics that are kept where a change is not seen (PIP-469)."""

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


def dispatch_policies(namespace: Mapping[str, Any], configuration: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Return the policies of dispatch of topics without their own, each as the admin API has it for a topic.

    These are the limits of unacked messages of a consumer and of a subscription, and the delayed delivery.

    Args:
        namespace: the namespace's policies.
        configuration: the brokers' configuration.
    """

    def limit(name: str) -> int | None:
        own, text = namespace.get(_UNACKED[name]), str(configuration.get(name, ""))
        broker = int(text) if text.isdecimal() else None
        return own if isinstance(own, int) and own >= 0 else broker

    delayed = namespace.get("delayed_delivery_policies")
    if not isinstance(delayed, dict):
        delayed = {"active": str(configuration.get("delayedDeliveryEnabled", _ON)).lower() != _OFF}
    return limit("maxUnackedMessagesPerConsumer"), limit("maxUnackedMessagesPerSubscription"), delayed


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
        policies: the policies; None if the admin API does not tell.
        own: whether topics may have their own.
        version: changes with the policies of any topic; empty if changes are not seen.
    """

    at: float
    policies: dict[str, Any] | None
    own: bool = True
    version: str = ""

    @property
    def shared(self) -> dict[str, Any] | None:
        """The policies of all topics; None if they may differ, or are unknown."""
        return None if self.own else self.policies


class KnownPolicies(NamedTuple):
    """The levels of policies that a topic has.

    Attributes:
        namespace: the namespace's policies.
        configuration: the brokers' configuration.
        own: whether the topic may have its own.
    """

    namespace: Mapping[str, Any]
    configuration: Mapping[str, Any]
    own: bool


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
        self._single_flight: SingleFlight[_Kept] = SingleFlight()

    async def applied(self, topic: TopicName, max_age_s: float) -> dict[str, Any] | None:
        """Return the limits that apply to a topic, as `applied_policies`; None if it may have its own, or if that is unknown.

        Args:
            topic: the topic, or a partition.
            max_age_s: greatest age of a kept answer, in seconds.
        """
        return await self._shared(topic, max_age_s, applied_policies)

    async def dispatch(self, topic: TopicName, max_age_s: float) -> tuple[Any, Any, Any] | None:
        """Return the policies of dispatch as `dispatch_policies`; None if the topic may have its own, or if that is unknown.

        Args:
            topic: the topic, or a partition.
            max_age_s: greatest age of a kept answer, in seconds.
        """
        return await self._shared(topic, max_age_s, dispatch_policies)

    async def known(self, topic: TopicName, max_age_s: float) -> KnownPolicies | None:
        """Return the policies of a topic's namespace and of the brokers; None if they are unknown.

        Args:
            topic: the topic, or a partition.
            max_age_s: greatest age of a kept answer, in seconds. The brokers' configuration may be older.
        """
        configuration = await self.configuration()
        if configuration is None:
            return None
        kept = await self._of(topic, configuration, max_age_s)
        return None if kept.policies is None else KnownPolicies(kept.policies, configuration, kept.own)

    async def _shared(
        self,
        topic: TopicName,
        max_age_s: float,
        read: Callable[[Mapping[str, Any], Mapping[str, Any]], _Read],
    ) -> _Read | None:
        """Return what a function reads of the policies of namespace and brokers; None if the topic may have its own."""
        known = await self.known(topic, max_age_s)
        return None if known is None or known.own else read(known.namespace, known.configuration)

    async def version(self, topic: TopicName, max_age_s: float) -> str | None:
        """Return a text that changes with the policies of the namespace, of its topics, and of the brokers; None if unknown.

        Args:
            topic: a topic of the namespace.
            max_age_s: greatest age of a kept answer, in seconds.
        """
        configuration = await self.configuration()
        if configuration is None:
            return None
        kept = await self._of(topic, configuration, max_age_s)
        if kept.policies is None:
            return None
        changes = kept.version or str(kept.at // UNSEEN_S)
        seen = repr((changes, kept.policies, [configuration.get(name) for name in _FOLLOWED]))
        return sys.intern(hashlib.sha256(seen.encode()).hexdigest())  # each open topic keeps it

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
        policies = (await self._of(topic, configuration, max_age_s)).shared
        return None if policies is None else entry_filters(policies, configuration)

    async def _of(self, topic: TopicName, configuration: Mapping[str, Any], max_age_s: float) -> _Kept:
        events = system_topic(topic)
        kept = self._find(events, max_age_s)
        if kept is None:
            return await self._single_flight.run(events, partial(self._fetch, events, configuration, max_age_s))
        return kept

    def _find(self, events: TopicName, max_age_s: float) -> _Kept | None:
        kept = self._kept.get(events)
        return None if kept is None or asyncio.get_running_loop().time() - kept.at >= max_age_s else kept

    async def _fetch(self, events: TopicName, configuration: Mapping[str, Any], max_age_s: float) -> _Kept:
        if (kept := self._find(events, max_age_s)) is not None:
            return kept  # of a caller before
        began = asyncio.get_running_loop().time()
        kept = _Kept(began, None)
        try:
            empty, last = await self._admin.extent(events)
            own = topics_have_policies(configuration, empty=empty)
            seen = configuration.get(_SERVICE, _SYSTEM_TOPIC_SERVICE) == _SYSTEM_TOPIC_SERVICE
            policies = await self._admin.namespace_policies(events)
            kept = _Kept(began, policies, own, last if seen else "")
        except OwnerUnavailableError as error:
            log.info("policies of a namespace unknown, asking for each topic: topic=%s error=%s", events, error)
        self._kept[events] = kept
        self._kept.move_to_end(events)
        if len(self._kept) > MAX_NAMESPACES:
            self._kept.popitem(last=False)
        return kept


def _number(value: Any) -> int:
    try:
        return int(value or 0)
    except (TypeError, ValueError):
        return 0
