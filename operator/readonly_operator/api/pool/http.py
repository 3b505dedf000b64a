"""ReadOnlyBrokerPool: spec.http, the brokers' port for health, metrics and status pages."""

from __future__ import annotations

from dataclasses import dataclass, field

from readonly_operator.api.schema import Flag, Nested, Rule, declare
from readonly_operator.api.secrets import SecretKey

RULES = (
    Rule(
        "!has(self.http) || !has(self.http.tls) || !self.http.tls || (has(self.listeners) && has(self.listeners.tls)"
        " && has(self.listeners.tls.peerTrustCertificates))",
        "needs the certificate of listeners.tls, and listeners.tls.peerTrustCertificates, by which the operator and Prometheus "
        "verify it",
        ".http.tls",
    ),
)
"""Rules of the spec: the port has the certificate of the listeners."""


@dataclass(frozen=True, slots=True)
class Http:
    """The brokers' HTTP port.

    Attributes:
        tls: whether it has TLS.
        token_secret_ref: None if no path needs a token.
        exposed: whether clients outside the Kubernetes cluster reach it.
    """

    RULES = (
        Rule(
            "!has(self.tokenSecretRef) || (has(self.tls) && self.tls)",
            "needs tls: true, or others read the token on its way",
            ".tokenSecretRef",
        ),
        Rule(
            "!has(self.exposed) || !self.exposed || (has(self.tls) && self.tls && has(self.tokenSecretRef))",
            "needs tls: true and tokenSecretRef: without them, anyone outside the Kubernetes cluster could read topics and "
            "subscriptions",
            ".exposed",
        ),
    )

    tls: bool = field(
        default=False,
        metadata=declare(
            Flag(),
            "Whether the port has TLS, with the certificate of listeners.tls. Operator, Prometheus and the pool's brokers verify "
            "it by listeners.tls.peerTrustCertificates; the kubelet's probes do not.",
        ),
    )
    token_secret_ref: SecretKey | None = field(
        default=None,
        metadata=declare(
            Nested(SecretKey),
            "Token that all paths need but /healthz and /readyz. Brokers use a changed token without a restart. The operator "
            "must be allowed to read the Secret. Without it, no path needs a token.",
        ),
    )
    exposed: bool = field(
        default=False,
        metadata=declare(
            Flag(),
            "Whether the Service NAME has the port also if its type is NodePort or LoadBalancer. Without it, the port has no "
            "address outside the Kubernetes cluster.",
        ),
    )
