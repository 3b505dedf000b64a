"""Kinds of Kubernetes objects that the operator reads or writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from readonly_operator.kube.names import CHILD_SELECTOR, GROUP, POD_SELECTOR, VERSION

Manifest = dict[str, Any]
"""A Kubernetes object as JSON."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of objects.

    Attributes:
        group: API group, empty for the core group.
        version: version in the group.
        kind: name in manifests.
        plural: name in URLs.
        selector: label selector for listing and watching; empty for all objects of the kind.
        namespaced: whether its objects are in namespaces.
    """

    group: str
    version: str
    kind: str
    plural: str
    selector: str = ""
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Return the apiVersion of manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version


POOL = Kind(GROUP, VERSION, "ReadOnlyBrokerPool", "readonlybrokerpools")
BINDING = Kind(GROUP, VERSION, "ReadOnlyTopicBinding", "readonlytopicbindings")
SOURCE = Kind(GROUP, VERSION, "ReadOnlySource", "readonlysources")
EVENT = Kind("", "v1", "Event", "events")
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts", CHILD_SELECTOR)
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps", CHILD_SELECTOR)
SERVICE = Kind("", "v1", "Service", "services", CHILD_SELECTOR)
CERTIFICATE = Kind("cert-manager.io", "v1", "Certificate", "certificates", CHILD_SELECTOR)
STATEFUL_SET = Kind("apps", "v1", "StatefulSet", "statefulsets", CHILD_SELECTOR)
DISRUPTION_BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", CHILD_SELECTOR)
AUTOSCALER = Kind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", CHILD_SELECTOR)
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", CHILD_SELECTOR)
POD_MONITOR = Kind("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors", CHILD_SELECTOR)
POD = Kind("", "v1", "Pod", "pods", POD_SELECTOR)
SECRET = Kind("", "v1", "Secret", "secrets")
NODE = Kind("", "v1", "Node", "nodes", namespaced=False)
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False)

CHILDREN = (
    SERVICE_ACCOUNT,
    CONFIG_MAP,
    SERVICE,
    CERTIFICATE,
    STATEFUL_SET,
    DISRUPTION_BUDGET,
    AUTOSCALER,
    NETWORK_POLICY,
    POD_MONITOR,
)
"""Kinds of objects that the operator creates for a pool; pods are the StatefulSet's."""
OPTIONAL = frozenset({SOURCE, CERTIFICATE, POD_MONITOR})
"""Kinds that a Kubernetes cluster need not serve."""
WATCHED = (POOL, BINDING, SOURCE, *CHILDREN, POD)

_BY_NAME = {(kind.api_version, kind.kind): kind for kind in (*WATCHED, EVENT, LEASE)}


def kind_of(manifest: Manifest) -> Kind:
    """Return the kind of an object.

    Raises:
        KeyError: the operator does not know the kind.
    """
    return _BY_NAME[manifest["apiVersion"], manifest["kind"]]
