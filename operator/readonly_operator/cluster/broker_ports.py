"""Access of the operator to the HTTP ports of brokers: addresses, tokens and TLS, from their pods."""

from __future__ import annotations

import ssl
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from readonly_operator.cluster.credentials import CACHE_TTL_SECONDS, KeyReader, strict_context
from readonly_operator.cluster.fetch import ANONYMOUS, Credentials
from readonly_operator.kube.http_ports import OPEN, PortAccess, http_ports, http_url, port_access

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_operator.kube.api_server import Kube
    from readonly_operator.kube.kinds import Manifest


class Endpoint(NamedTuple):
    """HTTP port of a broker's process.

    Attributes:
        url: its URL, without a slash at the end.
        credentials: for it.
    """

    url: str
    credentials: Credentials = ANONYMOUS


class BrokerPorts:
    """URLs of brokers' HTTP ports, and the credentials for them.

    A broker's certificate names its host of the headless Service, while requests go to the pod's address: DNS may not know the
    host yet.

    Args:
        kube: the API server.
        cluster_domain: DNS domain of the Kubernetes cluster.
        clock: seconds, monotonic.
    """

    def __init__(
        self, kube: Kube, cluster_domain: str = "cluster.local", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._keys = KeyReader(kube)
        self._domain = cluster_domain
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[tuple[str, PortAccess], tuple[float, Credentials]] = {}

    def urls(self, pod: Manifest) -> list[str]:
        """Return the URL of each process of a pod that has an address."""
        return [http_url(pod, port) for port in http_ports(pod)]

    def shared_url(self, pod: Manifest) -> str:
        """Return the URL of all processes of a pod together."""
        return http_url(pod)

    def credentials(self, pod: Manifest) -> Credentials:
        """Return the credentials for the ports of a pod.

        Raises:
            FetchError: a Secret or ConfigMap cannot be read, or lacks a valid value.
        """
        access = port_access(pod)
        if access == OPEN:
            return ANONYMOUS
        metadata, spec = pod["metadata"], pod["spec"]
        namespace = metadata["namespace"]
        host = f"{metadata['name']}.{spec.get('subdomain') or ''}.{namespace}.svc.{self._domain}"
        return replace(self._of(namespace, access), server_name=host)

    def _of(self, namespace: str, access: PortAccess) -> Credentials:
        now = self._clock()
        with self._lock:
            self._known = {one: known for one, known in self._known.items() if now < known[0]}
            if (namespace, access) in self._known:
                return self._known[namespace, access][1]
        made = self._read(namespace, access)
        with self._lock:
            self._known[namespace, access] = now + CACHE_TTL_SECONDS, made
        return made

    def _read(self, namespace: str, access: PortAccess) -> Credentials:
        token = "" if access.token is None or not access.tls else self._keys.token(namespace, access.token)
        context = None
        if access.tls:
            context = ssl.create_default_context() if access.trust is None else strict_context()
            if access.trust is not None:
                self._keys.trust(context, namespace, access.trust)
        return Credentials(token, context, namespace)
