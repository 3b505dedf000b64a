"""ReadOnlyBrokerPool: listeners.external, names and Services of brokers for clients outside of the Kubernetes cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from readonly_operator.api.kubernetes import ANY_TEXT
from readonly_operator.api.pool.metadata import LABELS
from readonly_operator.api.pool.node_ports import NodePorts
from readonly_operator.api.schema import Choice, ListOf, MapOf, Nested, Rule, Text, declare

if TYPE_CHECKING:
    from collections.abc import Mapping

CIDR = Text(43, r"[0-9A-Fa-f.:]+/[0-9]{1,3}", "must be a network, for example 10.0.0.0/8")
TRAFFIC_POLICY = Choice(("Cluster", "Local"))
BROKER = "{broker}"
"""Placeholder of the broker's name in a host name or an annotation."""
NODE = "{node}"
"""Placeholder of the name of the broker's node in a host name."""


@dataclass(frozen=True, slots=True)
class External:
    """Addresses and Services of single brokers, for clients outside the Kubernetes cluster.

    Attributes:
        type: type of each broker's Service.
        host: with BROKER or NODE in it; empty for the address of the broker's node.
        node_ports: None for type LoadBalancer.
        labels: of each broker's Service, besides the operator's.
        annotations: of each broker's Service; BROKER is replaced by its name.
        load_balancer_class: empty for the Kubernetes cluster's default.
        load_balancer_source_ranges: networks of clients; empty for all.
        external_traffic_policy: Cluster or Local; empty for Kubernetes' default, or Local where clients use a node's own address.
    """

    RULES = (
        Rule(
            "has(self.host) || (has(self.type) && self.type == 'NodePort')",
            "give the host name of a broker, for example {broker}.pulsar.example.com",
            ".host",
            "FieldValueRequired",
        ),
        Rule(
            "!has(self.host) || !self.host.contains('{node}') || (has(self.type) && self.type == 'NodePort')",
            "may have {node} in it with type NodePort only",
            ".host",
        ),
        Rule(
            "!has(self.type) || self.type != 'NodePort' || has(self.nodePorts)",
            "give the first node port of the brokers, for example nodePorts: {first: 30000}",
            ".nodePorts",
            "FieldValueRequired",
        ),
        Rule(
            "!has(self.nodePorts) || (has(self.type) && self.type == 'NodePort')",
            "is for type NodePort only",
            ".nodePorts",
        ),
        Rule(
            "!has(self.loadBalancerClass) || !has(self.type) || self.type == 'LoadBalancer'",
            "is for type LoadBalancer only",
            ".loadBalancerClass",
        ),
        Rule(
            "!has(self.loadBalancerSourceRanges) || !has(self.type) || self.type == 'LoadBalancer'",
            "is for type LoadBalancer only",
            ".loadBalancerSourceRanges",
        ),
        Rule(
            "!has(self.externalTrafficPolicy) || !has(self.type) || self.type == 'LoadBalancer'"
            " || (has(self.host) && self.host.contains('{broker}'))",
            "is for type LoadBalancer, or a host with {broker} in it: at the address of its own node, a broker is reached by "
            "that node only",
            ".externalTrafficPolicy",
        ),
    )

    type: str = field(
        default="LoadBalancer",
        metadata=declare(
            Choice(("LoadBalancer", "NodePort")),
            "Type of each broker's Service. NodePort needs nodePorts, and nodes that the clients reach.",
        ),
    )
    host: str = field(
        default="",
        metadata=declare(
            Text(
                253,
                r"[A-Za-z0-9.-]*\{(broker|node)\}[A-Za-z0-9.-]*",
                "must be a host name with {broker} or {node} in it, for example {broker}.pulsar.example.com",
            ),
            "Host name of a broker for clients outside the Kubernetes cluster. {broker} is replaced by its name (NAME-0, "
            "NAME-1 and "
            "so on), {node} by the name of its node. Required for type LoadBalancer. Without it, type NodePort uses the "
            "address of the broker's node that Kubernetes gives to pods (status.hostIP). Lookups return it to clients that "
            "use such a name, a Service of type NodePort or LoadBalancer, or the listener "
            "name external. Other clients get names in the Kubernetes cluster.",
        ),
    )
    node_ports: NodePorts | None = field(
        default=None, metadata=declare(Nested(NodePorts), "Node ports of the brokers, for type NodePort.")
    )
    labels: Mapping[str, str] = field(
        default_factory=dict, metadata=declare(LABELS, "Labels of each broker's Service, besides the operator's.")
    )
    annotations: Mapping[str, str] = field(
        default_factory=dict,
        metadata=declare(
            MapOf(ANY_TEXT, 64),
            "Annotations of each broker's Service. {broker} is replaced by its name, for example "
            "external-dns.alpha.kubernetes.io/hostname: {broker}.pulsar.example.com",
        ),
    )
    load_balancer_class: str = field(
        default="", metadata=declare(Text(253), "Load balancer class. Without it, the Kubernetes cluster's default.")
    )
    load_balancer_source_ranges: tuple[str, ...] = field(
        default=(), metadata=declare(ListOf(CIDR, 64), "Networks that may use the load balancers. Without it, all.")
    )
    external_traffic_policy: str = field(
        default="",
        metadata=declare(
            TRAFFIC_POLICY,
            "Nodes that pass traffic from outside on. Local: the broker's own, and the broker sees the client's address. Without "
            "it, Kubernetes' default (Cluster), or Local where clients use the address of the broker's node.",
        ),
    )

    @property
    def by_node_ports(self) -> bool:
        """Return whether clients reach each broker at a port of the nodes."""
        return self.type == "NodePort"

    @property
    def names_node(self) -> bool:
        """Return whether the address of a broker is that of its own node."""
        return self.by_node_ports and BROKER not in self.host
