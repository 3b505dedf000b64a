"""ReadOnlyBrokerPool: spec.podTemplate, users' additions to the brokers' pods.

The schema is a chosen part of a pod template and rejects all other fields, which would break the operator's guarantees: more
containers, privileges (pods are restricted), commands, probes, ports, host networking, and Secrets in the environment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from readonly_operator.api.kubernetes import AFFINITY, DNS_CONFIG, ENV, HOST_ALIAS, LABEL_VALUE, TOLERATION
from readonly_operator.api.pool.metadata import AddedMetadata
from readonly_operator.api.schema import Choice, Declared, ListOf, MapOf, Nested, Number, Record, Rule, declare
from readonly_operator.api.values import MAX_QUANTITIES, OBJECT_NAME
from readonly_operator.api.volumes import VOLUME, VOLUME_MOUNT

if TYPE_CHECKING:
    from collections.abc import Mapping

GRACE_SECONDS = 30
"""Time that brokers need to redirect their clients, and the default."""
_MAX_ID = 2147483647
SECURITY_CONTEXT = Record(
    {
        "runAsUser": Declared(
            Number(1, _MAX_ID, wide=True), "User id, not 0. Without it, the image's or the cluster's."
        ),
        "runAsGroup": Declared(Number(0, _MAX_ID, wide=True), "Group id. Without it, the image's."),
        "fsGroup": Declared(
            Number(0, _MAX_ID, wide=True), "Group of the files in volumes. Without it, none or the cluster's."
        ),
    }
)


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """Additions to the brokers' pods.

    Attributes:
        metadata: labels and annotations.
        node_selector: labels of the brokers' nodes.
        tolerations: of nodes' taints.
        affinity: to nodes and pods.
        priority_class_name: empty for none.
        runtime_class_name: empty for the Kubernetes cluster's default.
        scheduler_name: empty for the Kubernetes cluster's default.
        dns_policy: ClusterFirst, Default or None; empty for the first.
        dns_config: additions to the DNS settings of dns_policy.
        host_aliases: further names in /etc/hosts.
        termination_grace_period_seconds: at least GRACE_SECONDS.
        security_context: user and groups of the pods; empty for those of the image or of the cluster's policy.
        env: variables of the brokers' containers.
        volumes: besides the operator's.
        volume_mounts: of these volumes.
    """

    RULES = (
        Rule(
            "!has(self.volumeMounts) || self.volumeMounts.all(mount, has(self.volumes) && "
            "self.volumes.exists(volume, volume.name == mount.name))",
            "must name one of podTemplate.volumes each",
            ".volumeMounts",
        ),
        Rule(
            "!has(self.dnsPolicy) || self.dnsPolicy != 'None' || (has(self.dnsConfig) && has(self.dnsConfig.nameservers))",
            "give nameservers when dnsPolicy is None, or brokers find no host",
            ".dnsConfig",
            "FieldValueRequired",
        ),
    )

    metadata: AddedMetadata = field(
        default_factory=AddedMetadata,
        metadata=declare(Nested(AddedMetadata), "Labels and annotations of the pods."),
    )
    node_selector: Mapping[str, str] = field(
        default_factory=dict,
        metadata=declare(MapOf(LABEL_VALUE, 32), "Labels of the brokers' nodes. Without it, any node."),
    )
    tolerations: tuple[Mapping[str, Any], ...] = field(
        default=(), metadata=declare(ListOf(TOLERATION, 32), "Taints of nodes that brokers tolerate.")
    )
    affinity: Mapping[str, Any] = field(
        default_factory=dict, metadata=declare(AFFINITY, "Affinity to nodes and pods, as in a pod.")
    )
    priority_class_name: str = field(
        default="",
        metadata=declare(OBJECT_NAME, "Priority class of brokers. Without it, the Kubernetes cluster's default."),
    )
    runtime_class_name: str = field(
        default="",
        metadata=declare(OBJECT_NAME, "Runtime class of brokers. Without it, the Kubernetes cluster's default."),
    )
    scheduler_name: str = field(
        default="",
        metadata=declare(OBJECT_NAME, "Scheduler of brokers. Without it, the Kubernetes cluster's default."),
    )
    dns_policy: str = field(
        default="",
        metadata=declare(
            Choice(("ClusterFirst", "Default", "None")),
            "Origin of the pods' DNS settings: ClusterFirst is the Kubernetes cluster's DNS, Default that of the node, None only "
            "dnsConfig. Without it, ClusterFirst.",
        ),
    )
    dns_config: Mapping[str, Any] = field(
        default_factory=dict, metadata=declare(DNS_CONFIG, "DNS settings of the pods, besides those of dnsPolicy.")
    )
    host_aliases: tuple[Mapping[str, Any], ...] = field(
        default=(),
        metadata=declare(ListOf(HOST_ALIAS, 32, keys=("ip",)), "Further names and their addresses, as in /etc/hosts."),
    )
    termination_grace_period_seconds: int = field(
        default=GRACE_SECONDS,
        metadata=declare(
            Number(GRACE_SECONDS, 3600),
            "Seconds that a terminating broker has to redirect its clients.",
        ),
    )
    security_context: Mapping[str, int] = field(
        default_factory=dict,
        metadata=declare(
            SECURITY_CONTEXT,
            "User and groups of the pods. Without it, the image's user, or the one that the cluster assigns, as OpenShift does.",
        ),
    )
    env: tuple[Mapping[str, Any], ...] = field(
        default=(),
        metadata=declare(ListOf(ENV, 32, keys=("name",)), "Environment variables, for example TZ. No Secrets."),
    )
    volumes: tuple[Mapping[str, Any], ...] = field(
        default=(), metadata=declare(ListOf(VOLUME, MAX_QUANTITIES, keys=("name",)), "Volumes besides the operator's.")
    )
    volume_mounts: tuple[Mapping[str, Any], ...] = field(
        default=(),
        metadata=declare(ListOf(VOLUME_MOUNT, 16, keys=("mountPath",)), "Mount paths of these volumes."),
    )
