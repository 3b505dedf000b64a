"""Settings of the owner that dispatchers must follow: requested from the admin API, and cached."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from readonly_engine.broker.dispatch.key_shared import DEFAULT_LOOK_AHEAD, LookAhead
from readonly_engine.broker.dispatch.make import MULTIPLE, DispatchSettings
from readonly_engine.broker.dispatch.multiple import DEFAULT_LIMITS, UnackedLimits
from readonly_engine.owner.errors import RelayError
from readonly_engine.owner.namespace_policies import NamespacePolicies

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.admin import AdminClient
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

log = logging.getLogger(__name__)

CONFIGURATION_TTL_S = 60.0
"""Age of the cached configuration of the brokers, which changes only when they restart."""

POLICIES_TTL_S = 5.0
"""Age of a topic's cached policies."""

MAX_TOPICS = 10_000
"""Bound of topics with cached policies."""


def batch_acks_enabled(configuration: dict[str, Any]) -> bool:
    """Return whether brokers with this configuration count acks of single messages of a batch."""
    return str(configuration.get("acknowledgmentAtBatchIndexLevelEnabled", "false")).lower() == "true"


def transactions_enabled(configuration: dict[str, Any]) -> bool:
    """Return whether brokers with this configuration support transactions."""
    return str(configuration.get("transactionCoordinatorEnabled", "false")).lower() == "true"


def authorization_enabled(configuration: dict[str, Any]) -> bool:
    """Return whether brokers with this configuration check what clients may do."""
    return str(configuration.get("authorizationEnabled", "true")).lower() != "false"


def exposes_entry_metadata(configuration: dict[str, Any]) -> bool:
    """Return whether brokers with this configuration send their own metadata of entries to clients that take it."""
    return str(configuration.get("exposingBrokerEntryMetadataToClientEnabled", "false")).lower() == "true"


def look_ahead_of(configuration: dict[str, Any]) -> LookAhead:
    """Return the limits of waiting entries of Key_Shared subscriptions at brokers with this configuration."""
    names = ("PerConsumer", "PerSubscription")
    values = (str(configuration.get(f"keySharedLookAheadMsgInReplayThreshold{name}", "")) for name in names)
    return LookAhead(
        *(int(value) if value.isdecimal() else other for value, other in zip(values, DEFAULT_LOOK_AHEAD, strict=True))
    )


def settings_of(
    consumer_limit: Any,
    subscription_limit: Any,
    delayed: Any,
    *,
    batch_acks: bool,
    look_ahead: LookAhead = DEFAULT_LOOK_AHEAD,
) -> DispatchSettings:
    """Return the settings for policies from the admin API, which include the defaults of namespace and broker.

    For missing or unknown values the defaults of a stock broker apply.
    """
    return DispatchSettings(
        UnackedLimits(
            _limit(consumer_limit, DEFAULT_LIMITS.consumer), _limit(subscription_limit, DEFAULT_LIMITS.subscription)
        ),
        delayed=delayed.get("active", True) is not False if isinstance(delayed, dict) else True,
        batch_acks=batch_acks,
        look_ahead=look_ahead,
    )


