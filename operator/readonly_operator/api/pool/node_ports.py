"""ReadOnlyBrokerPool: spec.listeners.external.nodePorts, fixed node ports of single brokers."""

from __future__ import annotations

from dataclasses import dataclass, field

from readonly_operator.api.schema import Number, Rule, declare

PORTS_PER_BROKER = 2
"""One without TLS and one with TLS, whether or not both are in use: turning TLS on moves no port."""
MAX_BROKERS_WITH_WORKERS = 50
"""Ports of worker 0 begin 100 above the first port (readonly_operator.kube.workers), so so many brokers fit below them."""


@dataclass(frozen=True, slots=True)
class NodePorts:
    """Node ports of the brokers.

    Attributes:
        first: node port of broker 0 without TLS.
    """

    first: int = field(
        metadata=declare(
            Number(1, 65535),
            "Node port of broker 0 for pulsar://; the next one is for pulsar+ssl://. Broker N has FIRST + 2N and FIRST + "
            "2N + 1. Worker W of a broker has its ports plus 100 * (W + 1). Choose a range that no other Service has, "
            "inside the Kubernetes cluster's range, by default 30000 to 32767.",
            required="give the first node port of the brokers, for example 30000",
        )
    )

    def port(self, ordinal: int, *, tls: bool) -> int:
        """Return the node port of a broker, shared by its workers."""
        return self.first + PORTS_PER_BROKER * ordinal + tls


_NODE_PORTS = "!has(self.listeners) || !has(self.listeners.external) || !has(self.listeners.external.nodePorts) || "
_BROKERS = (
    "(has(self.autoscaling) && self.autoscaling.maxReplicas > self.replicas"
    " ? self.autoscaling.maxReplicas : self.replicas)"
)
_WORKERS = "(has(self.workers) && self.workers > 1)"
RULES = (
    Rule(
        f"{_NODE_PORTS}self.listeners.external.nodePorts.first + {PORTS_PER_BROKER} * {_BROKERS} + "
        f"({_WORKERS} ? 100 * self.workers : 0) <= 65536",
        "must leave room up to 65535 for two ports of each broker, and for those of its workers",
        ".listeners.external.nodePorts",
    ),
    Rule(
        f"{_NODE_PORTS}!{_WORKERS} || {_BROKERS} <= {MAX_BROKERS_WITH_WORKERS}",
        f"is for at most {MAX_BROKERS_WITH_WORKERS} brokers when workers is given, because the ports of worker 0 begin 100 above",
        ".listeners.external.nodePorts",
    ),
)
"""Rules of the spec: the number of brokers and of workers decides how many ports there are."""
