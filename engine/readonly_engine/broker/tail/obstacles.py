"""Policies of a topic under which one more subscription at its owner would harm others, or be slow."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.namespace_policies import applied_policies

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.admin import AdminClient
    from readonly_engine.owner.namespace_policies import NamespacePolicies

MAX_CONCURRENT: Final = 4
"""Topics that are asked about at once, so that many topics that are opened together do not flood the admin API."""

MAX_TOPICS_PER_S: Final = 50.0
"""Topics that are asked about per second, each with up to five requests. Bookies serve the others meanwhile."""

KEPT_S: Final = 300.0
"""Time for which an answer about a topic is used again, as after a move of the owner."""

NAMESPACE_KEPT_S: Final = 5.0
"""Time for which an answer about a namespace is used again: it costs little, and counts for topics that come later."""

MAX_KEPT: Final = 20_000
"""Number of topics whose answers are kept."""

_COUNTS: Final = ("maxSubscriptionsPerTopic", "maxConsumersPerTopic", "maxSameAddressConsumersPerTopic")
_RATES: Final = ("dispatchRate", "subscriptionDispatchRate")
_BROKER_RATE: Final = "brokerDispatchRate"
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
    for name in (*_RATES, _BROKER_RATE):
        rate = policies.get(name)
        for key in _RATE_KEYS:
            value = rate.get(key) if isinstance(rate, dict) else None
            if isinstance(value, int | float) and value > 0:
                return f"{name} has {key} {value}"
    return ""


class PushPolicies:
    """Requests the policies of topics: two requests for a namespace whose topics have no policies of their own.

    Args:
        admin: client of the admin API.
        namespaces: policies that all topics of a namespace share.
    """

    def __init__(self, admin: AdminClient, namespaces: NamespacePolicies) -> None:
        self._admin = admin
        self._namespaces = namespaces
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._next_at = 0.0
        self._kept: OrderedDict[TopicName, tuple[float, str]] = OrderedDict()

    async def obstacle(self, topic: TopicName) -> str:
        """Return the limit that forbids one more subscription, as `obstacle` does.

        Raises:
            OwnerUnavailableError: the admin API did not answer.
        """
        topic = topic.base
        if (kept := self._find(topic)) is not None:
            return kept
        shared = await self._namespaces.applied(topic, NAMESPACE_KEPT_S)
        if shared is not None:
            return obstacle(shared)
        async with self._slots:
            if (kept := self._find(topic)) is not None:
                return kept  # of another partition
            await self._wait_for_turn()
            configuration = await self._namespaces.configuration()
            if configuration is None:
                raise OwnerUnavailableError("the configuration of the owner brokers is unknown")
            policies = {name: value for name, value in configuration.items() if name in _COUNTS}
            policies[_BROKER_RATE] = applied_policies({}, configuration)[_BROKER_RATE]
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
        return self._keep(topic, obstacle(policies))

    def forget(self, topic: TopicName) -> None:
        """Drop the answer about a topic, because policies have changed."""
        self._kept.pop(topic.base, None)

    def _find(self, topic: TopicName) -> str | None:
        kept = self._kept.get(topic)
        return None if kept is None or asyncio.get_running_loop().time() - kept[0] >= KEPT_S else kept[1]

    def _keep(self, topic: TopicName, found: str) -> str:
        self._kept[topic] = (asyncio.get_running_loop().time(), found)
        self._kept.move_to_end(topic)
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return found

    async def _wait_for_turn(self) -> None:
        now = asyncio.get_running_loop().time()
        turn = max(self._next_at, now)
        self._next_at = turn + 1 / MAX_TOPICS_PER_S
        await asyncio.sleep(turn - now)
