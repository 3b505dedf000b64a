"""Condition of a certificate that cert-manager issues for a pool's listeners, and the wait of brokers for it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from readonly_operator.assembly.rollouts import is_outdated
from readonly_operator.kube.kinds import CERTIFICATE, POD, STATEFUL_SET, Manifest, kind_of
from readonly_operator.kube.pods import is_running, secrets_of
from readonly_operator.kube.status import Condition, ConditionStatus
from readonly_operator.model.certificate import certificate_name, issued_secret

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_operator.api.pool import Pool
    from readonly_operator.kube.kinds import Kind
    from readonly_operator.kube.store import Store

TYPE = "CertificateIssued"


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """State of the certificate.

    Attributes:
        condition: CertificateIssued; None for a pool without an issuer.
        is_there: whether cert-manager reports that its Secret has it. Without an issuer nothing is awaited.
    """

    condition: Condition | None = None
    is_there: bool = True

    @classmethod
    def of(cls, store: Store, pool: Pool) -> IssuedCertificate:
        """Return the state for a pool, after its objects were applied."""
        tls = pool.listeners.tls
        if tls is None or tls.issuer_ref is None:
            return cls()
        name, secret = certificate_name(pool), issued_secret(pool, tls)
        if not store.serves(CERTIFICATE):
            message = (
                f"the Kubernetes cluster does not serve Certificate of {CERTIFICATE.api_version}: install cert-manager, or name "
                f"a Secret in spec.listeners.tls.certificate; new brokers wait for the Secret {secret}"
            )
            return cls(Condition(TYPE, ConditionStatus.FALSE, "CertManagerNotFound", message), is_there=False)
        found = store.get(CERTIFICATE, pool.key.namespace, name) or {}
        if (found.get("spec") or {}).get("secretName") != secret:
            found = {}  # it is about to be changed: its status is about another Secret
        status = found.get("status") or {}
        conditions = {one.get("type"): one for one in status.get("conditions") or ()}
        ready = conditions.get("Ready") or {}
        # a status of an older spec is about other names, or about another Secret
        current = ready.get("observedGeneration", 0) in {0, found.get("metadata", {}).get("generation", 0)}
        if ready.get("status") == "True" and current:
            return cls(Condition(TYPE, ConditionStatus.TRUE, "Issued", f"Certificate {name} is in Secret {secret}"))
        words = (current and ready.get("message")) or "cert-manager has not answered yet"
        message = f"Certificate {name} for Secret {secret}: {words}"
        return cls(Condition(TYPE, ConditionStatus.FALSE, "NotIssued", message), is_there=False)


def waits_for_certificate(store: Store, pool: Pool, stateful_set: Manifest) -> bool:
    """Return whether brokers keep their former pod template until the certificate is issued: a new pod could not start.

    Args:
        store: the known objects.
        pool: the pool.
        stateful_set: its desired StatefulSet.
    """
    tls = pool.listeners.tls
    if tls is None or pool.update_strategy.type == "OnDelete" or IssuedCertificate.of(store, pool).is_there:
        return False
    live = store.get(STATEFUL_SET, pool.key.namespace, pool.key.name)
    if live is None or not is_outdated(live, stateful_set) or not (live.get("status") or {}).get("replicas", 0):
        return False
    # a running broker proves that the Secret was written, and it stays while a renewal is not ready. The Certificate does not:
    # its revision may be of a Secret of another name
    secret = issued_secret(pool, tls)
    return not any(is_running(pod) and secret in secrets_of(pod) for pod in store.of_pool(POD, pool.key))


def waiting(pool: Pool) -> Condition:
    """Return UpdateHeld while brokers wait for the certificate."""
    return Condition(
        "UpdateHeld",
        ConditionStatus.TRUE,
        "WaitsForCertificate",
        f"brokers keep the former pod template until Certificate {certificate_name(pool)} is issued; the condition "
        f"{TYPE} has the reason",
    )


def prunable(known: Iterable[Manifest], *, replaced: bool) -> list[Manifest]:
    """Return the known objects that may be deleted: a Certificate only when no broker runs a former pod template.

    Args:
        known: objects of the pool.
        replaced: whether all brokers run the desired pod template.
    """
    kept: frozenset[Kind] = frozenset() if replaced else frozenset({CERTIFICATE})
    return [one for one in known if kind_of(one) not in kept]
