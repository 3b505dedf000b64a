"""The specification of a Pulsar stack: name, version, size, ports and settings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from devstack.cache import cache_root
from devstack.errors import DevstackError

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER_NAME: Final = "pulsar-readonly"
"""The Pulsar cluster's name, in topic policies and in the metadata."""

HOST: Final = "127.0.0.1"
"""Everything listens here and nowhere else, unless a Site names another address."""

DEFAULT_VERSION: Final = "4.0.8"
DEFAULT_BASE_PORT: Final = 16650
PORT_SPAN: Final = 50
"""A stack's ports lie in [base_port, base_port + PORT_SPAN)."""

_MAX_OF_A_KIND: Final = 10
_BROKER_HTTP: Final = 10
_ZOOKEEPER: Final = 20
_BOOKIE: Final = 30
_BOOKIE_METRICS: Final = 40
_LOWEST_PORT: Final = 1024
_HIGHEST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Site:
    """The site of one server.

    Attributes:
        host: the address that it listens on, and that others reach it by.
        interface: the network interface that has this address.
        launcher: what stands before its command line; it must become the command itself (exec), such as `nsenter --net=FILE`.
    """

    host: str = HOST
    interface: str = "lo"
    launcher: tuple[str, ...] = ()


LOOPBACK: Final = Site()


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of a server's own configuration file, set by `--set ROLE.KEY=VALUE`.

    Attributes:
        role: `broker` or `bookie`, `broker-1` for one of them only; `broker-env` or `bookie-env` for a variable of their
            environment; `zookeeper`, which no option sets.
        key: the key as broker.conf, bookkeeper.conf or zookeeper.conf spells it, or the variable.
        value: its text; may be empty.
    """

    role: str
    key: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Setting:
        """Read `broker.KEY=VALUE`, `bookie.KEY=VALUE` or `broker-env.VARIABLE=VALUE` (`bookie-env` likewise).

        Raises:
            DevstackError: the text has another shape.
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
        name: what the stack is called; its state folder is named after it.
        version: a Pulsar release whose checksum is pinned.
        bookies: how many bookies, 1 to 10; write quorum and ack quorum are 2 (1 with a single bookie).
        brokers: how many brokers, 1 to 10.
        base_port: first of the PORT_SPAN ports that the stack uses.
        explicit_lac_ms: the brokers' bookkeeperExplicitLacIntervalInMills; 0 turns explicit LAC off.
        transactions: whether brokers run the transaction coordinator.
        quick: whether the JVMs compile with C1 only: half the CPU of a start, but slower under load, so never for measurements.
            And whether nobody waits for the disk (fsync): servers may be killed, but data do not outlive a power cut.
        settings: what else to set in the servers' files; the last of a key wins.
        admin_token_file: the superuser's token, where settings make the brokers ask for one.
    """

    name: str = "default"
    version: str = DEFAULT_VERSION
    bookies: int = 3
    brokers: int = 2
    base_port: int = DEFAULT_BASE_PORT
    explicit_lac_ms: int = 100
    transactions: bool = False
    quick: bool = False
    settings: tuple[Setting, ...] = ()
    admin_token_file: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", self.name):
            raise DevstackError(
                f"--name {self.name}: not a stack's name", "use 1 to 40 lower-case letters, digits and inner hyphens"
            )
        if not re.fullmatch(r"\d+\.\d+\.\d+", self.version):
            raise DevstackError(f"--version {self.version}: not a Pulsar release", "give one such as 4.0.8")
        for option, count in (("--bookies", self.bookies), ("--brokers", self.brokers)):
            if not 1 <= count <= _MAX_OF_A_KIND:
                raise DevstackError(f"{option} {count}: out of range", f"give 1 to {_MAX_OF_A_KIND}")
        if not _LOWEST_PORT <= self.base_port <= _HIGHEST_PORT + 1 - PORT_SPAN:
            raise DevstackError(
                f"--base-port {self.base_port}: out of range",
                f"{PORT_SPAN} ports are used from it on: give {_LOWEST_PORT} to {_HIGHEST_PORT + 1 - PORT_SPAN}",
            )
        if self.explicit_lac_ms < 0:
            raise DevstackError(f"--explicit-lac-ms {self.explicit_lac_ms}: negative", "give 0 (off) or milliseconds")

    @property
    def quorum(self) -> int:
        """Ensemble size, write quorum and ack quorum."""
        return min(2, self.bookies)

    @property
    def zookeeper_port(self) -> int:
        """ZooKeeper's client port."""
        return self.base_port + _ZOOKEEPER

    def broker_port(self, index: int) -> int:
        """A broker's port of the binary protocol."""
        return self.base_port + index

    def broker_http_port(self, index: int) -> int:
        """A broker's port of the admin API."""
        return self.base_port + _BROKER_HTTP + index

    def bookie_port(self, index: int) -> int:
        """A bookie's port."""
        return self.base_port + _BOOKIE + index

    def bookie_metrics_port(self, index: int) -> int:
        """The port where a bookie shows its Prometheus metrics."""
        return self.base_port + _BOOKIE_METRICS + index


def default_state(name: str) -> Path:
    """Return the default state folder of a stack, for configuration, data and logs."""
    return cache_root() / "pulsar" / "stacks" / name