def _limit(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


_DEFAULT = DispatchSettings()
_WITH_BATCH_ACKS = DispatchSettings(batch_acks=True)


class OwnerPolicies:
    """Requests and caches settings. Without an answer the defaults of a stock broker apply.

    A wrong default loses no messages. With `batch_acks` wrongly off, acked messages of a batch may be delivered again, as by a
    stock broker; it is never wrongly on. If transactions are wrongly assumed, owners get unnecessary requests.

    Args:
        admin: client of the admin API.
        on_exposure: called after a change of `exposes_entry_metadata`.

    Attributes:
        namespaces: policies that all topics of a namespace share.
        exposes_entry_metadata: whether the brokers send their own metadata of entries to clients that take it; False if unknown.
    """

    def __init__(self, admin: AdminClient, on_exposure: Callable[[], None] = lambda: None) -> None:
        self._admin = admin
        self._on_exposure = on_exposure
        self.exposes_entry_metadata = False
        self.namespaces = NamespacePolicies(admin, self.configuration)
        self._configuration: dict[str, Any] | None = None
        self._fetched_at = self._answered_at = -CONFIGURATION_TTL_S
        self._fetching = asyncio.Lock()
        self._topics: OrderedDict[TopicName, tuple[float, DispatchSettings]] = OrderedDict()

    @property
    def cluster_name(self) -> str:
        """Name of the source cluster, as its brokers' configuration has it; empty while unknown."""
        return str((self._configuration or {}).get("clusterName") or "")

    async def of(
        self, topic: TopicName, kind: CommandSubscribe.SubType, max_age_s: float = POLICIES_TTL_S
    ) -> DispatchSettings:
        """Return the settings for a subscription.

        Args:
            topic: the topic.
            kind: type of the subscription.
            max_age_s: greatest age of kept policies, in seconds.
        """
        configuration = await self._fetch_configuration(CONFIGURATION_TTL_S) or {}
        batch_acks = batch_acks_enabled(configuration)
        if kind not in MULTIPLE:
            return _WITH_BATCH_ACKS if batch_acks else _DEFAULT
        now = asyncio.get_running_loop().time()
        topic = topic.base
        known = self._topics.get(topic)
        if known is not None and now - known[0] < max_age_s:
            return known[1]
        policies = await self.namespaces.dispatch(topic, POLICIES_TTL_S)
        if policies is None:
            policies = await asyncio.gather(
                self._policy(topic, "maxUnackedMessagesOnConsumer"),
                self._policy(topic, "maxUnackedMessagesOnSubscription"),
                self._policy(topic, "delayedDelivery"),
            )
        settings = settings_of(*policies, batch_acks=batch_acks, look_ahead=look_ahead_of(configuration))
        self._topics[topic] = (now, settings)
        self._topics.move_to_end(topic)
        if len(self._topics) > MAX_TOPICS:
            self._topics.popitem(last=False)
        return settings

    async def transactions(self, max_age_s: float = CONFIGURATION_TTL_S) -> bool | None:
        """Return whether the brokers support transactions, so that an owner may hold back messages; None if unknown.

        Args:
            max_age_s: largest age of a cached answer.
        """
        configuration = await self._fetch_configuration(max_age_s)
        return None if configuration is None else transactions_enabled(configuration)

    async def configuration(self, max_age_s: float = CONFIGURATION_TTL_S) -> dict[str, Any] | None:
        """Return the brokers' configuration, the last known one if they do not answer; None if unknown.

        Args:
            max_age_s: greatest age of a kept answer, in seconds.
        """
        return await self._fetch_configuration(max_age_s)

    async def authorizes(self) -> bool | None:
        """Return whether the brokers authorize clients; None if unknown.

        "No" holds for CONFIGURATION_TTL_S. Brokers that authorize since then may refuse the question itself.
        """
        configuration = await self.configuration()
        if configuration is not None and authorization_enabled(configuration):
            return True
        age = asyncio.get_running_loop().time() - self._answered_at
        return None if configuration is None or age >= CONFIGURATION_TTL_S else False

    async def _fetch_configuration(self, max_age_s: float) -> dict[str, Any] | None:
        """Return the brokers' configuration, the last known one if they do not answer; None if unknown."""
        time = asyncio.get_running_loop().time
        if time() - self._fetched_at < max_age_s:
            return self._configuration
        async with self._fetching:
            if time() - self._fetched_at >= max_age_s:
                try:
                    self._configuration = await self._admin.configuration()
                    self._answered_at = time()
                    self._check_exposure(self._configuration)
                except RelayError as error:
                    log.info("configuration of the owner brokers unknown: error=%s", error)
                # The time after the request, so that callers that have waited for it do not repeat it in turn.
                self._fetched_at = time()
        return self._configuration

    def _check_exposure(self, configuration: dict[str, Any]) -> None:
        exposed = exposes_entry_metadata(configuration)
        if exposed != self.exposes_entry_metadata:
            self.exposes_entry_metadata = exposed
            self._on_exposure()

    async def _policy(self, topic: TopicName, name: str) -> Any:
        try:
            return await self._admin.policy(topic, name)
        except RelayError as error:
            log.info("policy unknown, using the default: topic=%s policy=%s error=%s", topic, name, error)
            return None
