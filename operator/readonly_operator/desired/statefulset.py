"""The StatefulSet of a pool's brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from readonly_operator.desired.configmaps import engine_config
from readonly_operator.desired.digest import digest
from readonly_operator.desired.metadata import start
from readonly_operator.kinds import STATEFUL_SET, Manifest
from readonly_operator.names import (
    ANNOTATION_CONFIG_HASH,
    BINDINGS_DIRECTORY,
    BINDINGS_KEY,
    CONFIG_DIRECTORY,
    CONFIG_KEY,
    PORT_HTTP,
    PORT_PULSAR,
)

if TYPE_CHECKING:
    from readonly_operator.api.pool import Pool
    from readonly_operator.settings import Settings

USER = 65532
"""The user of the images, not root."""
GRACE_SECONDS = 30


def stateful_set(pool: Pool, settings: Settings) -> Manifest:
    """StatefulSet: brokers need stable names, for lookups send clients to them by name; they start and stop in any order."""
    manifest = start(STATEFUL_SET, pool.key.name, pool)
    manifest["spec"] = {
        "replicas": pool.replicas,
        "serviceName": pool.key.headless_service,
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate"},
        "revisionHistoryLimit": 3,
        "selector": {"matchLabels": pool.key.selector()},
        "template": {
            "metadata": {
                "labels": pool.key.labels(),
                "annotations": {ANNOTATION_CONFIG_HASH: digest(engine_config(pool))},
            },
            "spec": _pod(pool, settings),
        },
    }
    return manifest


def _pod(pool: Pool, settings: Settings) -> dict[str, Any]:
    return {
        "serviceAccountName": pool.key.name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(pool, settings)],
        "volumes": [
            {"name": "config", "configMap": {"name": pool.key.config_map}},
            {"name": "bindings", "configMap": {"name": pool.key.bindings_map}},
        ],
    }


def _container(pool: Pool, settings: Settings) -> dict[str, Any]:
    host = f"$(POD_NAME).{pool.key.headless_service}.$(POD_NAMESPACE).svc.{settings.cluster_domain}"
    container: dict[str, Any] = {
        "name": "broker",
        "image": pool.image or settings.engine_image,
        "args": [
            "serve",
            "--config",
            f"{CONFIG_DIRECTORY}/{CONFIG_KEY}",
            "--bindings",
            f"{BINDINGS_DIRECTORY}/{BINDINGS_KEY}",
            "--advertised-url",
            f"pulsar://{host}:{PORT_PULSAR}",
            "--pool",
            pool.key.fleet,
        ],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        ],
        "ports": [
            {"name": "pulsar", "containerPort": PORT_PULSAR, "protocol": "TCP"},
            {"name": "http", "containerPort": PORT_HTTP, "protocol": "TCP"},
        ],
        "terminationMessagePolicy": "FallbackToLogsOnError",  # so that status can quote why a broker gave up
        "startupProbe": _probe("/healthz", period=1, failures=60),
        "livenessProbe": _probe("/healthz", period=10, failures=3),
        "readinessProbe": _probe("/readyz", period=2, failures=3),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "config", "mountPath": CONFIG_DIRECTORY, "readOnly": True},
            {"name": "bindings", "mountPath": BINDINGS_DIRECTORY, "readOnly": True},
        ],
    }
    if pool.image_pull_policy:
        container["imagePullPolicy"] = pool.image_pull_policy
    if pool.resources:
        container["resources"] = {
            # as text, which is how Kubernetes gives them back
            kind: {name: str(quantity) for name, quantity in quantities.items()}
            for kind, quantities in pool.resources.items()
        }
    return container


def _probe(path: str, *, period: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": period,
        "timeoutSeconds": 2,
        "failureThreshold": failures,
    }
