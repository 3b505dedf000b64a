"""The status and the endpoints of a stack."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from devstack.pulsar.spec import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devstack.pulsar.spec import PulsarSpec, Site

ALL_ON_LOOPBACK: Final[Mapping[str, Site]] = MappingProxyType({})
"""Sites by server: none has one of its own."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The endpoints of a stack.

    Attributes:
        metadata_store: as Pulsar writes it, `zk:HOST:PORT`.
        writer_url: the first broker, `pulsar://HOST:PORT`.
        admin_url: the first broker, `http://HOST:PORT`.
        brokers: all brokers' `pulsar://HOST:PORT`.
        admin_urls: all brokers' `http://HOST:PORT`.
        bookies: all bookies' HOST:PORT, which are their ids too.
        bookie_metrics: where each bookie shows its Prometheus metrics.
    """

    metadata_store: str
    writer_url: str
    admin_url: str
    brokers: tuple[str, ...]
    admin_urls: tuple[str, ...]
    bookies: tuple[str, ...]
    bookie_metrics: tuple[str, ...]

    @classmethod
    def of(cls, spec: PulsarSpec, sites: Mapping[str, Site] = ALL_ON_LOOPBACK) -> Endpoints:
        """The endpoints of a stack that is made as `spec` says.

        Args:
            spec: what the stack is made of.
            sites: where its servers run, by name; a server that is not named runs on loopback.
        """

        def host(server: str) -> str:
            return sites.get(server, LOOPBACK).host

        brokers = tuple(f"pulsar://{host(f'broker-{i}')}:{spec.broker_port(i)}" for i in range(spec.brokers))
        admin_urls = tuple(f"http://{host(f'broker-{i}')}:{spec.broker_http_port(i)}" for i in range(spec.brokers))
        return cls(
            metadata_store=f"zk:{host('zookeeper')}:{spec.zookeeper_port}",
            writer_url=brokers[0],
            admin_url=admin_urls[0],
            brokers=brokers,
            admin_urls=admin_urls,
            bookies=tuple(f"{host(f'bookie-{i}')}:{spec.bookie_port(i)}" for i in range(spec.bookies)),
            bookie_metrics=tuple(
                f"http://{host(f'bookie-{i}')}:{spec.bookie_metrics_port(i)}/metrics" for i in range(spec.bookies)
            ),
        )


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The status of one server.

    Attributes:
        name: `zookeeper`, `bookie-0`, `broker-1`.
        pid: its process id, None when it is not running.
        port: its main port.
        answers: whether that port accepts connections.
        resident_mib: resident memory in MiB.
        log: where its output goes.
    """

    name: str
    pid: int | None
    port: int
    answers: bool
    resident_mib: int
    log: str


@dataclass(frozen=True, slots=True)
class StackStatus:
    """The status of the stack; `healthy` if every server runs and answers."""

    name: str
    version: str
    state: str
    healthy: bool
    endpoints: Endpoints
    servers: tuple[ServerStatus, ...]
