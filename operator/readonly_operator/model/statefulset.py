"""The StatefulSet of a pool's brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from readonly_operator.api.reader import ApiSpecError
from readonly_operator.api.schema import Text
from readonly_operator.kube.digest import digest
from readonly_operator.kube.kinds import STATEFUL_SET, Manifest
from readonly_operator.kube.names import (
    ANNOTATION_CONFIG_HASH,
    ANNOTATION_LOCALITY,
    ANNOTATION_RESTARTED_AT,
    ANNOTATION_TEMPLATE_HASH,
    BINDINGS_DIRECTORY,
    BINDINGS_KEY,
    CONFIG_DIRECTORY,
    CONFIG_KEY,
    LOCALITY_KEY,
    POD_DIRECTORY,
    PORT_HTTP,
    PORT_PULSAR,
    PORT_PULSAR_TLS,
    VOLUME_PREFIX,
)
from readonly_operator.kube.workers import worker_ports
from readonly_operator.model.engine import engine_config
from readonly_operator.model.external import external_arguments, external_environment, external_ports
from readonly_operator.model.files import mounts
from readonly_operator.model.metadata import add, start
from readonly_operator.model.probes import probes
from readonly_operator.model.quantities import canonical
from readonly_operator.model.resources import broker_resources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_operator.api.pool import Pool
    from readonly_operator.settings import Settings

RESTARTED_AT = Text(
    64,
    r"[A-Za-z0-9._:+-]{1,64}",
    "must be 1 to 64 letters, digits and '.', '_', ':', '+', '-', for example 2026-11-28T12:00:00Z",
)
"""Time of a restart, or any other mark that differs from the last one."""


def stateful_set(pool: Pool, settings: Settings) -> Manifest:
    """Return the StatefulSet. Lookups name brokers, so their names must be stable; they start and stop in any order.

    Raises:
        ApiSpecError: neither the pool nor the operator names an image, or the annotation that restarts brokers is invalid.
    """
    manifest = start(STATEFUL_SET, pool.key.name, pool)
    inherited, wanted = pool.inherited_metadata, pool.pod_template.metadata
    manifest["spec"] = {
        "replicas": pool.running,
        "serviceName": pool.key.headless_service,
        "podManagementPolicy": "Parallel",
        "updateStrategy": _update_strategy(pool),
        **(
            {"minReadySeconds": pool.update_strategy.min_ready_seconds}
            if pool.update_strategy.min_ready_seconds
            else {}
        ),
        "revisionHistoryLimit": 3,
        "selector": {"matchLabels": pool.key.selector()},
        "template": {
            "metadata": {
                "labels": {**inherited.labels, **wanted.labels, **pool.key.labels()},
                "annotations": {
                    **inherited.annotations,
                    **wanted.annotations,
                    **_restarted_at(pool),
                    ANNOTATION_CONFIG_HASH: digest(engine_config(pool)),
                },
            },
            "spec": _pod(pool, settings),
        },
    }
    add(manifest, pool, {}, {ANNOTATION_TEMPLATE_HASH: digest(manifest["spec"]["template"])})
    return manifest


def _restarted_at(pool: Pool) -> dict[str, str]:
    """Return the annotation that restarts brokers. No schema covers annotations of the pool, so it is checked here.

    Raises:
        ApiSpecError: the value is no such mark.
    """
    if not pool.restarted_at:
        return {}
    value = RESTARTED_AT.parse(pool.restarted_at, f"metadata.annotations[{ANNOTATION_RESTARTED_AT}]")
    return {ANNOTATION_RESTARTED_AT: value}


def _update_strategy(pool: Pool) -> dict[str, Any]:
    wanted = pool.update_strategy
    rolling: dict[str, Any] = {}
    if wanted.partition:
        rolling["partition"] = wanted.partition
    if wanted.max_unavailable is not None:
        rolling["maxUnavailable"] = wanted.max_unavailable
    return {"type": wanted.type, **({"rollingUpdate": rolling} if rolling else {})}


def _pod(pool: Pool, settings: Settings) -> dict[str, Any]:
    wanted = pool.pod_template
    pod: dict[str, Any] = {
        "serviceAccountName": pool.key.name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": wanted.termination_grace_period_seconds,
        # no fixed user: the image's, or that of the namespace where the cluster chooses it (OpenShift's restricted-v2)
        "securityContext": {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            **wanted.security_context,
        },
        "containers": [_container(pool, settings)],
        "volumes": _volumes(pool),
    }
    if pool.topology_spread:
        pod["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "whenUnsatisfiable": "ScheduleAnyway",
                **constraint,
                "labelSelector": {"matchLabels": pool.key.selector()},
            }
            for constraint in pool.topology_spread
        ]
    chosen = {
        "imagePullSecrets": [dict(one) for one in pool.image_pull_secrets],
        "nodeSelector": dict(wanted.node_selector),
        "tolerations": [dict(one) for one in wanted.tolerations],
        "affinity": dict(wanted.affinity),
        "priorityClassName": wanted.priority_class_name,
        "runtimeClassName": wanted.runtime_class_name,
        "schedulerName": wanted.scheduler_name,
        "dnsPolicy": wanted.dns_policy,
        "dnsConfig": dict(wanted.dns_config),
        "hostAliases": [dict(one) for one in wanted.host_aliases],
    }
    return {**pod, **{name: value for name, value in chosen.items() if value}}


def _volumes(pool: Pool) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [
        {"name": f"{VOLUME_PREFIX}config", "configMap": {"name": pool.key.config_map}},
        {"name": f"{VOLUME_PREFIX}bindings", "configMap": {"name": pool.key.bindings_map}},
    ]
    if pool.locality.node_labels:
        # empty until the operator knows the node: a pod is created before it is scheduled
        place = {"path": LOCALITY_KEY, "fieldRef": {"fieldPath": f"metadata.annotations['{ANNOTATION_LOCALITY}']"}}
        made.append({"name": f"{VOLUME_PREFIX}pod", "downwardAPI": {"items": [place]}})
    made += [mount.volume() for mount in mounts(pool)]
    return made + [_own_volume(volume) for volume in pool.pod_template.volumes]


def _own_volume(volume: Mapping[str, Any]) -> dict[str, Any]:
    """Return a volume of the user in canonical form."""
    made = dict(volume)
    limit = made.get("emptyDir", {}).get("sizeLimit")
    if limit is not None:
        made["emptyDir"] = {**made["emptyDir"], "sizeLimit": canonical(limit)}
    return made


def _container(pool: Pool, settings: Settings) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "broker",
        "image": image(pool, settings),
        "args": _arguments(pool, settings),
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            *external_environment(pool),
            *(dict(one) for one in pool.pod_template.env),
        ],
        "ports": [
            {"name": name, "containerPort": number, "protocol": "TCP"}
            for name, number in worker_ports(_ports(pool), pool.workers).items()
        ],
        "resources": broker_resources(pool),
        "terminationMessagePolicy": "FallbackToLogsOnError",  # the status quotes the last line of a failed broker
        **probes(pool.probes, tls=pool.http.tls),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": _volume_mounts(pool),
    }
    if pool.image_pull_policy:
        container["imagePullPolicy"] = pool.image_pull_policy
    return container


def _ports(pool: Pool) -> dict[str, int]:
    """Return the ports of a broker, by name."""
    tls = {"pulsar-tls": PORT_PULSAR_TLS} if pool.listeners.tls is not None else {}
    return {"pulsar": PORT_PULSAR, **tls, **external_ports(pool), "http": PORT_HTTP}


def image(pool: Pool, settings: Settings) -> str:
    """Return the brokers' image. No default names one: a short name would be that of a stranger on a public registry.

    Raises:
        ApiSpecError: neither the pool nor the operator names an image.
    """
    image = pool.image or settings.engine_image
    if not image:
        raise ApiSpecError(
            "spec.image is missing, and the operator has no default: name the image of the brokers in your registry, or start "
            "the operator with --engine-image"
        )
    return image


def _arguments(pool: Pool, settings: Settings) -> list[str]:
    host = f"$(POD_NAME).{pool.key.headless_service}.$(POD_NAMESPACE).svc.{settings.cluster_domain}"
    made = [
        "serve",
        "--config",
        f"{CONFIG_DIRECTORY}/{CONFIG_KEY}",
        "--bindings",
        f"{BINDINGS_DIRECTORY}/{BINDINGS_KEY}",
        "--advertised-url",
        f"pulsar://{host}:{PORT_PULSAR}",
    ]
    if pool.listeners.tls is not None:
        made += ["--advertised-tls-url", f"pulsar+ssl://{host}:{PORT_PULSAR_TLS}"]
    made += [*external_arguments(pool), "--pool", pool.key.membership_name, "--pool-uid", pool.membership_uid]
    # not in the file: a container that restarts during a rollout reads the new file, and must keep the ports of its pod
    return made + (["--workers", str(pool.workers)] if pool.workers > 1 else [])


def _volume_mounts(pool: Pool) -> list[dict[str, Any]]:
    made = [
        {"name": f"{VOLUME_PREFIX}config", "mountPath": CONFIG_DIRECTORY, "readOnly": True},
        {"name": f"{VOLUME_PREFIX}bindings", "mountPath": BINDINGS_DIRECTORY, "readOnly": True},
    ]
    if pool.locality.node_labels:
        made.append({"name": f"{VOLUME_PREFIX}pod", "mountPath": POD_DIRECTORY, "readOnly": True})
    made += [mount.mount() for mount in mounts(pool)]
    return made + [dict(mount) for mount in pool.pod_template.volume_mounts]
