"""The specification of a Pulsar stack: name, version, size, ports and settings."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from devstack.cache import cache_root
from devstack.errors import DevstackError

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER_NAME: Final = "pulsar-readonly"
"""Name of the Pulsar cluster, in topic policies and metadata."""

HOST: Final = "127.0.0.1"
"""Address of all servers, unless a Site names another one."""

STOCK_VERSION: Final = "4.0.8"

DEFAULT_VERSION: Final = os.environ.get("PULSAR_READONLY_PULSAR") or STOCK_VERSION
"""The release that tests and benches run, `make test PULSAR=RELEASE`."""

ZOOKEEPER: Final = "zookeeper"
OXIA: Final = "oxia"
MIGRATION: Final = "migration"
"""Pulsar's metadata in ZooKeeper, and an empty Oxia beside it, which they can move to."""

METADATA_STORES: Final = (ZOOKEEPER, OXIA, MIGRATION)

BOOKIES_NAMESPACE: Final = "bookkeeper"
OXIA_NAMESPACE: Final = "broker"
"""Namespace of Pulsar's records, and of the bookies' unless the stack has another one for these."""

DEFAULT_METADATA: Final = os.environ.get("PULSAR_READONLY_METADATA") or ZOOKEEPER
"""The metadata store that tests and benches run on, `make test-integration METADATA=oxia`."""

DEFAULT_BASE_PORT: Final = 16650
PORT_SPAN: Final = 50
"""Number of ports of a stack: they are in [base_port, base_port + PORT_SPAN)."""

_MAX_OF_A_KIND: Final = 10
_MAX_METADATA_SERVERS: Final = 3
_MAX_BROKERS_OF_ENSEMBLE: Final = _MAX_OF_A_KIND - _MAX_METADATA_SERVERS
"""Limit of brokers with Oxia or several ZooKeepers, whose own ports follow those of the brokers."""
_BROKER_HTTP: Final = 10
_METADATA: Final = 20
_SECURE: Final = 9
"""Offset of ZooKeeper's port with TLS; those before are of brokers with TLS, and of Oxia."""
_BOOKIE: Final = 30
_BOOKIE_METRICS: Final = 40
_LOWEST_PORT: Final = 1024
_HIGHEST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Site:
    """The site of one server.

    Attributes:
        host: address of the server, for its listeners and for others.
        interface: network interface with this address.
        launcher: prefix of its command line, which must execute the command (exec), such as `nsenter --net=FILE`.
    """

    host: str = HOST
    interface: str = "lo"
    launcher: tuple[str, ...] = ()


