"""Policies of the owner that count a guard as a consumer that lags, or as a subscription that nobody uses."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from readonly_engine.owner.errors import RelayError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.admin import AdminClient
    from readonly_engine.owner.namespace_policies import NamespacePolicies

log = logging.getLogger(__name__)

FOLLOW_INTERVAL_S: Final = 10.0
"""Time between two moves of a guard inside of a ledger. Owners check quotas every 60 s (backlogQuotaCheckIntervalInSeconds)."""

FOLLOW_BYTES: Final = 10 << 20
"""Bytes by which a guard may lag under a large quota. The owner stores each move: this is one for 10 MiB of messages."""

QUOTA_SHARE: Final = 10
"""A guard may lag by a tenth of a quota: a consumer may use the rest, as at the owner."""

EXPIRATION_SHARE: Final = 4
"""A guard is renewed after a quarter of the time after which the owner deletes it, one minute at least. A broker looks at its
guards every 30 s."""

NAMESPACE_KEPT_S: Final = 10.0
"""Age of a namespace's policies."""

MAX_WARNED: Final = 10_000
"""Bound of the namespaces that a warning has named."""


class GuardPolicies(NamedTuple):
    """What an owner does to a guard.

    Attributes:
        quota_bytes: smallest backlog quota by size, in bytes; 0 for none.
        quota_s: smallest backlog quota by time that the owner checks inside of ledgers, in seconds; 0 for none.
        expiration_s: time without a consumer and without a move after which it is deleted, in seconds; 0 for none.
    """

    quota_bytes: int = 0
    quota_s: int = 0
    expiration_s: int = 0

    def follows(self, lag: int, entry_bytes: int, since_s: float) -> bool:
        """Return whether a guard has to move on inside of a ledger.

        Args:
            lag: entries between the guard and the slowest cursor, in one ledger.
            entry_bytes: average size of an entry; 0 if unknown.
            since_s: time since its last move, in seconds.
        """
        if not lag or since_s < FOLLOW_INTERVAL_S:
            return False
        if self.quota_s and since_s >= self.quota_s / QUOTA_SHARE:
            return True
        if not self.quota_bytes:
            return False
        return not entry_bytes or lag * entry_bytes >= min(FOLLOW_BYTES, self.quota_bytes / QUOTA_SHARE)

    def renews(self, since_s: float) -> bool:
        """Return whether a guard has to move, if only to where it is, so that it does not expire.

        A reset of a cursor counts as its use (ManagedCursorImpl.internalResetCursor), as does the load of its topic.

        Args:
            since_s: time since its last move, in seconds.
        """
        return self.expiration_s > 0 and since_s >= self.expiration_s / EXPIRATION_SHARE


def guard_policies(
    topic: Mapping[str, Any], namespace: Mapping[str, Any], configuration: Mapping[str, Any]
) -> GuardPolicies:
    """Return the policies of a topic's guards.

    The smallest quota of all levels counts, also where a larger one of the topic replaces it: it costs some more moves only.

    Args:
        topic: the topic's own backlog quotas by type, as the admin API has them (BacklogQuotaType).
        namespace: the namespace's policies.
        configuration: the brokers' configuration, as texts by key.
    """
    levels = [topic, _mapping(namespace.get("backlog_quota_map"))]
    sizes = [
        *_values(levels, "destination_storage", "limitSize", "limit"),
        _positive(configuration.get("backlogQuotaDefaultLimitBytes")),
        _positive(configuration.get("backlogQuotaDefaultLimitGB")) * (1 << 30),
    ]
    times = [
        *_values(levels, "message_age", "limitTime"),
        _positive(configuration.get("backlogQuotaDefaultLimitSecond")),
    ]
    precise = str(configuration.get("preciseTimeBasedBacklogQuotaCheck")).lower() == "true"
    expiration = namespace.get("subscription_expiration_time_minutes")
    if expiration is None:
        expiration = configuration.get("subscriptionExpirationTimeMinutes")
    return GuardPolicies(_smallest(sizes), _smallest(times) if precise else 0, int(60 * _positive(expiration)))


def _values(levels: Iterable[Mapping[str, Any]], kind: str, *names: str) -> Iterator[float]:
    for level in levels:
        quota = _mapping(level.get(kind))
        yield next((_positive(quota[name]) for name in names if quota.get(name) is not None), 0.0)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _positive(value: Any) -> float:
    """Return a limit; 0 for none, or for what is no number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return 0.0
    return number if 0 < number < 1 << 63 else 0.0


def _smallest(limits: Iterable[float]) -> int:
    return int(min((limit for limit in limits if limit), default=0))


class GuardPolicySource:
    """Requests the policies of guards: two requests for a namespace, and one for a topic that may have quotas of its own.

    Args:
        admin: client of the admin API.
        namespaces: policies that all topics of a namespace share.
    """

    def __init__(self, admin: AdminClient, namespaces: NamespacePolicies) -> None:
        self._admin = admin
        self._namespaces = namespaces
        self._warned: OrderedDict[str, None] = OrderedDict()

    async def of(self, topic: TopicName) -> GuardPolicies | None:
        """Return the policies of a topic's guards; None if they are unknown."""
        try:
            known = await self._namespaces.known(topic, NAMESPACE_KEPT_S)
            if known is None:
                return None
            own = await self._admin.topic_policy(topic.base, "backlogQuotaMap") if known.own else {}
        except RelayError as error:
            log.info("policies of guards unknown: topic=%s error=%s", topic, error)
            return None
        found = guard_policies(_mapping(own), known.namespace, known.configuration)
        if found.expiration_s:
            self._warn(topic, found.expiration_s)
        return found

    def _warn(self, topic: TopicName, expiration_s: int) -> None:
        """Warn once for each namespace: the policy does not do to local subscriptions what it does to others."""
        namespace = f"{topic.tenant}/{topic.namespace}"
        if namespace not in self._warned:
            self._warned[namespace] = None
            if len(self._warned) > MAX_WARNED:
                self._warned.popitem(last=False)
            log.warning(
                "subscriptions without consumers expire, but local ones do not, and the pool renews their guards: namespace=%s "
                "minutes=%d; run pulsar-admin namespaces set-subscription-expiration-time --time 0 %s, or use cursors: Owner",
                namespace,
                expiration_s // 60,
                namespace,
            )
