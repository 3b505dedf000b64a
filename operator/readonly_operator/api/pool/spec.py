"""ReadOnlyBrokerPool: spec."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from readonly_operator.api.pool.explicit_lac import ExplicitLac
from readonly_operator.api.pool.limits import Cache, Limits, TieredStorage
from readonly_operator.api.pool.listeners import Listeners, Lookup
from readonly_operator.api.pool.observing import Monitoring, NetworkPolicy
from readonly_operator.api.pool.placement import (
    DEFAULT_SPREAD,
    SPREAD,
    Autoscaling,
    DisruptionBudget,
    Locality,
    UpdateStrategy,
)
from readonly_operator.api.pool.source import Source
from readonly_operator.api.pool.template import PodTemplate
from readonly_operator.api.schema import Choice, Declared, ListOf, Nested, Number, Record, Rule, declare
from readonly_operator.api.values import IMAGE, OBJECT_NAME, QUANTITIES

if TYPE_CHECKING:
    from collections.abc import Mapping

RESOURCES = Record(
    {
        "limits": Declared(QUANTITIES, "The most that a broker may use, by resource name. Without it, no limit."),
        "requests": Declared(QUANTITIES, "What is kept free for a broker, by resource name. Without it, the limits."),
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
    """The fleet that the user wants.

    Attributes:
        source: the writable cluster.
        replicas: brokers wanted.
        image: of the brokers; empty for the operator's own choice.
        image_pull_policy: empty for Kubernetes' own rule.
        image_pull_secrets: with credentials for the image.
        resources: of a broker's container, as in a pod.
        cache: what a broker keeps in memory.
        limits: how much a broker takes and gives.
        tiered_storage: how offloaded ledgers are read.
        listeners: where clients connect.
        lookup: what clients are told about topics that nobody bound.
        explicit_lac: what is wanted of the writable brokers.
        locality: how a broker knows where it is.
        topology_spread: over which places brokers are spread.
        disruption_budget: how many brokers evictions may take.
        update_strategy: how brokers are replaced.
        autoscaling: None for none.
        pod_template: what is added to the brokers' pods.
        monitoring: how metrics are collected.
        network_policy: None for none.
        log_level: of the brokers.
    """

    RULES = (
        Rule(
            "!has(oldSelf.lookup) || !has(oldSelf.lookup.clusterName) || (has(self.lookup) && has(self.lookup.clusterName)"
            " && self.lookup.clusterName == oldSelf.lookup.clusterName)",
            "cannot change once it is given: make the pool anew to register it under another name, or not at all",
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
            "!has(self.autoscaling) || (has(self.resources) && ((has(self.resources.requests) && 'cpu' in "
            "self.resources.requests) || (has(self.resources.limits) && 'cpu' in self.resources.limits)))",
            "say how much CPU a broker requests (requests.cpu) when autoscaling is given, which compares usage with it",
            ".resources",
            "FieldValueRequired",
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
            "How many read-only brokers. `kubectl scale robp/NAME --replicas=N` sets it, and autoscaling, with which you leave "
            "it out of your manifests.",
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
    image_pull_secrets: tuple[Mapping[str, str], ...] = field(
        default=(),
        metadata=declare(ListOf(PULL_SECRET, 8, keys=("name",)), "Secrets with credentials for pulling the image."),
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
    limits: Limits = field(
        default_factory=Limits,
        metadata=declare(Nested(Limits), "How many clients each broker takes, and how much it gives them."),
    )
    tiered_storage: TieredStorage | None = field(
        default=None,
        metadata=declare(
            Nested(TieredStorage),
            "How ledgers are read that the writable cluster has offloaded. Without it, as its brokers noted.",
        ),
    )
    listeners: Listeners = field(
        default_factory=Listeners,
        metadata=declare(Nested(Listeners), "Where clients connect: TLS, the Service, and names outside the cluster."),
    )
    lookup: Lookup = field(
        default=Lookup(),
        metadata=declare(Nested(Lookup), "What clients are told about topics that no ReadOnlyTopicBinding names."),
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
    locality: Locality = field(
        default=Locality(),
        metadata=declare(
            Nested(Locality), "How a broker knows where it is, so that it reads from bookies there first."
        ),
    )
    topology_spread: tuple[Mapping[str, int | str], ...] = field(
        default=DEFAULT_SPREAD,
        metadata=declare(
            SPREAD,
            "Over which places brokers are spread. An empty list turns it off. Default: over zones and nodes, as far as it goes.",
        ),
    )
    disruption_budget: DisruptionBudget = field(
        default=DisruptionBudget(),
        metadata=declare(Nested(DisruptionBudget), "How many brokers a drain of nodes may take at a time."),
    )
    update_strategy: UpdateStrategy = field(
        default=UpdateStrategy(),
        metadata=declare(Nested(UpdateStrategy), "How brokers are replaced when their pods change."),
    )
    autoscaling: Autoscaling | None = field(
        default=None,
        metadata=declare(
            Nested(Autoscaling),
            "A HorizontalPodAutoscaler that sets spec.replicas. With replicas 0 it rests. Without it, you set replicas.",
        ),
    )
    pod_template: PodTemplate = field(
        default_factory=PodTemplate,
        metadata=declare(
            Nested(PodTemplate),
            "What is added to the brokers' pods. Refused are more containers, security contexts, commands, probes, ports, host "
            "networking and Secrets in the environment.",
        ),
    )
    monitoring: Monitoring = field(
        default=Monitoring(), metadata=declare(Nested(Monitoring), "How the brokers' metrics are collected.")
    )
    network_policy: NetworkPolicy | None = field(
        default=None,
        metadata=declare(
            Nested(NetworkPolicy),
            "A NetworkPolicy about who may connect to the brokers. `networkPolicy: {}` lets clients and metrics in from "
            "everywhere, and nothing else. Without it, none.",
        ),
    )
    log_level: str = field(
        default="info",
        metadata=declare(Choice(("debug", "info", "warning", "error")), "How much brokers log."),
    )
