"""The ServiceAccount and the two Services of a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from readonly_operator.desired.metadata import start
from readonly_operator.kinds import SERVICE, SERVICE_ACCOUNT, Manifest
from readonly_operator.names import PORT_HTTP, PORT_PULSAR

if TYPE_CHECKING:
    from readonly_operator.api.pool import Pool


def service_account(pool: Pool) -> Manifest:
    """ServiceAccount of the brokers; they never talk to Kubernetes, so it has no token."""
    manifest = start(SERVICE_ACCOUNT, pool.key.name, pool)
    manifest["automountServiceAccountToken"] = False
    return manifest


def headless_service(pool: Pool) -> Manifest:
    """Service that gives each broker its own DNS name, also before it is ready: lookups name brokers by it."""
    manifest = start(SERVICE, pool.key.headless_service, pool)
    manifest["spec"] = {
        "type": "ClusterIP",
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": pool.key.selector(),
        "ports": _ports(),
    }
    return manifest


def client_service(pool: Pool) -> Manifest:
    """Service that clients name in their service URL: any broker that is ready."""
    manifest = start(SERVICE, pool.key.name, pool)
    manifest["spec"] = {"type": "ClusterIP", "selector": pool.key.selector(), "ports": _ports()}
    return manifest


def _ports() -> list[dict[str, Any]]:
    return [
        {"name": name, "port": port, "targetPort": name, "protocol": "TCP"}
        for name, port in (("pulsar", PORT_PULSAR), ("http", PORT_HTTP))
    ]
