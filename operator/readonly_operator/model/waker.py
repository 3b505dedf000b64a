"""The waker of a pool that may sleep: one small pod that holds clients until brokers run.

The operator learns from its readiness that a client needs the pool. Anybody may reach it, without credentials. So it has no
token of a ServiceAccount, no Secret but that of the listeners, and no way out (NetworkPolicy).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from readonly_operator.kube.kinds import NETWORK_POLICY, SERVICE_ACCOUNT, STATEFUL_SET, Manifest
from readonly_operator.kube.names import ALL_INTERFACES, PORT_HTTP, PORT_PULSAR, PORT_PULSAR_TLS
from readonly_operator.model.external import client_ports, external_ports
from readonly_operator.model.files import listener_mounts
from readonly_operator.model.metadata import start
from readonly_operator.model.statefulset import image

if TYPE_CHECKING:
    from readonly_operator.api.pool import Pool
    from readonly_operator.settings import Settings

RESOURCES = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}
"""Enough for the most connections of a waker (readonly_engine.wake.connections), with TLS."""
READY = "ready"
"""Port of the readiness probe: it is closed while a client needs the pool."""
_PORTS = {"pulsar": PORT_PULSAR, "pulsar-tls": PORT_PULSAR_TLS}


def waker(pool: Pool, settings: Settings) -> list[Manifest]:
    """Return the objects of the waker; none while the pool is awake.

    Raises:
        ApiSpecError: neither the pool nor the operator names an image.
    """
    if not pool.phase.has_waker:
        return []
    account = start(SERVICE_ACCOUNT, pool.key.waker, pool)
    account["automountServiceAccountToken"] = False
    return [account, *_network_policy(pool), _stateful_set(pool, settings)]


def is_ready(stateful_set: Manifest | None) -> bool:
    """Return whether a waker is ready, by its StatefulSet; None for none. A changed template does not replace it."""
    if stateful_set is None or "deletionTimestamp" in stateful_set["metadata"]:
        return False
    return bool((stateful_set.get("status") or {}).get("readyReplicas", 0))


def _stateful_set(pool: Pool, settings: Settings) -> Manifest:
    """Return the StatefulSet of one pod.

    A change of its template replaces no waker (OnDelete): each replacement would wake the pool. The next sleep has the new one.
    """
    labels = {
        **pool.inherited_metadata.labels,
        **pool.key.labels(),
        **pool.key.waker_selector(),
        "app.kubernetes.io/component": "waker",
    }
    annotations = dict(pool.inherited_metadata.annotations)
    manifest = start(STATEFUL_SET, pool.key.waker, pool)
    manifest["spec"] = {
        "replicas": 1,
        "serviceName": pool.key.headless_service,
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "OnDelete"},
        "revisionHistoryLimit": 1,
        "selector": {"matchLabels": pool.key.waker_selector()},
        "template": {
            "metadata": {"labels": labels, **({"annotations": annotations} if annotations else {})},
            "spec": _pod(pool, settings),
        },
    }
    return manifest


def _pod(pool: Pool, settings: Settings) -> dict[str, Any]:
    wanted = pool.pod_template
    pod: dict[str, Any] = {
        "serviceAccountName": pool.key.waker,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "securityContext": {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            **wanted.security_context,
        },
        "containers": [_container(pool, settings)],
    }
    chosen = {
        "volumes": [mount.volume() for mount in listener_mounts(pool)],
        "imagePullSecrets": [dict(one) for one in pool.image_pull_secrets],
        "nodeSelector": dict(wanted.node_selector),
        "tolerations": [dict(one) for one in wanted.tolerations],
        "priorityClassName": wanted.priority_class_name,
        "runtimeClassName": wanted.runtime_class_name,
        "schedulerName": wanted.scheduler_name,
    }
    return {**pod, **{name: value for name, value in chosen.items() if value}}


def _container(pool: Pool, settings: Settings) -> dict[str, Any]:
    ports = _client_ports(pool)
    container: dict[str, Any] = {
        "name": "waker",
        "image": image(pool, settings),
        "args": _arguments(pool, ports),
        "ports": [
            {"name": name, "containerPort": number, "protocol": "TCP"}
            for name, number in {**ports, READY: PORT_HTTP}.items()
        ],
        "resources": {kind: dict(quantities) for kind, quantities in RESOURCES.items()},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        # a refused connection counts at once; a slow node does not
        "readinessProbe": {
            "tcpSocket": {"port": READY},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
            "failureThreshold": 1,
        },
        "livenessProbe": {
            "tcpSocket": {"port": next(iter(ports), READY)},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    volume_mounts = [mount.mount() for mount in listener_mounts(pool)]
    if volume_mounts:
        container["volumeMounts"] = volume_mounts
    if pool.image_pull_policy:
        container["imagePullPolicy"] = pool.image_pull_policy
    return container


def _client_ports(pool: Pool) -> dict[str, int]:
    """Return the ports for clients, by name: those that the Services of the pool lead to."""
    return {**{name: _PORTS[name] for name in client_ports(pool)}, **external_ports(pool)}


def _arguments(pool: Pool, ports: dict[str, int]) -> list[str]:
    made = ["wake", "--ready", f"{ALL_INTERFACES}:{PORT_HTTP}", "--log-format", "json"]
    for option, tls in (("--listen", False), ("--tls-listen", True)):
        addresses = [f"{ALL_INTERFACES}:{number}" for name, number in ports.items() if name.endswith("-tls") is tls]
        made += [option, *addresses] if addresses else []
    for mount in listener_mounts(pool):
        for option, path in mount.options().items():
            made += [f"--{option}", path]
    return made


def _network_policy(pool: Pool) -> list[Manifest]:
    """Return the NetworkPolicy of the waker: the pool's clients come in, and nothing goes out."""
    policy = pool.network_policy
    if policy is None:
        return []
    manifest = start(NETWORK_POLICY, pool.key.waker, pool)
    manifest["spec"] = {
        "podSelector": {"matchLabels": pool.key.waker_selector()},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [
            {
                "ports": [{"port": name, "protocol": "TCP"} for name in _client_ports(pool)],
                **({"from": [dict(peer) for peer in policy.clients]} if policy.clients else {}),
            }
        ],
        "egress": [],
    }
    return [manifest]
