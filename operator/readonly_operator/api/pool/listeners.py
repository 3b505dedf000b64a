"""ReadOnlyBrokerPool: listeners, Services, and answers to lookups of topics without a binding."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from readonly_operator.api.kubernetes import ANY_TEXT
from readonly_operator.api.pool.external import CIDR, TRAFFIC_POLICY, External
from readonly_operator.api.pool.issuer import DNS_NAMES, IssuerRef
from readonly_operator.api.pool.metadata import LABELS
from readonly_operator.api.schema import Choice, ListOf, MapOf, Nested, Number, Rule, Text, declare
from readonly_operator.api.secrets import Certificate, TrustedCertificates
from readonly_operator.api.values import OBJECT_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class ListenerTls:
    """TLS towards clients.

    Attributes:
        certificate: the brokers' certificate; None with an issuer.
        issuer_ref: issuer of the brokers' certificate; None with a certificate.
        secret_name: Secret for the issued certificate; empty for a name of the operator's.
        dns_names: further names in the issued certificate.
        trust_certificates: authorities of clients' certificates; None when clients show none.
        peer_trust_certificates: authorities of the brokers' certificates; None when brokers use no TLS among themselves.
    """

    RULES = (
        Rule("has(self.certificate) != has(self.issuerRef)", "must have either certificate or issuerRef, and not both"),
        Rule(
            "has(self.issuerRef) || !(has(self.secretName) || has(self.dnsNames))",
            "secretName and dnsNames can be given only with issuerRef",
        ),
    )

    certificate: Certificate | None = field(
        default=None,
        metadata=declare(
            Nested(Certificate),
            "Certificate of the brokers. It must name the hosts that clients use: NAME.NAMESPACE.svc.cluster.local, "
            "*.NAME-headless.NAMESPACE.svc.cluster.local, and those of listeners.external. Brokers use a renewed certificate "
            "without a restart. Without it, issuerRef is given.",
        ),
    )
    issuer_ref: IssuerRef | None = field(
        default=None,
        metadata=declare(
            Nested(IssuerRef),
            "Issuer of cert-manager. The operator creates a Certificate with all names of the brokers, and brokers use its "
            "Secret. Without it, certificate is given.",
        ),
    )
    secret_name: str = field(
        default="",
        metadata=declare(
            OBJECT_NAME,
            "Secret that cert-manager writes, with issuerRef. An existing one is overwritten. The operator's admission policies "
            "demand that it begins with NAME-listeners. Without it, NAME-listeners- and a part of the pool's uid.",
        ),
    )
    dns_names: tuple[str, ...] = field(
        default=(),
        metadata=declare(
            DNS_NAMES, "Further names in the certificate, with issuerRef, for example that of the load balancer."
        ),
    )
    trust_certificates: TrustedCertificates | None = field(
        default=None,
        metadata=declare(
            Nested(TrustedCertificates),
            "Authorities of clients' certificates. With them, a client must have a certificate; without, it needs none.",
        ),
    )
    peer_trust_certificates: TrustedCertificates | None = field(
        default=None,
        metadata=declare(
            Nested(TrustedCertificates),
            "Authorities of the certificate above, for TLS among the pool's brokers. Without it, brokers use no TLS "
            "among themselves.",
        ),
    )


@dataclass(frozen=True, slots=True)
class ClientService:
    """Service that clients name in their service URL.

    Attributes:
        type: type of the Service.
        labels: of the Service, besides the operator's.
        annotations: of the Service.
        load_balancer_class: empty for the Kubernetes cluster's default.
        load_balancer_source_ranges: networks of clients; empty for all.
        pulsar_node_port: 0 for any free one.
        pulsar_tls_node_port: 0 for any free one.
        external_traffic_policy: Cluster or Local; empty for Kubernetes' default.
        traffic_distribution: preference for near brokers; empty for none.
    """

    RULES = (
        Rule(
            "!has(self.loadBalancerClass) || (has(self.type) && self.type == 'LoadBalancer')",
            "is for type LoadBalancer only",
            ".loadBalancerClass",
        ),
        Rule(
            "!has(self.loadBalancerSourceRanges) || (has(self.type) && self.type == 'LoadBalancer')",
            "is for type LoadBalancer only",
            ".loadBalancerSourceRanges",
        ),
        Rule(
            "!(has(self.pulsarNodePort) || has(self.pulsarTlsNodePort)) || (has(self.type) && self.type != 'ClusterIP')",
            "pulsarNodePort and pulsarTlsNodePort are for types NodePort and LoadBalancer only",
        ),
        Rule(
            "!has(self.externalTrafficPolicy) || (has(self.type) && self.type != 'ClusterIP')",
            "is for types NodePort and LoadBalancer only",
            ".externalTrafficPolicy",
        ),
    )

    type: str = field(
        default="ClusterIP",
        metadata=declare(
            Choice(("ClusterIP", "NodePort", "LoadBalancer")),
            "Type of the Service. Clients outside the Kubernetes cluster also need listeners.external, because lookups "
            "return single "
            "brokers. Lookups through a NodePort or LoadBalancer Service then return those names.",
        ),
    )
    labels: Mapping[str, str] = field(
        default_factory=dict, metadata=declare(LABELS, "Labels of the Service, besides the operator's.")
    )
    annotations: Mapping[str, str] = field(
        default_factory=dict,
        metadata=declare(MapOf(ANY_TEXT, 64), "Annotations of the Service, for example for its load balancer."),
    )
    load_balancer_class: str = field(
        default="",
        metadata=declare(Text(253), "Load balancer class. Without it, the Kubernetes cluster's default."),
    )
    load_balancer_source_ranges: tuple[str, ...] = field(
        default=(),
        metadata=declare(ListOf(CIDR, 64), "Networks that may use the load balancer. Without it, all."),
    )
    pulsar_node_port: int = field(
        default=0, metadata=declare(Number(1, 65535), "The node port of pulsar://. Without it, any that is free.")
    )
    pulsar_tls_node_port: int = field(
        default=0, metadata=declare(Number(1, 65535), "The node port of pulsar+ssl://. Without it, any that is free.")
    )
    external_traffic_policy: str = field(
        default="",
        metadata=declare(
            TRAFFIC_POLICY,
            "Nodes that pass traffic from outside on. Local: those with a ready broker, which then sees the client's address. "
            "Without it, Kubernetes' default (Cluster).",
        ),
    )
    traffic_distribution: str = field(
        default="",
        metadata=declare(
            Choice(("PreferSameZone", "PreferClose")),
            "Preference for brokers of a client's zone, as in the Service's own field trafficDistribution. Lookups then keep "
            "the client in its zone. PreferSameZone needs Kubernetes 1.34; PreferClose, its older name, 1.31. Without it, a "
            "client reaches any broker first.",
        ),
    )


@dataclass(frozen=True, slots=True)
class Listeners:
    """Listeners for clients.

    Attributes:
        plaintext: peers without TLS: Clients or BrokersOnly.
        tls: None for no TLS.
        service: Service that clients name.
        external: None when all clients are in the Kubernetes cluster.
        ip_family_policy: of all Services; empty for Kubernetes' default.
        ip_families: of all Services, the first one is of their main addresses; empty for those of the Kubernetes cluster.
    """

    RULES = (
        Rule(
            "!has(self.ipFamilies) || self.ipFamilies.size() < 2 || (has(self.ipFamilyPolicy) && "
            "self.ipFamilyPolicy != 'SingleStack')",
            "can have two families only with ipFamilyPolicy PreferDualStack or RequireDualStack",
            ".ipFamilies",
        ),
        Rule(
            "!has(self.plaintext) || self.plaintext != 'BrokersOnly' || has(self.tls)",
            "give the certificate for clients when plaintext is BrokersOnly, or nobody could connect",
            ".tls",
            "FieldValueRequired",
        ),
    )

    plaintext: str = field(
        default="Clients",
        metadata=declare(
            Choice(("Clients", "BrokersOnly")),
            "Peers that connect without TLS, at port 6650. BrokersOnly removes the port from the clients' Services; "
            "networkPolicy "
            "then blocks other peers. The pool's brokers use it among themselves.",
        ),
    )
    tls: ListenerTls | None = field(
        default=None,
        metadata=declare(
            Nested(ListenerTls), "TLS towards clients, at port 6651. Without it, clients connect without TLS."
        ),
    )
    service: ClientService = field(
        default_factory=ClientService,
        metadata=declare(Nested(ClientService), "The Service NAME for the clients' service URL."),
    )
    external: External | None = field(
        default=None,
        metadata=declare(
            Nested(External),
            "A load balancer or node port for each broker, for clients outside the Kubernetes cluster. Without it, brokers have "
            "names inside it only.",
        ),
    )
    ip_family_policy: str = field(
        default="",
        metadata=declare(
            Choice(("SingleStack", "PreferDualStack", "RequireDualStack")),
            "Whether all Services of the pool have one IP family or both, as in a Service. Brokers listen on all addresses of "
            "their pods. Without it, Kubernetes' default (SingleStack).",
        ),
    )
    ip_families: tuple[str, ...] = field(
        default=(),
        metadata=declare(
            ListOf(Choice(("IPv4", "IPv6")), 2, unique=True),
            "IP families of the Services, the main one first. The main one of an existing Service cannot change. Without it, "
            "those of the Kubernetes cluster.",
        ),
    )


@dataclass(frozen=True, slots=True)
class Lookup:
    """Answers to lookups of topics without a binding, and the pool's registration as a cluster.

    Attributes:
        unbound: Redirect, Proxy or Reject.
        cluster_name: name in the source cluster's metadata; empty for no registration.
    """

    unbound: str = field(
        default="Redirect",
        metadata=declare(
            Choice(("Redirect", "Proxy", "Reject")),
            "Redirect returns the owner broker. Proxy serves the topic through the pool, for clients that do not reach "
            "the owner brokers. Reject returns an error that names the pool.",
        ),
    )
    cluster_name: str = field(
        default="",
        metadata=declare(
            Text(
                128,
                "[-A-Za-z0-9_=:.]*[-A-Za-z0-9_=:][-A-Za-z0-9_=:.]*",  # not of dots alone: part of URLs
                "must be a name as Pulsar allows it for clusters, for example pulsar-readers",
            ),
            "Name of the pool as a cluster in the source cluster's metadata: pulsar-admin clusters list shows it with "
            "the pool's "
            "URL. The operator removes it with the pool; the deletion waits for that for at most two minutes. It takes a "
            "super-user "
            "when authorization is on. Without it, the pool is not registered.",
        ),
    )
