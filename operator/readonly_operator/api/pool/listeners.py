"""ReadOnlyBrokerPool: where clients connect, and what they are told about topics that nobody bound."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from readonly_operator.api.kubernetes import ANY_TEXT
from readonly_operator.api.schema import Choice, ListOf, MapOf, Nested, Number, Rule, Text, declare
from readonly_operator.api.secrets import Certificate, TrustedCertificates

if TYPE_CHECKING:
    from collections.abc import Mapping

CIDR = Text(43, r"[0-9A-Fa-f.:]+/[0-9]{1,3}", "must be a network, for example 10.0.0.0/8")
BROKER = "{broker}"
"""In a host name or an annotation: stands for the broker's name."""


@dataclass(frozen=True, slots=True)
class ListenerTls:
    """TLS towards clients.

    Attributes:
        certificate: what clients are shown.
        client_authorities: of certificates that clients must show; None where they need show none.
        broker_authorities: of the certificates of the pool's brokers; None where they speak to each other without TLS.
    """

    certificate: Certificate = field(
        metadata=declare(
            Nested(Certificate),
            "What clients are shown. It must name the hosts that clients use: NAME.NAMESPACE.svc.cluster.local, "
            "*.NAME-headless.NAMESPACE.svc.cluster.local, and those of listeners.external. Renewed certificates are taken up "
            "without a restart.",
            required="say which Secret has the certificate, for example certificate: {secretName: demo-tls}",
        )
    )
    client_authorities: TrustedCertificates | None = field(
        default=None,
        metadata=declare(
            Nested(TrustedCertificates),
            "Authorities of clients' certificates; with them, a client must show one. Without it, clients show none.",
        ),
    )
    broker_authorities: TrustedCertificates | None = field(
        default=None,
        metadata=declare(
            Nested(TrustedCertificates),
            "Authorities of the certificate above: with them, brokers bring consumers of a Shared subscription to each other "
            "with TLS. Without it, they do so without TLS.",
        ),
    )


@dataclass(frozen=True, slots=True)
class ClientService:
    """The Service that clients name in their service URL.

    Attributes:
        type: as a Service's.
        annotations: of the Service.
        load_balancer_class: empty for the cluster's default.
        load_balancer_source_ranges: who may come; empty for everybody.
        pulsar_node_port: 0 for any that is free.
        pulsar_tls_node_port: 0 for any that is free.
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
    )

    type: str = field(
        default="ClusterIP",
        metadata=declare(
            Choice(("ClusterIP", "NodePort", "LoadBalancer")),
            "As a Service's. Clients outside the cluster also need listeners.external, for lookups send them to single brokers: "
            "then the clients of a NodePort or LoadBalancer Service are sent to those names.",
        ),
    )
    annotations: Mapping[str, str] = field(
        default_factory=dict,
        metadata=declare(MapOf(ANY_TEXT, 64), "Annotations of the Service, for example for its load balancer."),
    )
    load_balancer_class: str = field(
        default="",
        metadata=declare(Text(253), "Which kind of load balancer. Without it, the cluster's default."),
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


@dataclass(frozen=True, slots=True)
class External:
    """Names and load balancers of single brokers, for clients outside the cluster.

    Attributes:
        host: with BROKER in it.
        annotations: of each broker's Service; BROKER stands for its name.
        load_balancer_class: empty for the cluster's default.
        load_balancer_source_ranges: who may come; empty for everybody.
    """

    host: str = field(
        metadata=declare(
            Text(
                253,
                r"[A-Za-z0-9.-]*\{broker\}[A-Za-z0-9.-]*",
                "must be a host name with {broker} in it, for example {broker}.pulsar.example.com",
            ),
            "The host name under which clients reach a broker, where {broker} stands for its name (NAME-0, NAME-1 and so on). "
            "Sent there are clients that come by such a name, by a Service of type NodePort or LoadBalancer, or that have the "
            "listener name external; others in the cluster are sent to names in it.",
            required="give the host name of a broker, for example {broker}.pulsar.example.com",
        )
    )
    annotations: Mapping[str, str] = field(
        default_factory=dict,
        metadata=declare(
            MapOf(ANY_TEXT, 64),
            "Annotations of each broker's Service, where {broker} stands for its name, for example "
            "external-dns.alpha.kubernetes.io/hostname: {broker}.pulsar.example.com",
        ),
    )
    load_balancer_class: str = field(
        default="", metadata=declare(Text(253), "Which kind of load balancer. Without it, the cluster's default.")
    )
    load_balancer_source_ranges: tuple[str, ...] = field(
        default=(), metadata=declare(ListOf(CIDR, 64), "Networks that may use the load balancers. Without it, all.")
    )


@dataclass(frozen=True, slots=True)
class Listeners:
    """Where clients connect.

    Attributes:
        plaintext: who comes without TLS: Clients or BrokersOnly.
        tls: None for no TLS.
        service: what clients name.
        external: None where clients are in the cluster.
    """

    RULES = (
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
            "Who connects without TLS, at port 6650. BrokersOnly takes the port from the clients' Services; networkPolicy then "
            "keeps others away from it. The pool's brokers use it among themselves.",
        ),
    )
    tls: ListenerTls | None = field(
        default=None,
        metadata=declare(
            Nested(ListenerTls), "TLS towards clients, at port 6651. Without it, clients come without TLS."
        ),
    )
    service: ClientService = field(
        default_factory=ClientService,
        metadata=declare(Nested(ClientService), "The Service NAME, which clients have in their service URL."),
    )
    external: External | None = field(
        default=None,
        metadata=declare(
            Nested(External),
            "A load balancer for each broker, for clients outside the cluster. Without it, brokers have names inside it only.",
        ),
    )


@dataclass(frozen=True, slots=True)
class Lookup:
    """What clients are told about topics that no binding names, and whether the pool is a cluster of its own.

    Attributes:
        unbound: Redirect, Proxy or Reject.
        cluster_name: under which the pool is in the writable cluster's metadata; empty for not at all.
    """

    unbound: str = field(
        default="Redirect",
        metadata=declare(
            Choice(("Redirect", "Proxy", "Reject")),
            "Redirect sends the client to the writable broker that owns the topic. Proxy serves it through the pool, for "
            "clients that do not reach the writable brokers. Reject refuses, naming the pool.",
        ),
    )
    cluster_name: str = field(
        default="",
        metadata=declare(
            Text(
                128,
                "[-A-Za-z0-9_=:.]*[-A-Za-z0-9_=:][-A-Za-z0-9_=:.]*",  # not of dots alone, for it stands in URLs
                "must be a name as Pulsar allows it for clusters, for example pulsar-readers",
            ),
            "Name under which the pool is registered as a cluster in the writable cluster's metadata: pulsar-admin clusters list "
            "shows it with the pool's URL. It is removed with the pool, whose deletion waits for that for at most two minutes. "
            "The admin API must allow it, which takes a super-user where authorization is on. Without it, it is not registered.",
        ),
    )