LOOPBACK: Final = Site()


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of a server's own configuration file, set by `--set ROLE.KEY=VALUE`.

    Attributes:
        role: `broker` or `bookie`; `broker-1` for one broker; `broker-env` or `bookie-env` for an environment variable;
            `zookeeper` or `zookeeper-env`, which the option does not accept.
        key: key of broker.conf, bookkeeper.conf or zookeeper.conf, or name of the variable.
        value: value as text; may be empty.
    """

    role: str
    key: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Setting:
        """Parse `broker.KEY=VALUE`, `bookie.KEY=VALUE` or `broker-env.VARIABLE=VALUE` (`bookie-env` likewise).

        Raises:
            DevstackError: the text has another form.
        """
        match = re.fullmatch(r"(broker(?:-\d)?|bookie|broker-env|bookie-env)\.([A-Za-z_][\w.]*)=([^\r\n]*)", text)
        if match is None:
            raise DevstackError(
                f"--set {text}: not a setting",
                "give broker.KEY=VALUE (broker-1.KEY=VALUE for one of them), bookie.KEY=VALUE, broker-env.VARIABLE=VALUE or "
                "bookie-env.VARIABLE=VALUE, for example broker.managedLedgerMaxEntriesPerLedger=500",
            )
        return cls(*match.groups())

    def __str__(self) -> str:
        return f"{self.role}.{self.key}={self.value}"


@dataclass(frozen=True, slots=True)
class PulsarSpec:
    """One stack.

    Attributes:
        name: name of the stack and of its state folder.
        version: a Pulsar release with a pinned checksum.
        bookies: number of bookies, 1 to 10; write quorum and ack quorum are 2 (1 with a single bookie).
        brokers: number of brokers, 1 to 10.
        metadata: metadata store, one of METADATA_STORES.
        metadata_servers: number of the metadata store's servers, 1 to 3; of Oxia's beside ZooKeeper.
        apart: whether the bookies have a namespace of their own in Oxia, as by Pulsar's Helm chart.
        base_port: first of the PORT_SPAN ports of the stack.
        explicit_lac_ms: the brokers' bookkeeperExplicitLacIntervalInMills; 0 turns explicit LAC off.
        transactions: whether brokers run the transaction coordinator.
        quick: whether JVMs compile with C1 only, and servers write without fsync. A start takes half the CPU, but servers are
            slower under load, so it is not for measurements. Data survive a kill, but not a power failure.
        settings: further settings of the servers; for one key the last value wins.
        admin_token_file: file with the superuser's token, if the settings turn authentication on; otherwise empty.
        store_secrets: folder of the stores' secrets, if the settings secure ZooKeeper and bookies; otherwise empty.
        bookie_login: whether bookies then have logins, instead of TLS.
    """

    name: str = "default"
    version: str = DEFAULT_VERSION
    bookies: int = 3
    brokers: int = 2
    metadata: str = DEFAULT_METADATA
    metadata_servers: int = 1
    apart: bool = False
    base_port: int = DEFAULT_BASE_PORT
    explicit_lac_ms: int = 100
    transactions: bool = False
    quick: bool = False
    settings: tuple[Setting, ...] = ()
    admin_token_file: str = ""
    store_secrets: str = ""
    bookie_login: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", self.name):
            raise DevstackError(
                f"--name {self.name}: not a stack's name", "use 1 to 40 lower-case letters, digits and inner hyphens"
            )
        if not re.fullmatch(r"\d+\.\d+\.\d+(-M\d+)?", self.version):
            raise DevstackError(f"--version {self.version}: not a Pulsar release", "give one such as 4.0.8")
        alone = self.metadata == ZOOKEEPER and self.metadata_servers == 1
        most_brokers = _MAX_OF_A_KIND if alone else _MAX_BROKERS_OF_ENSEMBLE
        for option, count, most in (
            ("--bookies", self.bookies, _MAX_OF_A_KIND),
            ("--brokers", self.brokers, most_brokers),
        ):
            if not 1 <= count <= most:
                raise DevstackError(f"{option} {count}: out of range", f"give 1 to {most}")
        if self.metadata not in METADATA_STORES:
            raise DevstackError(f"--metadata {self.metadata}: unknown", f"give {' or '.join(METADATA_STORES)}")
        if self.apart and self.metadata != OXIA:
            raise DevstackError("--apart: only Oxia has namespaces", "leave it out, or give --metadata oxia")
        if not 1 <= self.metadata_servers <= _MAX_METADATA_SERVERS:
            raise DevstackError(
                f"--metadata-servers {self.metadata_servers}: out of range", f"give 1 to {_MAX_METADATA_SERVERS}"
            )
        if not _LOWEST_PORT <= self.base_port <= _HIGHEST_PORT + 1 - PORT_SPAN:
            raise DevstackError(
                f"--base-port {self.base_port}: out of range",
                f"{PORT_SPAN} ports are used from it on: give {_LOWEST_PORT} to {_HIGHEST_PORT + 1 - PORT_SPAN}",
            )
        if self.explicit_lac_ms < 0:
            raise DevstackError(f"--explicit-lac-ms {self.explicit_lac_ms}: negative", "give 0 (off) or milliseconds")

    @property
    def folder_name(self) -> str:
        """Name of the default state folder. Other releases and other stores have folders of their own, as data differ."""
        release = "" if self.version == STOCK_VERSION else f"-{self.version}"
        return f"{self.name}{release}{'' if self.metadata == ZOOKEEPER else f'-{self.metadata}'}"

    @property
    def metadata_server(self) -> str:
        """Name of the server, or of the first one, that has Pulsar's metadata."""
        return "oxia-0" if self.metadata == OXIA else ZOOKEEPER

    @property
    def quorum(self) -> int:
        """Ensemble size, write quorum and ack quorum."""
        return min(2, self.bookies)

    @property
    def secure_port(self) -> int:
        """Port of ZooKeeper for clients with TLS."""
        return self.base_port + _METADATA + _SECURE

    @property
    def zookeeper_port(self) -> int:
        """Client port of ZooKeeper."""
        return self.base_port + _METADATA

    @property
    def zookeepers(self) -> int:
        """Number of ZooKeeper's servers."""
        return {OXIA: 0, MIGRATION: 1}.get(self.metadata, self.metadata_servers)

    def zookeeper_ports(self, index: int) -> tuple[int, int]:
        """Return the ports of a ZooKeeper for the other ones: of followers, and of elections."""
        return self.broker_port(_MAX_BROKERS_OF_ENSEMBLE + index), self.broker_http_port(
            _MAX_BROKERS_OF_ENSEMBLE + index
        )

    def oxia_port(self, index: int) -> int:
        """Return the port of an Oxia server for clients; beside ZooKeeper's if both run."""
        return self.base_port + _METADATA + index + (self.metadata == MIGRATION)

    def metadata_store_url(self, host: str = HOST) -> str:
        """Return the URL of the metadata store in Pulsar's form."""
        if self.metadata == OXIA:
            return self.oxia_url(host=host)
        return "zk:" + ",".join(f"{host}:{self.zookeeper_port + index}" for index in range(self.zookeepers))

    def bookkeeper_metadata_store_url(self, host: str = HOST) -> str:
        """Return the URL of the bookies' metadata store in Pulsar's form."""
        return self.oxia_url(BOOKIES_NAMESPACE, host) if self.apart else self.metadata_store_url(host)

    def oxia_url(self, namespace: str = OXIA_NAMESPACE, host: str = HOST) -> str:
        """Return the URL of a namespace of Oxia in Pulsar's form."""
        return f"oxia://{host}:{self.oxia_port(0)}/{namespace}"

    def oxia_internal_port(self, index: int) -> int:
        """Return the port of an Oxia server for the other ones."""
        return self.broker_port(_MAX_BROKERS_OF_ENSEMBLE + index)

    @property
    def oxia_coordinator_ports(self) -> tuple[int, int]:
        """The coordinator's own port, and the port of its metrics."""
        first = self.broker_http_port(_MAX_BROKERS_OF_ENSEMBLE)
        return first, first + 1

    def broker_port(self, index: int) -> int:
        """Return a broker's port of the binary protocol."""
        return self.base_port + index

    def broker_http_port(self, index: int) -> int:
        """Return a broker's port of the admin API."""
        return self.base_port + _BROKER_HTTP + index

    def bookie_port(self, index: int) -> int:
        """Return a bookie's port."""
        return self.base_port + _BOOKIE + index

    def bookie_metrics_port(self, index: int) -> int:
        """Return the port of a bookie's Prometheus metrics."""
        return self.base_port + _BOOKIE_METRICS + index


def default_state(name: str) -> Path:
    """Return the default state folder of a stack, for configuration, data and logs."""
    return cache_root() / "pulsar" / "stacks" / name
