"""The options of `pulsar-readonly serve`, and the settings of one broker that they give."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from readonly_engine.config.kinds import (
    ADDRESS,
    BOOLEAN,
    FILE,
    LIMIT,
    LOCALITY,
    NAME,
    SIZE,
    TEXT,
    Address,
    choice_of,
    list_of,
    member_of,
    number_between,
    url,
)
from readonly_engine.config.limits import DISPATCH_RATE, MAX_BUFFERED_BYTES, UNLIMITED, DispatchRate
from readonly_engine.config.listeners import ADVERTISED_LISTENERS, BIND_ADDRESSES, BindAddress, Urls
from readonly_engine.config.option import NO_FIELD, SET_BY_OPERATOR, option
from readonly_engine.config.replay import SPEED, TIME, ReplaySettings
from readonly_engine.config.source_cluster import SourceClusterConfig
from readonly_engine.config.tiered import TIERED_STORAGE, TieredConfig
from readonly_engine.net.interfaces import ALL_INTERFACES
from readonly_engine.net.tls import TlsFiles

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAX_WORKERS: Final = 64
MAX_LISTEN_TIMEOUT_S: Final = 600

MAX_PARTITIONS: Final = 1024
"""Bound of the partitions of a topic with local cursors."""

PORT_OFFSET: Final = 100
"""Worker 0 listens on the given ports plus this offset, worker 1 on those plus twice the offset, and so on."""

LISTEN: Final = Address(ALL_INTERFACES, 6650)
HTTP: Final = Address(ALL_INTERFACES, 8080)
AS_STORED: Final = TieredConfig()

REJECT_UNKNOWN: Final = "reject"
WARN_UNKNOWN: Final = "warn"


class Tail(StrEnum):
    """Source of new entries of a topic."""

    AUTO = "auto"
    """The owner pushes them while they are few; bookies are read while they are many."""
    BOOKIES = "bookies"
    """Bookies, by long polls and batch reads."""
    OWNER = "owner"
    """The owner pushes all of them."""


class Cursors(StrEnum):
    """Keeper of the cursors of subscriptions."""

    OWNER = "owner"
    """The topic's owner, as everywhere in Pulsar."""
    LOCAL = "local"
    """The pool, in a compacted topic of the source cluster. The owner has one subscription for all of them."""


