"""Certificate of a pool's listeners, issued by cert-manager: the object, its Secret and its host names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_operator.api.pool.external import BROKER, NODE
from readonly_operator.api.secrets import Certificate
from readonly_operator.kube.kinds import CERTIFICATE, Manifest
from readonly_operator.model.metadata import start

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_operator.api.pool import Pool
    from readonly_operator.api.pool.listeners import ListenerTls
    from readonly_operator.settings import Settings

UID_LENGTH = 8
USAGES = ("digital signature", "key encipherment", "server auth", "client auth")
"""Brokers show the certificate to each other as clients, too."""


def certificate_name(pool: Pool) -> str:
    """Return the name of the Certificate."""
    return f"{pool.key.name}-listeners"


def issued_secret(pool: Pool, tls: ListenerTls) -> str:
    """Return the name of the Secret that cert-manager writes.

    The default has a part of the pool's uid: cert-manager overwrites an existing Secret, and the operator cannot see any.
    """
    return tls.secret_name or f"{certificate_name(pool)}-{pool.membership_uid[:UID_LENGTH]}"


def listener_certificate(pool: Pool, tls: ListenerTls) -> Certificate:
    """Return the certificate that brokers present to clients."""
    return tls.certificate or Certificate(issued_secret(pool, tls))


def certificates(pool: Pool, settings: Settings, brokers: Iterable[int]) -> list[Manifest]:
    """Return the Certificate; none without an issuer.

    Args:
        pool: the pool.
        settings: settings of the operator.
        brokers: existing ordinals besides the desired ones.
    """
    tls = pool.listeners.tls
    if tls is None or tls.issuer_ref is None:
        return []
    issuer = tls.issuer_ref
    manifest = start(CERTIFICATE, certificate_name(pool), pool)
    manifest["spec"] = {
        "secretName": issued_secret(pool, tls),
        "dnsNames": _dns_names(pool, tls, settings.cluster_domain, brokers),
        "usages": list(USAGES),
        "issuerRef": {"name": issuer.name, "kind": issuer.kind, "group": issuer.group},
    }
    return [manifest]


def _dns_names(pool: Pool, tls: ListenerTls, domain: str, brokers: Iterable[int]) -> list[str]:
    """Return the names of the client Service, of all brokers, and those that the spec adds; each once.

    Addresses of nodes, and names of nodes that no wildcard covers, are left to the spec.
    """
    key = pool.key
    inside = f"{key.namespace}.svc.{domain}"
    names = [f"{key.name}.{inside}", f"*.{key.headless_service}.{inside}"]
    external = pool.listeners.external
    if external is not None and external.host:
        host = external.host.lower()
        first, _, rest = host.partition(".")
        if rest and first in {BROKER, NODE}:
            names.append(f"*.{rest}")
        elif NODE not in host:  # a wildcard stands for a whole first label only, and nodes come and go
            most = pool.replicas if pool.autoscaling is None else max(pool.replicas, pool.autoscaling.max_replicas)
            names += [host.replace(BROKER, key.pod(ordinal)) for ordinal in sorted({*range(most), *brokers})]
    return list(dict.fromkeys([*names, *tls.dns_names]))
