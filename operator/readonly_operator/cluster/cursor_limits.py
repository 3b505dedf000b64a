"""Settings of the source cluster's brokers that limit local cursors. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPACTION_SERVICE: Final = "org.apache.pulsar.compaction.PulsarCompactionServiceFactory"
"""Pulsar's own compaction (compactionServiceFactoryClassName), which keeps the last value of each key."""

CAUGHT_UP: Final = "delete_when_subscriptions_caught_up"
"""Mode in which inactive topics are deleted although they have subscriptions (InactiveTopicDeleteMode)."""


@dataclass(frozen=True, slots=True)
class CursorLimits:
    """Limits of one broker, or the strictest ones of several.

    Attributes:
        partitions: most partitions of a topic (maxNumPartitionsPerPartitionedTopic); 0 for no limit.
        topics: most topics of a namespace (maxTopicsPerNamespace); 0 for no limit.
        subscriptions: most subscriptions of a topic (maxSubscriptionsPerTopic); 0 for no limit.
        encryption: whether producers must encrypt (encryptionRequireOnProducer).
        deletes_caught_up: whether inactive topics are deleted when their subscriptions have no backlog
            (brokerDeleteInactiveTopicsEnabled and -Mode).
        compaction: class of a compaction that is not Pulsar's own; empty for Pulsar's.
        expiration: minutes after which subscriptions without a consumer are deleted (subscriptionExpirationTimeMinutes); 0 for
            never.
    """

    partitions: int = 0
    topics: int = 0
    subscriptions: int = 0
    encryption: bool = False
    deletes_caught_up: bool = False
    compaction: str = ""
    expiration: int = 0

    @classmethod
    def of_broker(cls, settings: Any) -> CursorLimits:
        """Return the limits in a broker's runtime configuration, whose values are texts; unknown settings limit nothing."""
        if not isinstance(settings, dict):
            return cls()
        compaction = str(settings.get("compactionServiceFactoryClassName") or COMPACTION_SERVICE)
        deletes = _flag(settings, "brokerDeleteInactiveTopicsEnabled")
        return cls(
            _number(settings, "maxNumPartitionsPerPartitionedTopic"),
            _number(settings, "maxTopicsPerNamespace"),
            _number(settings, "maxSubscriptionsPerTopic"),
            _flag(settings, "encryptionRequireOnProducer"),
            deletes and settings.get("brokerDeleteInactiveTopicsMode") == CAUGHT_UP,
            "" if compaction == COMPACTION_SERVICE else compaction,
            _number(settings, "subscriptionExpirationTimeMinutes"),
        )

    def strictest(self, other: CursorLimits) -> CursorLimits:
        """Return the stricter limit of each."""
        return CursorLimits(
            _lower(self.partitions, other.partitions),
            _lower(self.topics, other.topics),
            _lower(self.subscriptions, other.subscriptions),
            self.encryption or other.encryption,
            self.deletes_caught_up or other.deletes_caught_up,
            self.compaction or other.compaction,
            _lower(self.expiration, other.expiration),
        )


NO_LIMITS: Final = CursorLimits()


def _number(settings: Mapping[str, Any], name: str) -> int:
    text = str(settings.get(name, ""))
    return int(text) if text.isdecimal() else 0


def _flag(settings: Mapping[str, Any], name: str) -> bool:
    return str(settings.get(name, "")).lower() == "true"


def _lower(one: int, other: int) -> int:
    return min(one, other) if one and other else one or other
