"""Optional objects around a pool's brokers: disruption budget, network policy, PodMonitor."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from readonly_operator.kube.kinds import DISRUPTION_BUDGET, NETWORK_POLICY, POD_MONITOR, Manifest
from readonly_operator.kube.names import LABEL_NAME, LABEL_NAMESPACE, LABEL_POOL, OPERATOR
from readonly_operator.kube.workers import worker_ports
from readonly_operator.model.egress import egress_rules
from readonly_operator.model.external import client_ports, external_ports
from readonly_operator.model.metadata import add, start

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from readonly_operator.api.pool import Pool
    from readonly_operator.settings import Settings


def disruption_budget(pool: Pool) -> list[Manifest]:
    """Return the PodDisruptionBudget: how many brokers a node drain may evict at a time."""
    budget = pool.disruption_budget
    if not budget.enabled:
        return []
    manifest = start(DISRUPTION_BUDGET, pool.key.name, pool)
    if budget.min_available is not None:
        limit = {"minAvailable": budget.min_available}
    else:
        limit = {"maxUnavailable": 1 if budget.max_unavailable is None else budget.max_unavailable}
    # a broker that is not ready serves no client: it must not block a node drain
    manifest["spec"] = {
        **limit,
        "selector": {"matchLabels": pool.key.selector()},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return [manifest]


def network_policy(pool: Pool, settings: Settings, workers: int = 1) -> list[Manifest]:
    """Return the NetworkPolicy: clients to their ports, brokers to each other, the operator and monitoring to HTTP.

    With `egress` it also names the servers that brokers may connect to.

    The operator is known by its namespace and its label: anybody may put the label on a pod of another namespace. Outside of a
    pod it has neither, and no rule.

    Args:
        pool: the pool.
        settings: settings of the operator.
        workers: the most worker processes of a broker.
    """
    policy = pool.network_policy
    if policy is None:
        return []
    manifest = start(NETWORK_POLICY, pool.key.name, pool)
    watchers = [*_operator(settings), *policy.monitoring] if policy.monitoring else []
    manifest["spec"] = {
        "podSelector": {"matchLabels": pool.key.selector()},
        "policyTypes": ["Ingress"],
        "ingress": [
            _allowed([*client_ports(pool), *external_ports(pool)], policy.clients, workers),
            _allowed(
                ["pulsar", *(["pulsar-tls"] if pool.listeners.tls else []), "http"],
                [{"podSelector": {"matchLabels": pool.key.selector()}}],
                workers,
            ),
            _allowed(["http"], watchers, workers),
        ],
    }
    if policy.egress is not None:
        manifest["spec"]["policyTypes"].append("Egress")
        manifest["spec"]["egress"] = egress_rules(pool, policy.egress, workers)
    return [manifest]


def _operator(settings: Settings) -> list[dict[str, Any]]:
    """Return the peer that is the operator; none where its namespace is unknown."""
    if not settings.own_namespace:
        return []
    return [
        {
            "namespaceSelector": {"matchLabels": {LABEL_NAMESPACE: settings.own_namespace}},
            "podSelector": {"matchLabels": {LABEL_NAME: OPERATOR}},
        }
    ]


def pod_monitor(pool: Pool, settings: Settings) -> list[Manifest]:
    """Return the PodMonitor of the Prometheus operator. The shared port has the metrics of all workers.

    It adds the label `pool`, by which dashboard and alerts tell pools of one namespace apart. `action` has the default of that
    kind's definition, which the API server would add.
    """
    wanted = pool.monitoring.pod_monitor
    if wanted is None:
        return []
    manifest = start(POD_MONITOR, pool.key.name, pool)
    add(manifest, pool, wanted.labels, {})
    label = f"__meta_kubernetes_pod_label_{re.sub('[^a-zA-Z0-9_]', '_', LABEL_POOL)}"
    endpoint = {
        "port": "http",
        "path": "/metrics",
        **_scrape_access(pool, settings),
        **({"interval": wanted.interval} if wanted.interval else {}),
        "relabelings": [{"action": "replace", "sourceLabels": [label], "targetLabel": "pool"}],
    }
    manifest["spec"] = {"selector": {"matchLabels": pool.key.selector()}, "podMetricsEndpoints": [endpoint]}
    return [manifest]


def _scrape_access(pool: Pool, settings: Settings) -> dict[str, Any]:
    """Return how Prometheus verifies the brokers' certificate, and its token.

    Prometheus connects to addresses of pods. The name to verify is that of the Service, which the certificate has, too.
    """
    tls, token = pool.listeners.tls, pool.http.token_secret_ref
    if not pool.http.tls or tls is None or tls.peer_trust_certificates is None:
        return {}
    trusted = tls.peer_trust_certificates
    kind, name = ("secret", trusted.secret_name) if trusted.secret_name else ("configMap", trusted.config_map_name)
    return {
        "scheme": "https",
        "tlsConfig": {
            "ca": {kind: {"name": name, "key": trusted.key}},
            "serverName": f"{pool.key.name}.{pool.key.namespace}.svc.{settings.cluster_domain}",
        },
        **(
            {}
            if token is None
            else {"authorization": {"type": "Bearer", "credentials": {"name": token.name, "key": token.key}}}
        ),
    }


def _allowed(ports: Sequence[str], peers: Sequence[Mapping[str, Any]], workers: int) -> dict[str, Any]:
    """Return an ingress rule; no peers means everybody."""
    names = worker_ports(dict.fromkeys(ports, 0), workers)
    return {
        "ports": [{"port": port, "protocol": "TCP"} for port in names],
        **({"from": [dict(peer) for peer in peers]} if peers else {}),
    }
