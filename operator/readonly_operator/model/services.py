"""ServiceAccount and Services of a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from readonly_operator.api.pool.external import BROKER
from readonly_operator.kube.kinds import SERVICE, SERVICE_ACCOUNT, Manifest
from readonly_operator.kube.names import PORT_HTTP, PORT_PULSAR, PORT_PULSAR_TLS
from readonly_operator.kube.workers import worker_ports
from readonly_operator.model.external import client_ports, node_ports
from readonly_operator.model.metadata import add, start

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from readonly_operator.api.pool import Pool

_PORTS = {"pulsar": PORT_PULSAR, "pulsar-tls": PORT_PULSAR_TLS, "http": PORT_HTTP}
_EXTERNAL = {"pulsar": "external", "pulsar-tls": "external-tls"}
"""Target ports of the Services for clients outside the Kubernetes cluster."""


def service_account(pool: Pool) -> Manifest:
    """Return the brokers' ServiceAccount. Brokers do not use the Kubernetes API, so it has no token."""
    manifest = start(SERVICE_ACCOUNT, pool.key.name, pool)
    wanted = pool.service_account_template.metadata
    add(manifest, pool, wanted.labels, wanted.annotations)
    manifest["automountServiceAccountToken"] = False
    return manifest


def headless_service(pool: Pool, workers: int = 1) -> Manifest:
    """Return the Service that gives each broker a DNS name, also before it is ready: lookups name brokers by it.

    Args:
        pool: the pool.
        workers: the most worker processes of a broker.
    """
    manifest = start(SERVICE, pool.key.headless_service, pool)
    manifest["spec"] = {
        "type": "ClusterIP",
        "clusterIP": "None",
        **_ip_families(pool),
        "publishNotReadyAddresses": True,
        "selector": pool.key.selector(),
        "ports": _ports(["pulsar", *(["pulsar-tls"] if pool.listeners.tls else []), "http"], workers=workers),
    }
    return manifest


def client_service(pool: Pool) -> Manifest:
    """Return the Service that clients name in their service URL: any worker of any ready broker.

    While the pool sleeps or wakes, it selects the waker, also when that is not ready: it then holds the clients.
    """
    wanted = pool.listeners.service
    inside = wanted.type == "ClusterIP"
    manifest = start(SERVICE, pool.key.name, pool)
    add(manifest, pool, wanted.labels, wanted.annotations)
    manifest["spec"] = {
        "type": wanted.type,
        **_ip_families(pool),
        **_external_traffic(wanted.external_traffic_policy),
        **({"publishNotReadyAddresses": True} if pool.phase.leads_to_waker else {}),
        "selector": pool.key.waker_selector() if pool.phase.leads_to_waker else pool.key.selector(),
        "ports": _ports(
            client_ports(pool) + (["http"] if inside or pool.http.exposed else []),
            {"pulsar": wanted.pulsar_node_port, "pulsar-tls": wanted.pulsar_tls_node_port},
            _EXTERNAL if pool.listeners.external is not None and not inside else {},
        ),
        **_load_balancer(wanted.load_balancer_class, wanted.load_balancer_source_ranges),
        **({"trafficDistribution": wanted.traffic_distribution} if wanted.traffic_distribution else {}),
    }
    return manifest


def broker_services(pool: Pool, brokers: Mapping[int, int]) -> list[Manifest]:
    """Return the Service of each broker, for clients outside the Kubernetes cluster; none when the spec asks for none.

    It is a load balancer, or has fixed node ports. Where clients use the node's own address, traffic stays on that node: it keeps
    the client's address, which limits need.

    Args:
        pool: the pool.
        brokers: worker processes of the existing brokers by ordinal: terminating brokers still redirect their clients.
    """
    external = pool.listeners.external
    if external is None:
        return []
    made = []
    for ordinal in sorted({*range(pool.replicas), *brokers}):
        broker = pool.key.pod(ordinal)
        manifest = start(SERVICE, pool.key.broker_service(ordinal), pool)
        add(
            manifest,
            pool,
            external.labels,
            {key: value.replace(BROKER, broker) for key, value in external.annotations.items()},
        )
        manifest["spec"] = {
            "type": external.type,
            **_ip_families(pool),
            **_external_traffic("Local" if external.names_node else external.external_traffic_policy),
            "publishNotReadyAddresses": True,
            "selector": {**pool.key.selector(), "statefulset.kubernetes.io/pod-name": broker},
            "ports": _ports(
                client_ports(pool), node_ports(pool, ordinal), _EXTERNAL, max(pool.workers, brokers.get(ordinal, 1))
            ),
            **_load_balancer(external.load_balancer_class, external.load_balancer_source_ranges),
        }
        made.append(manifest)
    return made


def _ip_families(pool: Pool) -> dict[str, Any]:
    """Return the IP families of a Service. All Services of a pool have the same ones: a lookup leads from one to another."""
    wanted = pool.listeners
    return {
        **({"ipFamilyPolicy": wanted.ip_family_policy} if wanted.ip_family_policy else {}),
        **({"ipFamilies": list(wanted.ip_families)} if wanted.ip_families else {}),
    }


def _external_traffic(policy: str) -> dict[str, str]:
    return {"externalTrafficPolicy": policy} if policy else {}


def _load_balancer(kind: str, sources: Sequence[str]) -> dict[str, Any]:
    return {
        **({"loadBalancerClass": kind} if kind else {}),
        **({"loadBalancerSourceRanges": list(sources)} if sources else {}),
    }


def _ports(
    names: Sequence[str],
    node_ports: Mapping[str, int] | None = None,
    targets: Mapping[str, str] | None = None,
    workers: int = 1,
) -> list[dict[str, Any]]:
    numbers = worker_ports({name: _PORTS[name] for name in names}, workers)
    fixed = worker_ports({name: port for name, port in (node_ports or {}).items() if port}, workers)
    ends = worker_ports({(targets or {}).get(name, name): _PORTS[name] for name in names}, workers)
    made = []
    for (name, number), target in zip(numbers.items(), ends, strict=True):
        port: dict[str, Any] = {"name": name, "port": number, "targetPort": target, "protocol": "TCP"}
        if name in fixed:
            port["nodePort"] = fixed[name]
        made.append(port)
    return made
