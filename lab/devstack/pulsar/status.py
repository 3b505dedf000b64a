"""The status and the endpoints of a stack."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from devstack.pulsar.secure_stores import StoreSecrets
from devstack.pulsar.spec import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devstack.pulsar.spec import PulsarSpec, Site

ALL_ON_LOOPBACK: Final[Mapping[str, Site]] = MappingProxyType({})
"""Sites by server: empty, so all servers run on loopback."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The endpoints of a stack.

    Attributes:
        metadata_store: `zk:HOST:PORT` or `oxia://HOST:PORT/NAMESPACE`, Pulsar's forms.
        bookkeeper_metadata_store: the same of the bookies; empty if they have no store of their own.
        pool_store: the same for pools, which differs where ZooKeeper has TLS.
        pool_options: options by which a pool connects to the stores, other than their URL.
        writer_url: `pulsar://HOST:PORT` of the first broker.
        admin_url: `http://HOST:PORT` of the first broker.
        brokers: `pulsar://HOST:PORT` of all brokers.
        admin_urls: `http://HOST:PORT` of all brokers.
        bookies: HOST:PORT of all bookies, which are also their ids.
        bookie_metrics: URLs of the bookies' Prometheus metrics.
    """

    metadata_store: str
    bookkeeper_metadata_store: str
    writer_url: str
    admin_url: str
    brokers: tuple[str, ...]
    admin_urls: tuple[str, ...]
    bookies: tuple[str, ...]
    bookie_metrics: tuple[str, ...]
    pool_store: str
    pool_options: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec: PulsarSpec, sites: Mapping[str, Site] = ALL_ON_LOOPBACK) -> Endpoints:
        """Return the endpoints of a stack.

        Args:
            spec: specification of the stack.
            sites: sites of servers by name; other servers run on loopback.
        """

        def host(server: str) -> str:
            return sites.get(server, LOOPBACK).host

        brokers = tuple(f"pulsar://{host(f'broker-{i}')}:{spec.broker_port(i)}" for i in range(spec.brokers))
        admin_urls = tuple(f"http://{host(f'broker-{i}')}:{spec.broker_http_port(i)}" for i in range(spec.brokers))
        secure, store = spec.store_secrets, host(spec.metadata_server)
        return cls(
            pool_store=f"zk:{host('zookeeper')}:{spec.secure_port}" if secure else spec.metadata_store_url(store),
            pool_options=StoreSecrets(Path(secure)).options(bookie_login=spec.bookie_login) if secure else (),
            metadata_store=spec.metadata_store_url(store),
            bookkeeper_metadata_store=spec.bookkeeper_metadata_store_url(store) if spec.apart else "",
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
        pid: process id; None if the server does not run.
        port: main port.
        answers: whether the port accepts connections.
        resident_mib: resident memory, in MiB.
        log: path of its log.
    """

    name: str
    pid: int | None
    port: int
    answers: bool
    resident_mib: int
    log: str


@dataclass(frozen=True, slots=True)
class StackStatus:
    """The status of a stack, `healthy` if every server runs and answers."""

    name: str
    version: str
    state: str
    healthy: bool
    endpoints: Endpoints
    servers: tuple[ServerStatus, ...]
