"""ReadOnlyBrokerPool: metrics collection and network policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from readonly_operator.api.kubernetes import LABEL_VALUE, PEER
from readonly_operator.api.pool.egress import Egress
from readonly_operator.api.schema import ListOf, MapOf, Nested, Text, declare

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class PodMonitor:
    """PodMonitor for the Prometheus operator.

    Attributes:
        interval: between two scrapes, in Prometheus' format; empty for Prometheus' default.
        labels: by which a Prometheus selects it.
    """

    interval: str = field(
        default="",
        metadata=declare(
            Text(16, r"[1-9][0-9]*(ms|s|m|h)", "must be a duration, for example 30s"),
            "Scrape interval, for example 30s. Without it, Prometheus' default.",
        ),
    )
    labels: Mapping[str, str] = field(
        default_factory=dict,
        metadata=declare(MapOf(LABEL_VALUE, 32), "Labels by which your Prometheus selects its PodMonitors."),
    )


@dataclass(frozen=True, slots=True)
class Monitoring:
    """Collection of metrics and traces.

    Attributes:
        pod_monitor: None for no PodMonitor.
        otlp_endpoint: of traces; empty for none.
    """

    pod_monitor: PodMonitor | None = field(
        default=None,
        metadata=declare(
            Nested(PodMonitor),
            "A PodMonitor (monitoring.coreos.com/v1), if the Kubernetes cluster serves that kind. `podMonitor: {}` is enough. "
            "Without it, none.",
        ),
    )
    otlp_endpoint: str = field(
        default="",
        metadata=declare(
            Text(
                512,
                r"https?://[^\s/,@]+",
                "must be http://HOST:PORT or https://HOST:PORT without a path, for example http://collector.monitoring:4318",
            ),
            "OTLP receiver (HTTP) for traces of lookups, SUBSCRIBEs and slow reads. Without it, brokers make no traces.",
        ),
    )


@dataclass(frozen=True, slots=True)
class NetworkPolicy:
    """Peers that may connect to the brokers, and servers that the brokers may connect to.

    Attributes:
        clients: peers of a NetworkPolicy; empty for all.
        monitoring: peers that may read metrics; empty for all.
        egress: None for connections to anywhere.
    """

    clients: tuple[Mapping[str, Any], ...] = field(
        default=(),
        metadata=declare(ListOf(PEER, 32), "Peers that may connect as clients. Without it, all."),
    )
    monitoring: tuple[Mapping[str, Any], ...] = field(
        default=(),
        metadata=declare(
            ListOf(PEER, 32), "Peers that may read health and metrics, besides the operator. Without it, all."
        ),
    )
    egress: Egress | None = field(
        default=None,
        metadata=declare(
            Nested(Egress),
            "Servers that the brokers may connect to, besides each other. `egress: {}` admits the known ports of all hosts, and "
            "nothing else. Without it, brokers may connect to anything.",
        ),
    )
