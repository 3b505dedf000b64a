"""The HTTP ports of a broker's pod, and the Secrets that a client of them needs. Pure.

A pod's own template is the source, not the pool's spec: while a change of spec.http rolls, pods differ from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from readonly_operator.kube.kinds import CONFIG_MAP, SECRET, Kind
from readonly_operator.kube.names import PORT_HTTP, VOLUME_PREFIX
from readonly_operator.kube.workers import worker_http_ports

if TYPE_CHECKING:
    from readonly_operator.kube.kinds import Manifest

HTTP_TOKEN: Final = "http-token"  # noqa: S105 - the name of a volume
PEER_TRUST: Final = "peer-tls-trust"
"""Volumes of a broker (model/files.py)."""

TOKEN_HEADER: Final = "X-Pulsar-Readonly-Token"  # noqa: S105 - the name of a header
"""Header with the token for clients behind the API server's proxy, which keeps Authorization for itself
(readonly_engine.http.access)."""


@dataclass(frozen=True, slots=True)
class KeyOf:
    """A key of a Secret or ConfigMap.

    Attributes:
        kind: SECRET or CONFIG_MAP.
        name: of the object.
        key: in it.
    """

    kind: Kind
    name: str
    key: str


@dataclass(frozen=True, slots=True)
class PortAccess:
    """Access to the HTTP ports of a pod.

    Attributes:
        tls: whether they have TLS.
        token: the token; None if no path needs one.
        trust: authorities of the certificate; None for those of the system.
    """

    tls: bool = False
    token: KeyOf | None = None
    trust: KeyOf | None = None


OPEN: Final = PortAccess()
"""Access without TLS and token."""


def http_ports(pod: Manifest) -> list[int]:
    """Return the HTTP port of each process of a pod, in their order."""
    return worker_http_ports(pod) or [PORT_HTTP]


def http_url(pod: Manifest, port: int = 0) -> str:
    """Return the URL of a port of a pod that has an address; without a port, that of all its processes together."""
    address = str(pod["status"]["podIP"])
    scheme = "https" if port_access(pod).tls else "http"
    return f"{scheme}://{f'[{address}]' if ':' in address else address}:{port or PORT_HTTP}"


def port_access(pod: Manifest) -> PortAccess:
    """Return the access to the HTTP ports of a pod: TLS if the kubelet probes them with it."""
    spec = pod.get("spec") or {}
    schemes = [
        ((one.get("readinessProbe") or {}).get("httpGet") or {}).get("scheme") for one in spec.get("containers") or ()
    ]
    volumes = {str(one.get("name")): one for one in spec.get("volumes") or ()}
    return PortAccess(
        "HTTPS" in schemes,
        _key_of(volumes.get(f"{VOLUME_PREFIX}{HTTP_TOKEN}")),
        _key_of(volumes.get(f"{VOLUME_PREFIX}{PEER_TRUST}")),
    )


def _key_of(volume: Manifest | None) -> KeyOf | None:
    if volume is None:
        return None
    kind, source = (SECRET, volume.get("secret")) if volume.get("secret") else (CONFIG_MAP, volume.get("configMap"))
    source = source or {}
    items = source.get("items") or ()
    name = source.get("secretName") or source.get("name")
    return KeyOf(kind, str(name), str(items[0]["key"])) if name and items else None
