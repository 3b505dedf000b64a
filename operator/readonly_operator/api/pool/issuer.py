"""ReadOnlyBrokerPool: spec.listeners.tls.issuerRef, the issuer of certificates by cert-manager."""

from __future__ import annotations

from dataclasses import dataclass, field

from readonly_operator.api.schema import ListOf, Rule, Text, declare
from readonly_operator.api.values import OBJECT_NAME

CERT_MANAGER = "cert-manager.io"
"""API group of cert-manager's own issuers. External issuers have others."""

DNS_NAMES = ListOf(
    Text(
        253,
        r"(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+",
        "must be a DNS name in lower case, for example pulsar.example.com or *.example.com",
    ),
    32,
    unique=True,
)


@dataclass(frozen=True, slots=True)
class IssuerRef:
    """Reference to an issuer, as a Certificate of cert-manager has it.

    Attributes:
        name: of the issuer.
        kind: Issuer, of the pool's namespace, or ClusterIssuer; other kinds in other groups.
        group: API group of the issuer.
    """

    RULES = (
        Rule(
            "!has(self.kind) || self.kind == 'Issuer' || self.kind == 'ClusterIssuer' || "
            f"(has(self.group) && self.group != '{CERT_MANAGER}')",
            f"must be Issuer or ClusterIssuer in the group {CERT_MANAGER}",
            ".kind",
        ),
    )

    name: str = field(
        metadata=declare(OBJECT_NAME, "The issuer.", required="give the name of an Issuer or ClusterIssuer")
    )
    kind: str = field(
        default="Issuer",
        metadata=declare(
            Text(63, "[A-Z][A-Za-z0-9]*", "must be a kind, for example Issuer or ClusterIssuer"),
            "Issuer, of the pool's namespace, or ClusterIssuer; with another group a kind of that group.",
        ),
    )
    group: str = field(
        default=CERT_MANAGER, metadata=declare(OBJECT_NAME, "API group of the issuer; external issuers have their own.")
    )
