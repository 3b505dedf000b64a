"""Names: API group, labels, annotations, ports, paths, and the names of a pool's objects."""

from __future__ import annotations

from dataclasses import dataclass

GROUP = "pulsar-readonly.io"
VERSION = "v1beta1"
"""Version of all kinds of the group; docs/reference/api-versions.md has the promises for users."""

OPERATOR = "pulsar-readonly-operator"
"""Field manager of all that the operator applies, and value of the label `app.kubernetes.io/managed-by`."""

LABEL_POOL = f"{GROUP}/pool"
LABEL_NAME = "app.kubernetes.io/name"
LABEL_NAMESPACE = "kubernetes.io/metadata.name"
"""On every namespace: its name, which the API server sets."""
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
BROKER_NAME = "pulsar-readonly-broker"
"""Value of the label `app.kubernetes.io/name` of brokers."""
WAKER_NAME = "pulsar-readonly-waker"
"""Value of the label `app.kubernetes.io/name` of wakers."""
CHILD_SELECTOR = LABEL_POOL
"""Objects of all pools. Only the operator's own label selects them: other tools write `app.kubernetes.io/managed-by`."""
POD_SELECTOR = f"{LABEL_NAME}={BROKER_NAME},{LABEL_POOL}"
"""Brokers of all pools: the labels by which their StatefulSets select them."""

ANNOTATION_APPLIED_HASH = f"{GROUP}/applied-hash"
"""On every child: hash of the applied manifest. An unchanged child costs no request."""
ANNOTATION_CONFIG_HASH = f"{GROUP}/config-hash"
"""On the pod template: hash of the engine's configuration. A change of it rolls the brokers."""
ANNOTATION_POOL_UID = f"{GROUP}/pool-uid"
"""On the ConfigMap with the engine's configuration: uid by which brokers know the pool. Adopted brokers keep a former one."""
ANNOTATION_TEMPLATE_HASH = f"{GROUP}/template-hash"
"""On the StatefulSet: hash of the pod template as the operator wants it. A change of it replaces brokers."""
ANNOTATION_BINDINGS_REVISION = f"{GROUP}/bindings-revision"
"""On each broker's pod: a change of it makes the kubelet refresh the pod's ConfigMap volumes at once."""

FINALIZER_WRITER = f"{GROUP}/writable-cluster"
"""On pools and bindings whose deletion must restore or remove something at the source cluster; on no others."""
MANAGER_EXPLICIT_LAC = "pulsar-readonly-explicit-lac"
"""Field manager of the setting in the ConfigMap of owner brokers."""
ANNOTATION_EXPLICIT_LAC = f"{GROUP}/explicit-lac"
"""On that ConfigMap: the value set, the pool that it was set for, and the value before."""
ANNOTATION_EXPLICIT_LAC_FROM = f"{GROUP}/explicit-lac-from"
"""On the StatefulSet of owner brokers: namespaces whose pools may manage them, separated by commas; * for all."""

PAUSED_KEY = f"{GROUP}/paused"
"""Annotation of pools and bindings; with the value "true" the operator changes nothing of theirs."""

ANNOTATION_RESTARTED_AT = f"{GROUP}/restartedAt"
"""On a pool, and from there on its pod template: another value replaces the brokers, as `kubectl rollout restart` does."""

ANNOTATION_LOCALITY = f"{GROUP}/locality"
"""On each broker's pod: its locality, from labels of its node. The broker reads it as a file."""

ALL_INTERFACES = "*"
"""Host on which brokers listen: all addresses of the pod, of IPv4 and of IPv6 (readonly_engine.net.interfaces)."""
PORT_PULSAR = 6650
PORT_PULSAR_TLS = 6651
PORT_EXTERNAL = 6660
PORT_EXTERNAL_TLS = 6661
"""Port of clients outside the Kubernetes cluster, with TLS. Lookups on it answer with addresses that these clients reach."""
PORT_HTTP = 8080
LISTENER_EXTERNAL = "external"
"""Name of the brokers' listener for clients outside the Kubernetes cluster."""

CONFIG_DIRECTORY = "/etc/pulsar-readonly"
CONFIG_KEY = "engine.yaml"
BINDINGS_DIRECTORY = "/etc/pulsar-readonly-bindings"
BINDINGS_KEY = "bindings.yaml"
SECRETS_DIRECTORY = "/etc/pulsar-readonly-secrets"
POD_DIRECTORY = "/etc/pulsar-readonly-pod"
LOCALITY_KEY = "locality"
LOCALITY_FILE = f"{POD_DIRECTORY}/{LOCALITY_KEY}"
VOLUME_PREFIX = "pulsar-readonly-"
"""Prefix of the operator's own volumes; users' volumes must not have it."""


@dataclass(frozen=True, slots=True, order=True)
class PoolKey:
    """Namespace and name of a pool, whether or not it exists: the operator's unit of work."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def headless_service(self) -> str:
        """Return the name of the Service that gives each broker a DNS name."""
        return f"{self.name}-headless"

    @property
    def waker(self) -> str:
        """Return the name of the waker: its StatefulSet, ServiceAccount and NetworkPolicy."""
        return f"{self.name}-waker"

    @property
    def config_map(self) -> str:
        """Return the name of the ConfigMap with the engine's configuration."""
        return f"{self.name}-config"

    @property
    def bindings_map(self) -> str:
        """Return the name of the ConfigMap with the lookup redirection config."""
        return f"{self.name}-bindings"

    @property
    def membership_name(self) -> str:
        """Return the name under which the pool's brokers register in ZooKeeper: unique in a Kubernetes cluster."""
        return f"{self.namespace}.{self.name}"

    def ordinal(self, pod: str) -> int | None:
        """Return the ordinal of the broker in a pod of this name, or None for another pod."""
        number = pod.removeprefix(f"{self.name}-")
        return int(number) if number.isdecimal() and pod == self.pod(int(number)) else None

    def broker_service(self, ordinal: int) -> str:
        """Return the name of one broker's Service for clients outside the Kubernetes cluster."""
        return f"{self.name}-broker-{ordinal}"

    def pod(self, ordinal: int) -> str:
        """Return the name of one broker's pod."""
        return f"{self.name}-{ordinal}"

    def selector(self) -> dict[str, str]:
        """Return the labels that select the pool's brokers. They never change, because a StatefulSet's selector is immutable."""
        return {LABEL_NAME: BROKER_NAME, LABEL_POOL: self.name}

    def waker_selector(self) -> dict[str, str]:
        """Return the labels that select the pool's waker, and no broker."""
        return {LABEL_NAME: WAKER_NAME, LABEL_POOL: self.name}

    def labels(self) -> dict[str, str]:
        """Return the labels of every object of the pool."""
        return {
            **self.selector(),
            "app.kubernetes.io/instance": self.name,
            "app.kubernetes.io/component": "broker",
            "app.kubernetes.io/part-of": "pulsar-readonly",
            LABEL_MANAGED_BY: OPERATOR,
        }
