"""The HorizontalPodAutoscaler of a pool, and the metrics by which it decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from readonly_operator.api.pool.sleeping import Phase
from readonly_operator.kube.kinds import AUTOSCALER, POOL, Manifest
from readonly_operator.model.metadata import start
from readonly_operator.model.quantities import canonical

if TYPE_CHECKING:
    from readonly_operator.api.pool import Pool
    from readonly_operator.api.pool.placement import Autoscaling

DELIVERED_BYTES = "pulsar_readonly_dispatched_bytes_per_second"
CONNECTIONS = "pulsar_readonly_connections"
"""Names in custom.metrics.k8s.io: the brokers' own; the rate of a counter loses `_total`, as in the Prometheus Adapter."""


def autoscaler(pool: Pool) -> list[Manifest]:
    """Return the HorizontalPodAutoscaler. It scales the pool, not the StatefulSet: one field holds the replicas.

    A pool that is not awake has none: it could only report missing metrics.
    """
    scaling = pool.autoscaling
    if scaling is None or pool.phase is not Phase.AWAKE:
        return []
    manifest = start(AUTOSCALER, pool.key.name, pool)
    manifest["spec"] = {
        "scaleTargetRef": {"apiVersion": POOL.api_version, "kind": POOL.kind, "name": pool.key.name},
        "minReplicas": scaling.min_replicas,
        "maxReplicas": scaling.max_replicas,
        "metrics": _metrics(scaling),
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": scaling.scale_down_stabilization_seconds}},
    }
    return [manifest]


def _metrics(scaling: Autoscaling) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    if scaling.cpu_target is not None:
        target = {"type": "Utilization", "averageUtilization": scaling.cpu_target}
        made.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    if scaling.target_delivered_bytes_per_second:
        made.append(_of_pods(DELIVERED_BYTES, scaling.target_delivered_bytes_per_second))
    if scaling.target_connections:
        made.append(_of_pods(CONNECTIONS, scaling.target_connections))
    return made


def _of_pods(name: str, average: int | str) -> dict[str, Any]:
    """Return a metric whose mean over the brokers is compared with a target."""
    target = {"type": "AverageValue", "averageValue": canonical(average)}
    return {"type": "Pods", "pods": {"metric": {"name": name}, "target": target}}
