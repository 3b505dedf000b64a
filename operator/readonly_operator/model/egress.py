"""Egress rules of a pool's NetworkPolicy: servers that brokers connect to."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from readonly_operator.api.metadata_store import StoreUrl
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.kube.names import PORT_HTTP, PORT_PULSAR, PORT_PULSAR_TLS
from readonly_operator.kube.workers import worker_ports

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from readonly_operator.api.pool import Pool
    from readonly_operator.api.pool.egress import Egress, Servers

DNS_PORT = 53
BOOKIE_PORT = 3181
"""BookKeeper's default (bookiePort)."""
_DEFAULT_PORTS = {"pulsar": 6650, "pulsar+ssl": 6651, "http": 80, "https": 443}


def egress_rules(pool: Pool, egress: Egress, workers: int) -> list[dict[str, Any]]:
    """Return the egress rules. Ports are numbers: not every network plug-in knows names of ports in egress rules.

    Args:
        pool: the pool.
        egress: servers of the spec.
        workers: the most worker processes of a broker.
    """
    source = pool.source
    own = {"pulsar": PORT_PULSAR, "http": PORT_HTTP} | ({"pulsar-tls": PORT_PULSAR_TLS} if pool.listeners.tls else {})
    brokers = {port for url in (source.service_url, source.admin_url) for port in _url_ports(url)}
    stores = {_port(host) for _, url in source.metadata_stores for host in StoreUrl.parse(url).hosts}
    return [
        _allowed(egress.dns.ports or (DNS_PORT,), egress.dns.to, ("UDP", "TCP")),
        _allowed(sorted(worker_ports(own, workers).values()), [{"podSelector": {"matchLabels": pool.key.selector()}}]),
        _allowed(egress.brokers.ports or sorted(brokers), egress.brokers.to),
        _allowed(egress.metadata_store.ports or sorted(stores), egress.metadata_store.to),
        _allowed(egress.bookies.ports or (BOOKIE_PORT,), egress.bookies.to),
        *_authorization_servers(pool, egress.authorization_servers),
        _allowed(egress.object_stores.ports or _object_store_ports(pool), egress.object_stores.to),
        *(_allowed(other.ports, other.to) for other in egress.additional),
    ]


def _authorization_servers(pool: Pool, servers: Servers) -> list[dict[str, Any]]:
    authentication = pool.source.authentication
    if authentication is None or authentication.oauth2 is None:
        return []
    return [_allowed(servers.ports or _url_ports(authentication.oauth2.issuer_url), servers.to)]


def _object_store_ports(pool: Pool) -> list[int]:
    """Return the port of the object store.

    Raises:
        ApiSpecError: the endpoint has none; its pattern lets more through than it should.
    """
    endpoint = "" if pool.tiered_storage is None else pool.tiered_storage.endpoint
    with contextlib.suppress(ValueError):
        parts = urlsplit(endpoint or "https://store")
        if parts.port != 0:
            return [parts.port or _DEFAULT_PORTS[parts.scheme]]
    raise ApiSpecError(
        f"spec.tieredStorage.endpoint must be http://HOST:PORT or https://HOST with a port from 1 to 65535, not {endpoint!r}"
    )


def _url_ports(url: str) -> list[int]:
    """Return the ports of a URL with one or several hosts."""
    parts = urlsplit(url)
    return [_port(host, _DEFAULT_PORTS[parts.scheme]) for host in parts.netloc.split(",")]


def _port(host: str, default: int = 0) -> int:
    """Return the port of HOST or HOST:PORT."""
    _, _, port = host.rpartition(":")
    return int(port) if port.isdecimal() and port != host else default


def _allowed(
    ports: Iterable[int], peers: Iterable[Mapping[str, Any]], protocols: Iterable[str] = ("TCP",)
) -> dict[str, Any]:
    """Return an egress rule; no peers means everywhere."""
    protocols, to = tuple(protocols), [dict(peer) for peer in peers]
    return {
        "ports": [{"port": port, "protocol": protocol} for port in ports for protocol in protocols],
        **({"to": to} if to else {}),
    }
