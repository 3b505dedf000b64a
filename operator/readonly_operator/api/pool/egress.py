"""ReadOnlyBrokerPool: spec.networkPolicy.egress, servers that the brokers may connect to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from readonly_operator.api.kubernetes import PEER
from readonly_operator.api.schema import ListOf, Nested, Number, declare

if TYPE_CHECKING:
    from collections.abc import Mapping

_TO = ListOf(PEER, 16, 1)
_PORTS = ListOf(Number(1, 65535), 16, 1, unique=True)


@dataclass(frozen=True, slots=True)
class Servers:
    """Servers of one kind.

    Attributes:
        to: peers of a NetworkPolicy; empty for all.
        ports: of the servers; empty for the known ones.
    """

    to: tuple[Mapping[str, Any], ...] = field(
        default=(), metadata=declare(_TO, "Pods, or networks (ipBlock), of these servers. Without it, all.")
    )
    ports: tuple[int, ...] = field(
        default=(),
        metadata=declare(
            _PORTS, "Their ports: those of the pods, where a Service maps them. Without it, the known ones."
        ),
    )


@dataclass(frozen=True, slots=True)
class OtherServers:
    """Servers that the operator does not know.

    Attributes:
        ports: of the servers.
        to: peers of a NetworkPolicy; empty for all.
    """

    ports: tuple[int, ...] = field(
        metadata=declare(_PORTS, "Their TCP ports.", required="give the ports of these servers, for example [443]")
    )
    to: tuple[Mapping[str, Any], ...] = field(
        default=(), metadata=declare(_TO, "Pods, or networks (ipBlock), of these servers. Without it, all.")
    )


@dataclass(frozen=True, slots=True)
class Egress:
    """Servers that the brokers may connect to, besides each other.

    Attributes:
        dns: DNS servers.
        brokers: owner brokers, with their admin API.
        metadata_store: ZooKeeper or Oxia of the source cluster.
        bookies: its bookies.
        authorization_servers: OAuth 2.0 servers of the pool's own identity.
        object_stores: stores of offloaded ledgers.
        additional: any other servers.
    """

    dns: Servers = field(
        default=Servers(), metadata=declare(Nested(Servers), "DNS servers, by UDP and TCP. Known port: 53.")
    )
    brokers: Servers = field(
        default=Servers(),
        metadata=declare(
            Nested(Servers),
            "Owner brokers and their proxies. Known ports: those of source.serviceUrl and source.adminUrl. Lookups name single "
            "brokers, so all must be among them.",
        ),
    )
    metadata_store: Servers = field(
        default=Servers(),
        metadata=declare(
            Nested(Servers),
            "Servers of ZooKeeper or Oxia. Known ports: those of source.metadataStoreUrl and source.bookkeeperMetadataStoreUrl.",
        ),
    )
    bookies: Servers = field(
        default=Servers(), metadata=declare(Nested(Servers), "Bookies of the source cluster. Known port: 3181.")
    )
    authorization_servers: Servers = field(
        default=Servers(),
        metadata=declare(
            Nested(Servers),
            "OAuth 2.0 servers with the issuer and the token endpoint of source.authentication.oauth2. Known port: that of "
            "issuerUrl. Without oauth2, none are admitted.",
        ),
    )
    object_stores: Servers = field(
        default=Servers(),
        metadata=declare(
            Nested(Servers), "Stores of offloaded ledgers. Known port: that of tieredStorage.endpoint, else 443."
        ),
    )
    additional: tuple[OtherServers, ...] = field(
        default=(),
        metadata=declare(
            ListOf(Nested(OtherServers), 8),
            "Other servers, for example those that give pods credentials. Without it, none.",
        ),
    )
