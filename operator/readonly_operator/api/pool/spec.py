"""ReadOnlyBrokerPool: spec."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from readonly_operator.api.pool.explicit_lac import ExplicitLac
from readonly_operator.api.pool.source import Source
from readonly_operator.api.schema import Choice, Declared, Nested, Number, Record, Rule, declare
from readonly_operator.api.values import IMAGE, QUANTITIES, SIZE

if TYPE_CHECKING:
    from collections.abc import Mapping

RESOURCES = Record(
    {
        "limits": Declared(QUANTITIES, "The most that a broker may use, by resource name. Without it, no limit."),
        "requests": Declared(QUANTITIES, "What is kept free for a broker, by resource name. Without it, the limits."),
    }
)


@dataclass(frozen=True, slots=True)
class Cache:
    """What a broker keeps in memory.

    Attributes:
        size: Kubernetes quantity, whole Ki, Mi or Gi.
    """

    size: str = field(
        default="256Mi",
        metadata=declare(SIZE, "Memory for the entry cache of each broker, for example 512Mi.", stored=True),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSpec:
    """The fleet that the user wants.

    Attributes:
        source: the writable cluster.
        replicas: brokers wanted.
        image: of the brokers; empty for the operator's own choice.
        image_pull_policy: empty for Kubernetes' own rule.
        resources: of a broker's container, as in a pod.
        cache: what a broker keeps in memory.
        explicit_lac: what is wanted of the writable brokers.
    """

    RULES = (
        Rule(
            "!has(self.resources) || !has(self.resources.limits) || !('memory' in self.resources.limits)"
            " || !isQuantity(string(self.resources.limits['memory'])) || !isQuantity(self.cache.size)"
            " || quantity(self.cache.size).isLessThan(quantity(string(self.resources.limits['memory'])))",
            "must be smaller than resources.limits.memory, or the broker is killed when its cache fills",
            ".cache.size",
        ),
    )

    source: Source = field(
        metadata=declare(
            Nested(Source),
            "The writable Pulsar cluster that owns the topics.",
            required="say which writable cluster to read, with serviceUrl, adminUrl and metadataStoreUrl",
        )
    )
    replicas: int = field(
        default=2,
        metadata=declare(
            Number(0, 1000),
            "How many read-only brokers. `kubectl scale robp/NAME --replicas=N` and autoscalers set it.",
            stored=True,
        ),
    )
    image: str = field(
        default="",
        metadata=declare(
            IMAGE,
            "Image of the read-only brokers. Without it, the one that the operator was started with (its --engine-image).",
        ),
    )
    image_pull_policy: str = field(
        default="",
        metadata=declare(
            Choice(("Always", "IfNotPresent", "Never")),
            "When the kubelet pulls the image. Without it, Kubernetes' own rule (Always for the tag latest, else IfNotPresent).",
        ),
    )
    resources: Mapping[str, Mapping[str, int | str]] = field(
        default_factory=dict, metadata=declare(RESOURCES, "CPU and memory of each broker, as in a container.")
    )
    cache: Cache = field(
        default=Cache(),
        metadata=declare(
            Nested(Cache),
            "Entries that a broker keeps in memory, so that each is read from a bookie once for all its consumers.",
            stored=True,
        ),
    )
    explicit_lac: ExplicitLac = field(
        default=ExplicitLac(),
        metadata=declare(
            Nested(ExplicitLac),
            "Explicit LAC: the writable brokers tell the bookies which entry is the last confirmed one, also while nothing is "
            "produced. It is the setting bookkeeperExplicitLacIntervalInMills of the writable brokers, 0 (off) by default. "
            "Without it read-only brokers ask the topic's owner for the newest entry.",
            stored=True,
        ),
    )
