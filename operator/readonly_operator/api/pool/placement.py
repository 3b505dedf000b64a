"""ReadOnlyBrokerPool: placement, disruption budget, updates and autoscaling of brokers."""

from __future__ import annotations

from dataclasses import dataclass, field

from readonly_operator.api.kubernetes import LABEL_KEY
from readonly_operator.api.schema import Choice, Declared, Flag, ListOf, Number, Record, Rule, declare
from readonly_operator.api.values import INT_OR_PERCENT, SIZE

ZONE_LABEL = "topology.kubernetes.io/zone"
SPREAD = ListOf(
    Record(
        {
            "topologyKey": Declared(LABEL_KEY, "Node label that defines a topology domain.", required=True),
            "maxSkew": Declared(
                Number(1, 1000), "Largest difference of brokers between topology domains. Without it, 1."
            ),
            "whenUnsatisfiable": Declared(
                Choice(("ScheduleAnyway", "DoNotSchedule")),
                "Action when no placement satisfies it. Without it, ScheduleAnyway.",
            ),
        }
    ),
    most=4,
    keys=("topologyKey",),
)
DEFAULT_CPU_UTILIZATION = 70
"""Per cent of the request: the target of an autoscaler for which the spec names none."""
DEFAULT_SPREAD = ({"topologyKey": ZONE_LABEL}, {"topologyKey": "kubernetes.io/hostname"})


@dataclass(frozen=True, slots=True)
class Locality:
    """Source of a broker's locality.

    Attributes:
        node_labels: labels of its node, the outermost first; their values are its locality.
    """

    node_labels: tuple[str, ...] = field(
        default=(ZONE_LABEL,),
        metadata=declare(
            ListOf(LABEL_KEY, 4, unique=True),
            "Labels of a broker's node that form its locality, the outermost first, in the format of "
            "`pulsar-admin bookies set-bookie-rack`: for racks like /eu-1/eu-1a give topology.kubernetes.io/region and "
            "topology.kubernetes.io/zone. An empty list turns it off. Default: topology.kubernetes.io/zone.",
        ),
    )


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """Limit of simultaneous evictions.

    Attributes:
        enabled: whether to create a PodDisruptionBudget.
        max_unavailable: None for 1, unless min_available is given.
        min_available: None for no such rule.
    """

    RULES = (
        Rule(
            "!has(self.maxUnavailable) || !has(self.minAvailable)",
            "cannot be given together with maxUnavailable",
            ".minAvailable",
        ),
    )

    enabled: bool = field(default=True, metadata=declare(Flag(), "Whether to create a PodDisruptionBudget."))
    max_unavailable: int | str | None = field(
        default=None,
        metadata=declare(
            INT_OR_PERCENT,
            "Brokers that a node drain may evict at a time, as a number or a percentage. "
            "Default: 1, unless minAvailable is given.",
        ),
    )
    min_available: int | str | None = field(
        default=None,
        metadata=declare(
            INT_OR_PERCENT, "Brokers that must stay, as a number or a percentage. Without it, maxUnavailable."
        ),
    )


@dataclass(frozen=True, slots=True)
class UpdateStrategy:
    """Replacement of brokers after a change of their pods.

    Attributes:
        type: RollingUpdate or OnDelete.
        partition: brokers below this ordinal stay unchanged.
        max_unavailable: brokers replaced at a time; None for one.
        min_ready_seconds: how long a new broker must stay ready before the next one is replaced; 0 for not at all.
        hold: whether no broker is replaced.
    """

    RULES = (
        Rule(
            "!has(self.type) || self.type != 'OnDelete' || (!has(self.partition) && !has(self.maxUnavailable)"
            " && !has(self.hold))",
            "partition, maxUnavailable and hold are for type RollingUpdate only",
        ),
    )

    type: str = field(
        default="RollingUpdate",
        metadata=declare(
            Choice(("RollingUpdate", "OnDelete")),
            "RollingUpdate replaces brokers one by one. OnDelete replaces a broker when you delete its pod.",
        ),
    )
    partition: int = field(
        default=0,
        metadata=declare(
            Number(0, 1000),
            "Brokers with a lower ordinal are not replaced: try a change on the last ones first.",
        ),
    )
    max_unavailable: int | str | None = field(
        default=None,
        metadata=declare(
            INT_OR_PERCENT,
            "Brokers replaced at a time, as a number or a percentage. Kubernetes needs its feature gate "
            "MaxUnavailableStatefulSet, which is off in most versions; Progressing says so. Default: 1.",
        ),
    )
    min_ready_seconds: int = field(
        default=0,
        metadata=declare(
            Number(0, 3600),
            "Seconds that a new broker must stay ready before the next one is replaced: time for its clients to settle.",
        ),
    )
    hold: bool = field(
        default=False,
        metadata=declare(
            Flag(),
            "Keep the brokers as they are, also after an upgrade of the operator: image, arguments and configuration. A broker "
            "that crashes or moves comes back unchanged. Bindings, replicas and Services still follow the spec.",
        ),
    )


@dataclass(frozen=True, slots=True)
class Autoscaling:
    """HorizontalPodAutoscaler that sets the pool's replicas.

    Attributes:
        max_replicas: most brokers.
        min_replicas: fewest brokers.
        target_cpu_utilization: per cent of the CPU that brokers request; None for DEFAULT_CPU_UTILIZATION, or no such target.
        target_delivered_bytes_per_second: mean over the brokers; empty for no such target.
        target_connections: mean over the brokers; 0 for no such target.
        scale_down_stabilization_seconds: how long fewer brokers must suffice before one is removed.
    """

    RULES = (
        Rule(
            "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
            "must not be larger than maxReplicas",
            ".minReplicas",
        ),
    )

    max_replicas: int = field(
        metadata=declare(Number(1, 1000), "The most brokers.", required="say how many brokers there may be at most")
    )
    min_replicas: int = field(default=1, metadata=declare(Number(1, 1000), "The fewest brokers."))
    target_cpu_utilization: int | None = field(
        default=None,
        metadata=declare(
            Number(1, 1000),
            "Target CPU utilization, in per cent of resources.requests. Default: "
            f"{DEFAULT_CPU_UTILIZATION}, unless another target is given.",
        ),
    )
    target_delivered_bytes_per_second: str = field(
        default="",
        metadata=declare(
            SIZE,
            "Target of bytes per second that a broker sends to consumers, for example 50Mi. It needs a server of "
            "custom.metrics.k8s.io with the metric pulsar_readonly_dispatched_bytes_per_second of pods. Without it, no such "
            "target.",
        ),
    )
    target_connections: int = field(
        default=0,
        metadata=declare(
            Number(1, 1_000_000),
            "Target of client connections of a broker. It needs a server of custom.metrics.k8s.io with the metric "
            "pulsar_readonly_connections of pods. Without it, no such target.",
        ),
    )
    scale_down_stabilization_seconds: int = field(
        default=300,
        metadata=declare(
            Number(0, 3600),
            "Seconds that fewer brokers must suffice before one is removed; its clients are redirected to the others.",
        ),
    )

    @property
    def cpu_target(self) -> int | None:
        """Return the target CPU utilization in per cent; None if other targets stand for it."""
        if self.target_cpu_utilization is None and not (
            self.target_connections or self.target_delivered_bytes_per_second
        ):
            return DEFAULT_CPU_UTILIZATION
        return self.target_cpu_utilization
