"""ReadOnlyBrokerPool: spec."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from readonly_operator.api.cursors import DEFAULT_PARTITIONS, KEEP, KEEPERS, MAX_PARTITIONS, ON_DELETION, OWNER, RELEASE
from readonly_operator.api.pool.allowed_bindings import NO_OTHERS, AllowedBindings
from readonly_operator.api.pool.explicit_lac import ExplicitLac
from readonly_operator.api.pool.http import RULES as HTTP_RULES
from readonly_operator.api.pool.http import Http
from readonly_operator.api.pool.limits import Cache, Limits, TieredStorage
from readonly_operator.api.pool.listeners import Listeners, Lookup
from readonly_operator.api.pool.metadata import AddedMetadata, ServiceAccountTemplate
from readonly_operator.api.pool.node_ports import RULES as NODE_PORT_RULES
from readonly_operator.api.pool.observing import Monitoring, NetworkPolicy
from readonly_operator.api.pool.placement import (
    DEFAULT_SPREAD,
    SPREAD,
    Autoscaling,
    DisruptionBudget,
    Locality,
    UpdateStrategy,
)
from readonly_operator.api.pool.probes import Probes
from readonly_operator.api.pool.replay import Replay
from readonly_operator.api.pool.sleeping import ScaleToZero
from readonly_operator.api.pool.source import Source
from readonly_operator.api.pool.source_ref import SourceRef
from readonly_operator.api.pool.template import PodTemplate
from readonly_operator.api.schema import Choice, Declared, ListOf, Nested, Number, Record, Rule, declare
from readonly_operator.api.values import IMAGE, OBJECT_NAME, QUANTITIES

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_WORKERS = 16
"""Ports of so many workers reach 8261 for Pulsar and 9680 for HTTP, and none meets another."""
RESOURCES = Record(
    {
        "limits": Declared(QUANTITIES, "Limits of a broker, by resource name. Without it, no limit."),
        "requests": Declared(
            QUANTITIES,
            "Requests of a broker, by resource name. Without it, the limits, else defaults for cpu and memory.",
        ),
    }
)
PULL_SECRET = Record(
    {
        "name": Declared(
            OBJECT_NAME, "A Secret of the pool's namespace, of type kubernetes.io/dockerconfigjson.", required=True
        )
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSpec:
    """Desired pool.

    Attributes:
        source: the source cluster; None with source_ref.
        source_ref: the ReadOnlySource with the source cluster; None with source.
        replicas: desired brokers.
        workers: worker processes of each broker's pod.
        image: of the brokers; empty for the operator's default.
        image_pull_policy: empty for Kubernetes' default.
        image_pull_secrets: with credentials for the image.
        resources: of a broker's container, as in a pod.
        cache: entry cache of a broker.
        replay: past messages instead of present ones; None for a pool of present ones.
        cursors: keeper of the subscriptions' cursors.
        cursor_partitions: of a new topic with local cursors.
        on_deletion: Keep or Release, of local cursors.
        limits: limits of one broker.
        tiered_storage: reads of offloaded ledgers.
        listeners: listeners for clients.
        http: port for health, metrics and status pages.
        allowed_bindings: bindings that the pool serves.
        lookup: answers to lookups of topics without a binding.
        explicit_lac: explicit LAC of the owner brokers.
        locality: source of a broker's locality.
        topology_spread: topology over which brokers are spread.
        disruption_budget: limit of simultaneous evictions.
        update_strategy: replacement of brokers.
        probes: timings of the kubelet's probes.
        autoscaling: None for none.
        scale_to_zero: None for a pool that never sleeps.
        pod_template: additions to the brokers' pods.
        inherited_metadata: labels and annotations of all objects of the pool.
        service_account_template: additions to the brokers' ServiceAccount.
        monitoring: metrics collection.
        network_policy: None for none.
        log_level: of the brokers.
    """

    RULES = (
        Rule("has(self.source) != has(self.sourceRef)", "must have either source or sourceRef, and not both"),
        Rule(
            "!has(oldSelf.lookup) || !has(oldSelf.lookup.clusterName) || (has(self.lookup) && has(self.lookup.clusterName)"
            " && self.lookup.clusterName == oldSelf.lookup.clusterName)",
            "is immutable: delete and recreate the pool to change it",
            ".lookup",
        ),
        Rule(
            "!has(self.resources) || !has(self.resources.limits) || !('memory' in self.resources.limits)"
            " || !isQuantity(string(self.resources.limits['memory'])) || !isQuantity(self.cache.size)"
            " || quantity(self.cache.size).isLessThan(quantity(string(self.resources.limits['memory'])))",
            "must be smaller than resources.limits.memory, or the broker is killed when its cache fills",
            ".cache.size",
        ),
        Rule(
            "!has(self.autoscaling) || (!has(self.autoscaling.targetCPUUtilization) && "
            "(has(self.autoscaling.targetConnections) || has(self.autoscaling.targetDeliveredBytesPerSecond)))"
            " || (has(self.resources) && ((has(self.resources.requests) && 'cpu' in "
            "self.resources.requests) || (has(self.resources.limits) && 'cpu' in self.resources.limits)))",
            "resources.requests.cpu is required with autoscaling.targetCPUUtilization, which compares usage with it",
            ".resources",
            "FieldValueRequired",
        ),
        Rule(
            "has(self.replay) == has(oldSelf.replay) && (!has(self.replay) || self.replay == oldSelf.replay)",
            "is immutable: delete and recreate the pool to change it; kubectl readonly replay changes the speed while it runs",
            ".replay",
        ),
        Rule(
            "!has(self.replay) || !has(self.scaleToZero)",
            "is not possible with replay, whose clock goes on without brokers",
            ".scaleToZero",
            "FieldValueForbidden",
        ),
        Rule(
            "!has(self.replay) || !has(self.lookup) || !has(self.lookup.unbound) || self.lookup.unbound == 'Reject'",
            "must be Reject, or absent, with replay, which leads no client to an owner broker",
            ".lookup.unbound",
        ),
        Rule(
            "!has(self.replay) || !has(self.lookup) || !has(self.lookup.clusterName)",
            "is not possible with replay, which is no place of present messages",
            ".lookup.clusterName",
            "FieldValueForbidden",
        ),
        *NODE_PORT_RULES,
        *HTTP_RULES,
    )

    source: Source | None = field(
        default=None,
        metadata=declare(
            Nested(Source), "The source Pulsar cluster that owns the topics. Without it, sourceRef is given."
        ),
    )
    source_ref: SourceRef | None = field(
        default=None,
        metadata=declare(
            Nested(SourceRef),
            "The ReadOnlySource with the source Pulsar cluster, which several pools share. Without it, source is given.",
        ),
    )
    replicas: int = field(
        default=2,
        metadata=declare(
            Number(0, 1000),
            "Number of read-only brokers. `kubectl scale robp/NAME --replicas=N` and autoscaling set it. With "
            "autoscaling, leave it "
            "out of your manifests.",
            stored=True,
        ),
    )
    workers: int = field(
        default=1,
        metadata=declare(
            Number(1, MAX_WORKERS),
            "Worker processes in each broker's pod, best one for each CPU core. Each is a member of the pool, on ports of its "
            "own: plus 100, plus 200 and so on.",
        ),
    )
    image: str = field(
        default="",
        metadata=declare(
            IMAGE,
            "Image of the read-only brokers, in your registry. Without it, the operator's --engine-image; one of both is needed.",
        ),
    )
    image_pull_policy: str = field(
        default="",
        metadata=declare(
            Choice(("Always", "IfNotPresent", "Never")),
            "When the kubelet pulls the image. Without it, Kubernetes' default (Always for the tag latest, else IfNotPresent).",
        ),
    )
    image_pull_secrets: tuple[Mapping[str, str], ...] = field(
        default=(),
        metadata=declare(ListOf(PULL_SECRET, 8, keys=("name",)), "Secrets with credentials for pulling the image."),
    )
    resources: Mapping[str, Mapping[str, int | str]] = field(
        default_factory=dict,
        metadata=declare(
            RESOURCES,
            "CPU and memory of each broker, as in a container. Without request and limit of CPU, a broker requests 250m for each "
            "worker; without those of memory, 256Mi for each worker and its caches.",
        ),
    )
    cache: Cache = field(
        default=Cache(),
        metadata=declare(
            Nested(Cache),
            "Entry cache of a broker: it reads each entry from a bookie once for all its consumers.",
            stored=True,
        ),
    )
    replay: Replay | None = field(
        default=None,
        metadata=declare(
            Nested(Replay),
            "Past messages of the topics instead of present ones, with cursors of the pool's own. Its bindings conflict with "
            "those of no other pool; their cursors, tail, dispatch and placement have no effect. Immutable.",
        ),
    )
    cursors: str = field(
        default=OWNER,
        metadata=declare(
            Choice(KEEPERS),
            "Keeper of the subscriptions' cursors. Owner: the owner broker, which gets all acks. Local: the pool, in a compacted "
            "topic of each namespace, for very many subscriptions of a topic. A binding can choose otherwise.",
            stored=True,
        ),
    )
    cursor_partitions: int = field(
        default=DEFAULT_PARTITIONS,
        metadata=declare(
            Number(1, MAX_PARTITIONS),
            "Partitions of a new topic with local cursors, which the brokers share: best four for each worker of each broker. "
            "It counts when the topic of a namespace is created; an existing topic keeps its number.",
            stored=True,
        ),
    )
    on_deletion: str = field(
        default=KEEP,
        metadata=declare(
            Choice(ON_DELETION),
            "Action on local cursors when this pool is deleted. Keep: nothing is removed, so the pool's guards still hold the "
            "retention at the source cluster. Release: the operator deletes the brokers, then removes the pool's guards and "
            "topics with cursors, in all namespaces. The deletion waits for that.",
            stored=True,
        ),
    )
    limits: Limits = field(
        default_factory=Limits,
        metadata=declare(Nested(Limits), "Limits of each broker: clients, buffers, dispatch rates."),
    )
    tiered_storage: TieredStorage | None = field(
        default=None,
        metadata=declare(
            Nested(TieredStorage),
            "Reads of offloaded ledgers. Without it, the ledgers' metadata applies.",
        ),
    )
    listeners: Listeners = field(
        default_factory=Listeners,
        metadata=declare(
            Nested(Listeners), "Listeners for clients: TLS, the Service, and names outside the Kubernetes cluster."
        ),
    )
    http: Http = field(
        default=Http(),
        metadata=declare(
            Nested(Http),
            "The brokers' port for health, metrics and status pages, 8080: TLS, token, and who reaches it.",
        ),
    )
    allowed_bindings: AllowedBindings = field(
        default=NO_OTHERS,
        metadata=declare(
            Nested(AllowedBindings), "ReadOnlyTopicBindings that the pool serves. Without it, all of its own namespace."
        ),
    )
    lookup: Lookup = field(
        default=Lookup(),
        metadata=declare(Nested(Lookup), "Answers to lookups of topics that no ReadOnlyTopicBinding names."),
    )
    explicit_lac: ExplicitLac = field(
        default=ExplicitLac(),
        metadata=declare(
            Nested(ExplicitLac),
            "Explicit LAC: the owner brokers write the last confirmed entry to the bookies, also while no message is "
            "produced. The "
            "setting is bookkeeperExplicitLacIntervalInMills of the owner brokers, 0 (off) by default. Without "
            "explicit LAC, "
            "read-only brokers query the owner broker for the newest entry.",
            stored=True,
        ),
    )
    locality: Locality = field(
        default=Locality(),
        metadata=declare(
            Nested(Locality),
            "Source of a broker's locality; it reads from near bookies first, and serves near clients.",
        ),
    )
    topology_spread: tuple[Mapping[str, int | str], ...] = field(
        default=DEFAULT_SPREAD,
        metadata=declare(
            SPREAD,
            "Topology domains over which brokers are spread. An empty list turns it off. Default: zones and nodes, if "
            "possible.",
        ),
    )
    disruption_budget: DisruptionBudget = field(
        default=DisruptionBudget(),
        metadata=declare(Nested(DisruptionBudget), "Limit of brokers that a node drain may evict at a time."),
    )
    update_strategy: UpdateStrategy = field(
        default=UpdateStrategy(),
        metadata=declare(Nested(UpdateStrategy), "Replacement of brokers after a change of their pods."),
    )
    probes: Probes = field(
        default=Probes(), metadata=declare(Nested(Probes), "Timings of the kubelet's probes of brokers.")
    )
    autoscaling: Autoscaling | None = field(
        default=None,
        metadata=declare(
            Nested(Autoscaling),
            "A HorizontalPodAutoscaler that sets spec.replicas. It takes the largest number that one of its targets needs. "
            "With replicas 0 it is inactive. Without it, you set replicas.",
        ),
    )
    scale_to_zero: ScaleToZero | None = field(
        default=None,
        metadata=declare(
            Nested(ScaleToZero),
            "Let the pool sleep: without a client that needs it, no broker runs, and the next such client starts them. "
            "`scaleToZero: {}` is enough. With it, replicas 0 counts as 1. Without it, brokers always run.",
        ),
    )
    pod_template: PodTemplate = field(
        default_factory=PodTemplate,
        metadata=declare(
            Nested(PodTemplate),
            "Additions to the brokers' pods. The schema rejects more containers, privileges, commands, probes, ports, host "
            "networking and Secrets in the environment.",
        ),
    )
    inherited_metadata: AddedMetadata = field(
        default_factory=AddedMetadata,
        metadata=declare(
            Nested(AddedMetadata),
            "Labels and annotations of all objects that the operator makes for the pool, its pods among them: a change restarts "
            "the brokers. Those of podTemplate, serviceAccountTemplate, listeners and monitoring precede.",
        ),
    )
    service_account_template: ServiceAccountTemplate = field(
        default_factory=ServiceAccountTemplate,
        metadata=declare(
            Nested(ServiceAccountTemplate),
            "Additions to the brokers' ServiceAccount, which has the pool's name: an identity of a cloud for offloaded ledgers.",
        ),
    )
    monitoring: Monitoring = field(
        default=Monitoring(), metadata=declare(Nested(Monitoring), "Collection of the brokers' metrics.")
    )
    network_policy: NetworkPolicy | None = field(
        default=None,
        metadata=declare(
            Nested(NetworkPolicy),
            "A NetworkPolicy for the brokers. `networkPolicy: {}` admits clients and metrics from everywhere, and "
            "nothing else. "
            "Without it, none.",
        ),
    )
    log_level: str = field(
        default="info",
        metadata=declare(Choice(("debug", "info", "warning", "error")), "Log level of the brokers."),
    )

    @property
    def releases(self) -> bool:
        """Return whether the deletion of the pool removes its local cursors."""
        return self.on_deletion == RELEASE
