"""Policies of a topic under which one more subscription at its owner would harm others, or be slow."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from readonly_engine.broker.tail.namespace_policies import applied_policies, system_topic, topics_have_policies
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.single_flight import SingleFlight

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.admin import AdminClient

log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")

MAX_CONCURRENT: Final = 4
"""Topics that are asked about at once, so that many topics that are opened together do not flood the admin API."""

MAX_TOPICS_PER_S: Final = 50.0
"""Topics that are asked about per second, each with up to five requests. Bookies serve the others meanwhile."""

KEPT_S: Final = 300.0
"""Time for which an answer about a topic is used again, as after a move of the owner."""

NAMESPACE_KEPT_S: Final = 5.0
"""Time for which an answer about a namespace is used again: it costs little, and counts for topics that come later."""

MAX_KEPT: Final = 20_000
"""Number of topics, and of namespaces, whose answers are kept."""

_COUNTS: Final = ("maxSubscriptionsPerTopic", "maxConsumersPerTopic", "maxSameAddressConsumersPerTopic")
_RATES: Final = ("dispatchRate", "subscriptionDispatchRate")
_RATE_KEYS: Final = ("dispatchThrottlingRateInMsg", "dispatchThrottlingRateInByte")


def obstacle(policies: Mapping[str, Any]) -> str:
    """Return the first limit that the subscription would use up, as `NAME is VALUE`; empty without one.

    Args:
        policies: the applied policies by name: numbers, and dispatch rates as objects of the admin API.
    """
    for name in _COUNTS:
        value = policies.get(name)
        try:
            limited = int(value or 0) > 0
        except (TypeError, ValueError):
            limited = True
        if limited:
            return f"{name} is {value}"
    for name in _RATES:
        rate = policies.get(name)
        for key in _RATE_KEYS:
            value = rate.get(key) if isinstance(rate, dict) else None
            if isinstance(value, int | float) and value > 0:
                return f"{name} has {key} {value}"
    return ""


class _Kept(Generic[K, V]):
    """At most MAX_KEPT answers, each used for some seconds."""

    def __init__(self) -> None:
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def find(self, key: K, seconds: float) -> tuple[V] | None:
        kept = self._kept.get(key)
        return None if kept is None or asyncio.get_running_loop().time() - kept[0] >= seconds else (kept[1],)

    def keep(self, key: K, value: V) -> V:
        self._kept[key] = (asyncio.get_running_loop().time(), value)
        self._kept.move_to_end(key)
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return value


class PushPolicies:
    """Requests the policies of topics: two requests for a namespace whose topics have no policies of their own.

    Args:
        admin: client of the admin API.
        configuration: returns the brokers' configuration, cached; None if unknown.
    """

    def __init__(self, admin: AdminClient, configuration: Callable[[], Awaitable[dict[str, Any] | None]]) -> None:
        self._admin = admin
        self._configuration = configuration
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._next_at = 0.0
        self._topics: _Kept[TopicName, str] = _Kept()
        self._namespaces: _Kept[TopicName, str | None] = _Kept()
        self._single_flight: SingleFlight[str | None] = SingleFlight()

    async def obstacle(self, topic: TopicName) -> str:
        """Return the limit that forbids one more subscription, as `obstacle` does.

        Raises:
            OwnerUnavailableError: the admin API did not answer.
        """
        topic = topic.base
        if (kept := self._topics.find(topic, KEPT_S)) is not None:
            return kept[0]
        configuration = await self._configuration()
        if configuration is None:
            raise OwnerUnavailableError("the configuration of the owner brokers is unknown")
        events = system_topic(topic)
        found = await self._single_flight.run(events, partial(self._of_namespace, events, configuration))
        return await self._of_topic(topic, configuration) if found is None else found

    async def _of_namespace(self, events: TopicName, configuration: Mapping[str, Any]) -> str | None:
        """Return the limit of all topics of a namespace; None if they may differ, or if the admin API does not tell."""
        if (kept := self._namespaces.find(events, NAMESPACE_KEPT_S)) is not None:
            return kept[0]
        found = None
        try:
            if not topics_have_policies(configuration, empty=await self._admin.is_empty(events)):
                policies = await self._admin.namespace_policies(events)
                found = obstacle(applied_policies(policies, configuration))
        except OwnerUnavailableError as error:
            log.info("policies of a namespace unknown, asking for each topic: topic=%s error=%s", events, error)
        return self._namespaces.keep(events, found)

    async def _of_topic(self, topic: TopicName, configuration: Mapping[str, Any]) -> str:
        async with self._slots:
            if (kept := self._topics.find(topic, KEPT_S)) is not None:
                return kept[0]  # of another partition
            await self._wait_for_turn()
            policies = {name: value for name, value in configuration.items() if name in _COUNTS}
            own = await self._admin.topic_policy(topic, "maxSubscriptionsPerTopic")
            if own is None:
                own = await self._admin.namespace_policy(topic, "maxSubscriptionsPerTopic")
            if own is not None:
                policies["maxSubscriptionsPerTopic"] = own
            consumers = await self._admin.policy(topic, "maxConsumers")
            if consumers is not None:
                policies["maxConsumersPerTopic"] = consumers
            for name in _RATES:
                policies[name] = await self._admin.policy(topic, name)
        return self._topics.keep(topic, obstacle(policies))

    async def _wait_for_turn(self) -> None:
        now = asyncio.get_running_loop().time()
        turn = max(self._next_at, now)
        self._next_at = turn + 1 / MAX_TOPICS_PER_S
        await asyncio.sleep(turn - now)
