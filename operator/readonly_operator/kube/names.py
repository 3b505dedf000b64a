"""Names that the operator gives: API group, labels, annotations, and the objects of a pool."""

from __future__ import annotations

from dataclasses import dataclass

GROUP = "pulsar-readonly.io"
VERSION = "v1alpha1"

OPERATOR = "pulsar-readonly-operator"
"""Field manager of everything that the operator applies, and value of the label `app.kubernetes.io/managed-by`."""

LABEL_POOL = f"{GROUP}/pool"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_SELECTOR = f"{LABEL_MANAGED_BY}={OPERATOR}"

ANNOTATION_APPLIED_HASH = f"{GROUP}/applied-hash"
"""On every child: hash of what was applied, so that an unchanged child costs no request."""
ANNOTATION_CONFIG_HASH = f"{GROUP}/config-hash"
"""On the pod template: hash of the engine's configuration, so that a change of it rolls the brokers."""
ANNOTATION_BINDINGS_REVISION = f"{GROUP}/bindings-revision"
"""On each broker's pod: a change of it makes the kubelet refresh the pod's ConfigMap volumes at once."""

FINALIZER_WRITER = f"{GROUP}/writable-cluster"
"""On pools that have something to put back at the writable cluster when they are deleted; on no others."""
MANAGER_EXPLICIT_LAC = "pulsar-readonly-explicit-lac"
"""Field manager of what the operator sets in the ConfigMap of writable brokers."""
ANNOTATION_EXPLICIT_LAC = f"{GROUP}/explicit-lac"
"""On that ConfigMap: what was set, for whom, and what was there before."""
ANNOTATION_EXPLICIT_LAC_FROM = f"{GROUP}/explicit-lac-from"
"""On the StatefulSet of writable brokers: namespaces whose pools may manage them, by commas; * for all."""

PAUSED_KEY = f"{GROUP}/paused"
"""Annotation of pools and bindings; with the value "true" the operator changes nothing of theirs."""

ANNOTATION_LOCALITY = f"{GROUP}/locality"
"""On each broker's pod: where it is, from labels of its node; the broker sees it as a file."""

PORT_PULSAR = 6650
PORT_PULSAR_TLS = 6651
PORT_EXTERNAL = 6660
PORT_EXTERNAL_TLS = 6661
"""Where clients from outside the cluster come to, so that they are sent to addresses that they reach."""
PORT_HTTP = 8080
LISTENER_EXTERNAL = "external"
"""Name of the brokers' listener for clients outside the cluster."""

CONFIG_DIRECTORY = "/etc/pulsar-readonly"
CONFIG_KEY = "engine.yaml"
BINDINGS_DIRECTORY = "/etc/pulsar-readonly-bindings"
BINDINGS_KEY = "bindings.yaml"
SECRETS_DIRECTORY = "/etc/pulsar-readonly-secrets"
POD_DIRECTORY = "/etc/pulsar-readonly-pod"
LOCALITY_KEY = "locality"
LOCALITY_FILE = f"{POD_DIRECTORY}/{LOCALITY_KEY}"
VOLUME_PREFIX = "pulsar-readonly-"
"""Of the names of the operator's own volumes: users' volumes have other names."""


@dataclass(frozen=True, slots=True, order=True)
class PoolKey:
    """A pool by namespace and name, whether or not it exists: the unit of work of the operator."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def headless_service(self) -> str:
        """Service that gives each broker a DNS name."""
        return f"{self.name}-headless"

    @property
    def config_map(self) -> str:
        """ConfigMap with the engine's configuration."""
        return f"{self.name}-config"

    @property
    def bindings_map(self) -> str:
        """ConfigMap with the lookup redirection config."""
        return f"{self.name}-bindings"

    @property
    def membership_name(self) -> str:
        """Name by which the brokers of the pool find each other in ZooKeeper: unique in a Kubernetes cluster."""
        return f"{self.namespace}.{self.name}"

    def ordinal(self, pod: str) -> int | None:
        """Which broker a pod of this name runs; None for none."""
        number = pod.removeprefix(f"{self.name}-")
        return int(number) if number.isdecimal() and pod == self.pod(int(number)) else None

    def broker_service(self, ordinal: int) -> str:
        """Service of one broker, for clients outside the cluster."""
        return f"{self.name}-broker-{ordinal}"

    def pod(self, ordinal: int) -> str:
        """Pod of one broker."""
        return f"{self.name}-{ordinal}"

    def selector(self) -> dict[str, str]:
        """Labels that select the pool's brokers; they never change, for a StatefulSet's selector cannot."""
        return {"app.kubernetes.io/name": "pulsar-readonly-broker", LABEL_POOL: self.name}

    def labels(self) -> dict[str, str]:
        """Labels of every object of the pool."""
        return {
            **self.selector(),
            "app.kubernetes.io/instance": self.name,
            "app.kubernetes.io/component": "broker",
            "app.kubernetes.io/part-of": "pulsar-readonly",
            LABEL_MANAGED_BY: OPERATOR,
        }