class Unbound(StrEnum):
    """Answer to a lookup of a topic that no binding names."""

    REDIRECT = "redirect"
    """That of the source cluster: the client goes to the owner broker."""
    PROXY = "proxy"
    """A broker of the pool, which relays everything to the owner: for clients that cannot reach the owner brokers."""
    REJECT = "reject"
    """An error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig(SourceClusterConfig):
    """Settings of one broker. A field's name with dashes is its flag, and its key in the file of --config."""

    # Addresses for clients, for HTTP and for the other brokers of the pool.

    listen: Address = field(
        default=LISTEN,
        metadata=option(
            ADDRESS,
            "address for clients without TLS; * is all addresses, IPv4 and IPv6",
            group="Addresses and TLS",
            field=SET_BY_OPERATOR,
        ),
    )
    http: Address = field(
        default=HTTP, metadata=option(ADDRESS, "address for health, metrics and statistics", field=SET_BY_OPERATOR)
    )
    http_tls: bool = field(
        default=False,
        metadata=option(
            BOOLEAN, "whether --http is served with TLS, with --tls-certificate and --tls-key", field="http.tls"
        ),
    )
    http_token_file: Path | None = field(
        default=None,
        metadata=option(
            FILE,
            "token that --http demands for all but /healthz and /readyz, as Bearer or as a password; read again when the file "
            "changes",
            unset="no credentials are needed",
            field="http.tokenSecretRef",
        ),
    )
    listen_timeout: int = field(
        default=10,
        metadata=option(
            number_between(0, MAX_LISTEN_TIMEOUT_S, "0 to fail at once"),
            "time to wait for an address in use, as that of a broker that drains",
            unit="seconds",
            field=NO_FIELD,
        ),
    )
    advertised_url: str = field(
        default="",
        metadata=option(
            url("pulsar"), "URL of this broker in lookup answers", unset="made from --listen", field=SET_BY_OPERATOR
        ),
    )
    tls_listen: Address | None = field(
        default=None, metadata=option(ADDRESS, "address for clients with TLS", unset="no TLS", field="listeners.tls")
    )
    tls_certificate: Path | None = field(
        default=None,
        metadata=option(
            FILE,
            "PEM certificate for clients, read again when it changes",
            field="listeners.tls.certificate.certificate",
        ),
    )
    tls_key: Path | None = field(
        default=None,
        metadata=option(
            FILE, "PEM key of --tls-certificate, not encrypted", field="listeners.tls.certificate.privateKey"
        ),
    )
    tls_trust_certificates: Path | None = field(
        default=None,
        metadata=option(
            FILE,
            "PEM authorities of client certificates; with it, each client must present a certificate",
            field="listeners.tls.trustCertificates",
        ),
    )
    advertised_tls_url: str = field(
        default="",
        metadata=option(
            url("pulsar+ssl"),
            "URL of this broker in lookup answers to clients with TLS",
            unset="made from --tls-listen",
            field=SET_BY_OPERATOR,
        ),
    )
    advertised_listeners: Mapping[str, Urls] = field(
        default_factory=dict,
        metadata=option(
            ADVERTISED_LISTENERS,
            "URLs of this broker for clients that name a listener, or connect at its port (PIP-61); PORT may be "
            "FIRST+STEP*ORDINAL, as in 30000+2*7",
            unset="no named listeners",
            field="listeners.external",
        ),
    )
    bind_addresses: tuple[BindAddress, ...] = field(
        default=(),
        metadata=option(
            BIND_ADDRESSES,
            "further addresses for clients of named listeners, in addition to --listen and --tls-listen (PIP-95)",
            unset="none",
            field=SET_BY_OPERATOR,
        ),
    )
    peer_tls_trust_certificates: Path | None = field(
        default=None,
        metadata=option(
            FILE,
            "PEM authorities of the pool's own brokers; with it, they connect to each other with TLS only",
            field="listeners.tls.peerTrustCertificates",
        ),
    )

    # Topics of the pool, and the place of this broker in it.

    topics: tuple[str, ...] = field(
        default=(),
        metadata=option(
            list_of("PATTERN", "topics or patterns"),
            "bound topics, in addition to those of --bindings: names, or regular expressions (RE2) that match full names",
            group="Topics and pool",
            field="binding: topics",
        ),
    )
    bindings: Path | None = field(
        default=None,
        metadata=option(
            FILE, "file of bindings, read again when it changes; the operator writes it", field=SET_BY_OPERATOR
        ),
    )
    lookup_unbound: Unbound = field(
        default=Unbound.REDIRECT,
        metadata=option(
            member_of(Unbound),
            "answer to lookups of unbound topics: the owner broker (redirect), a broker of this pool, which relays everything "
            "(proxy), or an error (reject)",
            field="lookup.unbound",
        ),
    )
    tail: Tail = field(
        default=Tail.AUTO,
        metadata=option(
            member_of(Tail),
            "source of new entries: the owner while they are few and bookies while they are many (auto), bookies only "
            "(bookies), or the owner only (owner)",
            field="binding: tail",
        ),
    )
    cursors: Cursors = field(
        default=Cursors.OWNER,
        metadata=option(
            member_of(Cursors),
            "keeper of the subscriptions' cursors: the owner broker (owner), or the pool itself (local), for very many "
            "subscriptions of a topic",
            field="cursors",
        ),
    )
    cursor_partitions: int = field(
        default=16,
        metadata=option(
            number_between(1, MAX_PARTITIONS, "best four for each broker of the pool"),
            "partitions of a new topic with local cursors, which the brokers of the pool share; an existing one keeps its number",
            unit="partitions",
            field="cursorPartitions",
        ),
    )
    pool: str = field(
        default="default",
        metadata=option(NAME, "name of the pool; brokers of one pool share its consumers", field=SET_BY_OPERATOR),
    )
    pool_uid: str = field(
        default="",
        metadata=option(
            TEXT,
            "identity that keeps pools of the same name in one metadata store apart; the operator passes the pool's uid",
            unset="none, the name is enough",
            field=SET_BY_OPERATOR,
        ),
    )
    locality: str = field(
        default="",
        metadata=option(
            LOCALITY,
            "rack of this broker, as in `pulsar-admin bookies set-bookie-rack`; bookies near it are read first, and clients near "
            "it are sent here",
            unset="none, all bookies and clients are equal",
            field=NO_FIELD,
        ),
    )
    locality_file: Path | None = field(
        default=None,
        metadata=option(
            FILE, "file with the rack, read again when it changes; it wins over --locality", field="locality.nodeLabels"
        ),
    )

    # Storage, memory and limits.

    cache_size: int = field(
        default=256 << 20,
        metadata=option(
            SIZE,
            "memory for cached entries, such as 512MiB",
            unit="bytes",
            group="Storage and limits",
            field="cache.size",
        ),
    )
    tiered_storage: TieredConfig = field(
        default=AS_STORED,
        metadata=option(
            TIERED_STORAGE,
            "how offloaded ledgers are read; keys as in the configuration file",
            unset="as the owner brokers stored it",
            field="tieredStorage",
        ),
    )
    dispatch_rate_per_subscription: DispatchRate = field(
        default=UNLIMITED,
        metadata=option(
            DISPATCH_RATE,
            "limit of each subscription's dispatch",
            unit="per second",
            unset="no limit",
            field="limits.dispatchRatePerSubscription",
        ),
    )
    dispatch_rate_per_broker: DispatchRate = field(
        default=UNLIMITED,
        metadata=option(
            DISPATCH_RATE,
            "limit of the dispatch to all subscriptions of this broker together",
            unit="per second",
            unset="no limit",
            field="limits.dispatchRatePerBroker",
        ),
    )
    max_connections: int = field(
        default=0,
        metadata=option(
            LIMIT, "limit of client connections", unit="connections", unset="no limit", field="limits.maxConnections"
        ),
    )
    max_connections_per_ip: int = field(
        default=0,
        metadata=option(
            LIMIT,
            "limit of client connections from one address",
            unit="connections",
            unset="no limit",
            field="limits.maxConnectionsPerIp",
        ),
    )
    max_consumers_per_topic: int = field(
        default=0,
        metadata=option(
            LIMIT,
            "limit of consumers of a topic or partition on this broker",
            unit="consumers",
            unset="no limit",
            field="limits.maxConsumersPerTopic",
        ),
    )
    max_consumers_per_subscription: int = field(
        default=0,
        metadata=option(
            LIMIT,
            "limit of consumers of a subscription on this broker",
            unit="consumers",
            unset="no limit",
            field="limits.maxConsumersPerSubscription",
        ),
    )
    max_buffered_bytes: int = field(
        default=MAX_BUFFERED_BYTES,
        metadata=option(
            SIZE,
            "limit of data that waits for slow clients, of all clients together",
            unit="bytes",
            field="limits.maxBufferedBytes",
        ),
    )

    # A replay of past messages.

    replay_from: int | None = field(
        default=None,
        metadata=option(
            TIME,
            "replay past messages of the topics, from this publish time on, with cursors of the pool's own",
            unset="serve the topics as they are",
            group="Replay",
            field="replay.from",
        ),
    )
    replay_to: int | None = field(
        default=None, metadata=option(TIME, "last publish time of the replay", unset="no end", field="replay.to")
    )
    replay_speed: float = field(
        default=1.0,
        metadata=option(
            SPEED,
            "publish time that passes in each second of the replay: 1 for the original pace, unlimited for all messages at once; "
            "it counts for the first broker of the pool",
            field="replay.speed",
        ),
    )

    replay_loop: bool = field(
        default=False,
        metadata=option(
            BOOLEAN,
            "whether the replay begins again after --replay-to, with new cursors; it counts for the first broker of the pool",
            field="replay.loop",
        ),
    )

    # Processes and logs.

    workers: int = field(
        default=1,
        metadata=option(
            number_between(1, MAX_WORKERS, "best the number of cores"),
            f"broker processes, best one for each core; each also listens on ports of its own: plus {PORT_OFFSET}, "
            f"plus {2 * PORT_OFFSET} and so on",
            unit="processes",
            group="Processes and logs",
            field="workers",
        ),
    )
    log_level: str = field(
        default="info",
        metadata=option(choice_of("debug", "info", "warning", "error"), "lowest level of log lines", field="logLevel"),
    )
    log_format: str = field(
        default="text",
        metadata=option(
            choice_of("text", "json"), "form of log lines: text, or one JSON object each", field=SET_BY_OPERATOR
        ),
    )
    otlp_endpoint: str = field(
        default="",
        metadata=option(
            url("http", "https"),
            "OTLP receiver (HTTP) for traces of lookups, SUBSCRIBEs and slow reads, without a path; the SDK's variables OTEL_... "
            "apply",
            unset="no traces",
            field="monitoring.otlpEndpoint",
        ),
    )
    unknown_keys: str = field(
        default=REJECT_UNKNOWN,
        metadata=option(
            choice_of(REJECT_UNKNOWN, WARN_UNKNOWN),
            "keys of the file that this version does not have: an error, or a warning in the log; the operator sets warn, so "
            "that brokers of the release before its own accept its file",
            field=SET_BY_OPERATOR,
        ),
    )

    @property
    def replay(self) -> ReplaySettings | None:
        """The replay of past messages; None without one."""
        if self.replay_from is None:
            return None
        return ReplaySettings(self.replay_from, self.replay_to, self.replay_speed, self.replay_loop)

    @property
    def tls(self) -> TlsFiles | None:
        """Files of TLS with clients; None without TLS."""
        if self.tls_listen is None:
            return None
        return TlsFiles("tls", self.tls_trust_certificates, self.tls_certificate, self.tls_key)

    @property
    def peer_tls(self) -> TlsFiles | None:
        """Files of TLS with the pool's other brokers, which see the certificate for clients; None without TLS."""
        if self.peer_tls_trust_certificates is None or self.tls_listen is None:
            return None
        return TlsFiles("peer-tls", self.peer_tls_trust_certificates, self.tls_certificate, self.tls_key)

    @property
    def http_files(self) -> TlsFiles | None:
        """Files of TLS on the HTTP port, whose clients need no certificate; None without TLS."""
        return TlsFiles("tls", None, self.tls_certificate, self.tls_key) if self.http_tls else None

    @property
    def http_peers(self) -> TlsFiles | None:
        """Files of TLS with the HTTP ports of the pool's other brokers; None without TLS."""
        return TlsFiles("peer-tls", self.peer_tls_trust_certificates) if self.http_tls else None
