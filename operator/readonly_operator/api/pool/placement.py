"""ReadOnlyBrokerPool: where brokers run, how many may be away, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass, field

from readonly_operator.api.kubernetes import LABEL_KEY
from readonly_operator.api.schema import Choice, Declared, Flag, ListOf, Number, Record, Rule, declare
from readonly_operator.api.values import INT_OR_PERCENT

ZONE_LABEL = "topology.kubernetes.io/zone"
SPREAD = ListOf(
    Record(
        {
            "topologyKey": Declared(LABEL_KEY, "The node label that says what counts as one place.", required=True),
            "maxSkew": Declared(Number(1, 1000), "By how many brokers places may differ. Without it, 1."),
            "whenUnsatisfiable": Declared(
                Choice(("ScheduleAnyway", "DoNotSchedule")), "What happens otherwise. Without it, ScheduleAnyway."
            ),
        }
    ),
    most=4,
    keys=("topologyKey",),
)
DEFAULT_SPREAD = ({"topologyKey": ZONE_LABEL}, {"topologyKey": "kubernetes.io/hostname"})


@dataclass(frozen=True, slots=True)
class Locality:
    """How a broker knows where it is.

    Attributes:
        node_labels: of its node; their values are its place, the outermost first.
    """

    node_labels: tuple[str, ...] = field(
        default=(ZONE_LABEL,),
        metadata=declare(
            ListOf(LABEL_KEY, 4, unique=True),
            "Labels of a broker's node whose values say where it is, the outermost first, as bookies are placed by "
            "`pulsar-admin bookies set-bookie-rack`: for racks like /eu-1/eu-1a give topology.kubernetes.io/region and "
            "topology.kubernetes.io/zone. An empty list turns it off. Default: topology.kubernetes.io/zone.",
        ),
    )


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """How many brokers evictions may take at a time.

    Attributes:
        enabled: whether there is a PodDisruptionBudget.
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

    enabled: bool = field(default=True, metadata=declare(Flag(), "Whether there is a PodDisruptionBudget."))
    max_unavailable: int | str | None = field(
        default=None,
        metadata=declare(
            INT_OR_PERCENT,
            "How many brokers a drain of nodes may take at a time, as a number or a percentage. "
            "Default: 1, unless minAvailable is given.",
        ),
    )
    min_available: int | str | None = field(
        default=None,
        metadata=declare(
            INT_OR_PERCENT, "How many brokers must stay, as a number or a percentage. Without it, maxUnavailable."
        ),
    )


@dataclass(frozen=True, slots=True)
class UpdateStrategy:
    """How brokers are replaced when their pods change.

    Attributes:
        type: RollingUpdate or OnDelete.
        partition: brokers below this ordinal stay as they are.
        max_unavailable: how many are replaced at a time; None for one.
    """

    RULES = (
        Rule(
            "!has(self.type) || self.type != 'OnDelete' || (!has(self.partition) && !has(self.maxUnavailable))",
            "partition and maxUnavailable are for type RollingUpdate only",
        ),
    )

    type: str = field(
        default="RollingUpdate",
        metadata=declare(
            Choice(("RollingUpdate", "OnDelete")),
            "RollingUpdate replaces brokers one after the other. OnDelete waits until you delete a broker's pod.",
        ),
    )
    partition: int = field(
        default=0,
        metadata=declare(
            Number(0, 1000),
            "Brokers with a lower number than this are not replaced: try a change on the last ones first.",
        ),
    )
    max_unavailable: int | str | None = field(
        default=None,
        metadata=declare(
            INT_OR_PERCENT,
            "How many brokers are replaced at a time, as a number or a percentage; it needs Kubernetes 1.35. Default: 1.",
        ),
    )


@dataclass(frozen=True, slots=True)
class Autoscaling:
    """A HorizontalPodAutoscaler that sets the pool's replicas.

    Attributes:
        max_replicas: most brokers.
        min_replicas: fewest brokers.
        target_cpu_utilization: per cent of the CPU that brokers request.
        scale_down_stabilization_seconds: how long fewer must do before one is taken away.
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
    target_cpu_utilization: int = field(
        default=70,
        metadata=declare(Number(1, 1000), "How busy brokers are kept, in per cent of the CPU in resources.requests."),
    )
    scale_down_stabilization_seconds: int = field(
        default=300,
        metadata=declare(
            Number(0, 3600),
            "For how long fewer brokers must have been enough before one is taken away: its clients move to the others.",
        ),
    )
