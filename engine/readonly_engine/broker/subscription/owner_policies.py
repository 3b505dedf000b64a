"""What the owner is set to do, as far as dispatchers must do the same: asked of the admin API, and kept for a while."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from readonly_engine.broker.dispatch.make import MULTIPLE, DispatchSettings
from readonly_engine.broker.dispatch.multiple import DEFAULT_LIMITS, UnackedLimits
from readonly_engine.owner.errors import RelayError

if TYPE_CHECKING:
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.admin import AdminClient
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

log = logging.getLogger(__name__)

CONFIGURATION_TTL_S = 60.0
"""Brokers read it when they start."""

POLICIES_TTL_S = 5.0

MAX_TOPICS = 10_000


def batch_acks_enabled(configuration: dict[str, Any]) -> bool:
    """Whether brokers with this configuration count acks of single messages of a batch."""
    return str(configuration.get("acknowledgmentAtBatchIndexLevelEnabled", "false")).lower() == "true"


def transactions_enabled(configuration: dict[str, Any]) -> bool:
    """Whether brokers with this configuration take part in transactions."""
    return str(configuration.get("transactionCoordinatorEnabled", "false")).lower() == "true"


def settings_of(consumer_limit: Any, subscription_limit: Any, delayed: Any, *, batch_acks: bool) -> DispatchSettings:
    """Settings from a topic's policies as the admin API shows them, which are the brokers' where topic and namespace have none.

    What is missing or is not understood is as in a stock broker.
    """
    return DispatchSettings(
        UnackedLimits(
            _limit(consumer_limit, DEFAULT_LIMITS.consumer), _limit(subscription_limit, DEFAULT_LIMITS.subscription)
        ),
        delayed=delayed.get("active", True) is not False if isinstance(delayed, dict) else True,
        batch_acks=batch_acks,
    )


def _limit(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


_DEFAULT = DispatchSettings()
_WITH_BATCH_ACKS = DispatchSettings(batch_acks=True)


class OwnerPolicies:
    """Asks, and remembers for a while. Without an answer a stock broker's settings count.

    A wrong guess loses nothing: with `batch_acks` wrongly off, messages of a batch may be delivered again that were acked, as a
    stock broker does it; on is never guessed. Where transactions are wrongly taken to be on, owners are asked more than need be.

    Args:
        admin: the admin API.
    """

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._configuration: dict[str, Any] | None = None
        self._fetched_at = -CONFIGURATION_TTL_S
        self._fetching = asyncio.Lock()
        self._topics: OrderedDict[TopicName, tuple[float, DispatchSettings]] = OrderedDict()

    async def of(self, topic: TopicName, subscribe: CommandSubscribe) -> DispatchSettings:
        """The settings for a subscription."""
        batch_acks = await self._counts_batch_acks()
        if subscribe.sub_type not in MULTIPLE:
            return _WITH_BATCH_ACKS if batch_acks else _DEFAULT
        now = asyncio.get_running_loop().time()
        topic = topic.base
        known = self._topics.get(topic)
        if known is not None and now - known[0] < POLICIES_TTL_S:
            return known[1]
        policies = await asyncio.gather(
            self._policy(topic, "maxUnackedMessagesOnConsumer"),
            self._policy(topic, "maxUnackedMessagesOnSubscription"),
            self._policy(topic, "delayedDelivery"),
        )
        settings = settings_of(*policies, batch_acks=batch_acks)
        self._topics[topic] = (now, settings)
        self._topics.move_to_end(topic)
        if len(self._topics) > MAX_TOPICS:
            self._topics.popitem(last=False)
        return settings

    async def transactions(self, max_age_s: float = CONFIGURATION_TTL_S) -> bool | None:
        """Whether the brokers have transactions, so that messages may be kept back at the owner; None where nobody says.

        Args:
            max_age_s: an answer that came so many seconds ago is new enough.
        """
        configuration = await self._fetch_configuration(max_age_s)
        return None if configuration is None else transactions_enabled(configuration)

    async def _counts_batch_acks(self) -> bool:
        return batch_acks_enabled(await self._fetch_configuration(CONFIGURATION_TTL_S) or {})

    async def _fetch_configuration(self, max_age_s: float) -> dict[str, Any] | None:
        """The brokers' configuration, or what was known of it last; None for nothing."""
        time = asyncio.get_running_loop().time
        async with self._fetching:
            if time() - self._fetched_at >= max_age_s:
                try:
                    self._configuration = await self._admin.configuration()
                except RelayError as error:
                    log.info("the configuration of the owner brokers is not known: %s", error)
                self._fetched_at = (
                    time()
                )  # now: else all who waited for an answer that took long would ask again in turn
        return self._configuration

    async def _policy(self, topic: TopicName, name: str) -> Any:
        try:
            return await self._admin.policy(topic, name)
        except RelayError as error:
            log.info("%s: its policy %s is not known, taken as a stock one's: %s", topic, name, error)
            return None
