"""Policies of a namespace, and settings of brokers, that do not allow local cursors. Pure. Each function is one obstacle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from readonly_operator.cluster.cursor_limits import CAUGHT_UP
from readonly_operator.kube.status import Condition, ConditionStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from readonly_operator.cluster.cursor_limits import CursorLimits

TYPE: Final = "LocalCursors"


class PlannedTopic(NamedTuple):
    """Topic with cursors that a pool needs in a namespace.

    Attributes:
        namespace: TENANT/NAMESPACE.
        partitions: of the topic with cursors; those of the existing one if it exists.
        exists: whether it exists, as this pool's own.
    """

    namespace: str
    partitions: int
    exists: bool


def has_limits(policies: Mapping[str, Any], limits: CursorLimits) -> bool:
    """Return whether a limit is set that depends on the partitions of the topic with cursors."""
    return bool(limits.partitions or _max_topics(policies, limits) or _max_subscriptions(policies, limits))


def obstacles(
    wanted: PlannedTopic, policies: Mapping[str, Any], limits: CursorLimits, topics: Callable[[], int]
) -> list[Condition]:
    """Return the condition LocalCursors for each obstacle; none when nothing speaks against local cursors.

    Args:
        wanted: the topic with cursors.
        policies: policies of the namespace.
        limits: settings of the brokers.
        topics: returns the number of the namespace's topics, each partition for itself; called only if a limit needs it.
    """
    found = [
        _encryption(wanted, policies, limits),
        None if wanted.exists else _partitions(wanted, limits),
        None if wanted.exists else _topics(wanted, policies, limits, topics),
        _subscriptions(wanted, policies, limits),
        _inactive(wanted, policies, limits),
        _expiration(wanted, policies, limits),
        _compaction(limits),
    ]
    return [one for one in found if one is not None]


def _encryption(wanted: PlannedTopic, policies: Mapping[str, Any], limits: CursorLimits) -> Condition | None:
    if not policies.get("encryption_required") and not limits.encryption:
        return None
    remedy = (
        "set encryptionRequireOnProducer=false on the owner brokers"
        if limits.encryption
        else f"run pulsar-admin namespaces set-encryption-required --disable {wanted.namespace}"
    )
    return _false(
        "EncryptionRequired",
        f"{wanted.namespace} accepts encrypted messages only, and the pool does not encrypt cursors: {remedy}, or use "
        "cursors: Owner",
    )


def _partitions(wanted: PlannedTopic, limits: CursorLimits) -> Condition | None:
    if not limits.partitions or wanted.partitions <= limits.partitions:
        return None
    return _false(
        "PartitionLimit",
        f"maxNumPartitionsPerPartitionedTopic={limits.partitions} of the owner brokers is below spec.cursorPartitions="
        f"{wanted.partitions} of the pool: set this to {limits.partitions} at most",
    )


def _topics(
    wanted: PlannedTopic, policies: Mapping[str, Any], limits: CursorLimits, topics: Callable[[], int]
) -> Condition | None:
    most = _max_topics(policies, limits)
    if not most:
        return None
    needed = topics() + wanted.partitions
    if needed <= most:
        return None
    return _false(
        "TopicLimit",
        f"{wanted.namespace} may have {most} topics, and would have {needed} with {wanted.partitions} partitions for cursors: "
        f"run pulsar-admin namespaces set-max-topics-per-namespace -t {needed} {wanted.namespace}, or lower "
        "spec.cursorPartitions of the pool",
    )


def _subscriptions(wanted: PlannedTopic, policies: Mapping[str, Any], limits: CursorLimits) -> Condition | None:
    most = _max_subscriptions(policies, limits)
    if not most or wanted.partitions <= most:
        return None
    return _false(
        "SubscriptionLimit",
        f"a topic of {wanted.namespace} may have {most} subscriptions, and the pool needs up to {wanted.partitions} guards, "
        f"one for each partition of cursors: run pulsar-admin namespaces set-max-subscriptions-per-topic -m {wanted.partitions} "
        f"{wanted.namespace} at least",
    )


def _inactive(wanted: PlannedTopic, policies: Mapping[str, Any], limits: CursorLimits) -> Condition | None:
    own = policies.get("inactive_topic_policies")
    deletes = limits.deletes_caught_up
    if isinstance(own, dict):
        deletes = own.get("inactiveTopicDeleteMode") == CAUGHT_UP and own.get("deleteWhileInactive") is True
    if not deletes:
        return None
    return _false(
        "InactiveTopicsDeleted",
        f"{wanted.namespace} deletes inactive topics with subscriptions ({CAUGHT_UP}), and so the cursors while the pool has no "
        "broker: run pulsar-admin namespaces set-inactive-topic-policies --enable-delete-while-inactive "
        f"--max-inactive-duration 60s --delete-mode delete_when_no_subscriptions {wanted.namespace}",
    )


def _expiration(wanted: PlannedTopic, policies: Mapping[str, Any], limits: CursorLimits) -> Condition | None:
    minutes = _limit(policies, "subscription_expiration_time_minutes", limits.expiration)
    if not minutes:
        return None
    return _false(
        "SubscriptionsExpire",
        f"{wanted.namespace} deletes subscriptions that have had no consumer for {minutes} minutes. Local ones do not expire, "
        "but their messages do if no broker of the pool runs for so long: run pulsar-admin namespaces "
        "set-subscription-expiration-time --time 0 "
        f"{wanted.namespace}, or use cursors: Owner",
    )


def _compaction(limits: CursorLimits) -> Condition | None:
    if not limits.compaction:
        return None
    return _false(
        "CompactionReplaced",
        f"compactionServiceFactoryClassName={limits.compaction} of the owner brokers is not Pulsar's own compaction, which "
        "local cursors need: remove the setting, or use cursors: Owner",
    )


def _max_topics(policies: Mapping[str, Any], limits: CursorLimits) -> int:
    return _limit(policies, "max_topics_per_namespace", limits.topics)


def _max_subscriptions(policies: Mapping[str, Any], limits: CursorLimits) -> int:
    return _limit(policies, "max_subscriptions_per_topic", limits.subscriptions)


def _limit(policies: Mapping[str, Any], name: str, broker: int) -> int:
    """Return a namespace's own limit, else that of the brokers; 0 for no limit."""
    own = policies.get(name)
    return own if isinstance(own, int) and not isinstance(own, bool) and own >= 0 else broker


def _false(reason: str, message: str) -> Condition:
    return Condition(TYPE, ConditionStatus.FALSE, reason, message)
