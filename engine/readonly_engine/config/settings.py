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
    read_text,
    split_urls,
    url,
    urls,
)
from readonly_engine.config.limits import DISPATCH_RATE, MAX_BUFFERED_BYTES, UNLIMITED, DispatchRate, LimitSettings
from readonly_engine.config.listeners import ADVERTISED_LISTENERS, BIND_ADDRESSES, BindAddress, Urls
from readonly_engine.config.oauth2 import OAUTH2, OAuth2Config
from readonly_engine.config.option import NO_FIELD, SET_BY_OPERATOR, Kind, option
from readonly_engine.config.tiered import TIERED_STORAGE, TieredConfig
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.metadata.security import LoginScheme, NodeRights, StoreSecurity
from readonly_engine.metadata.url import FORMS, PATTERN, MetadataUrl
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
_SYSTEM_TRUST: Final = "those of the system"


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


def _read_metadata_store(value: object) -> str | None:
    text = read_text(value) or ""
    try:
        MetadataUrl.parse(text)
    except MetadataError:
        return None
    return text


METADATA_STORE: Final = Kind(
    "URL",
    FORMS,
    _read_metadata_store,
    schema={"type": "string", "pattern": PATTERN},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Settings of one broker. A field's name with dashes is its flag, and its key in the file of --config."""

    # Source cluster: its metadata store, brokers, admin API and bookies.

    metadata_store_url: str = field(
        metadata=option(
            METADATA_STORE,
            f"metadata store of the source cluster, {FORMS}",
            group="Source cluster",
            field="source.metadataStoreUrl",
        )
    )
    service_url: str = field(
        metadata=option(
            urls("pulsar", "pulsar+ssl"),
            "service URL of the source cluster; its hosts are tried in turn",
            field="source.serviceUrl",
        )
    )
    admin_url: str = field(
        metadata=option(
            urls("http", "https"),
            "admin API of the source cluster; its hosts are tried in turn",
            field="source.adminUrl",
        )
    )
    bookkeeper_metadata_store_url: str | None = field(
        default=None,
        metadata=option(
            METADATA_STORE,
            f"metadata store of the bookies, {FORMS}",
            unset="that of --metadata-store-url",
            field="source.bookkeeperMetadataStoreUrl",
        ),
    )
    metadata_store_tls_trust_certificates: Path | None = field(
        default=None,
        metadata=option(
            FILE,
            "PEM authorities of the metadata store's servers; any of the four metadata-store-tls options enables TLS to them",
            unset=_SYSTEM_TRUST,
            field="source.tls.metadataStore.trustCertificates",
        ),
    )
    metadata_store_tls_certificate: Path | None = field(
        default=None,
        metadata=option(
            FILE,
            "PEM certificate that this broker presents to the metadata store",
            field="source.tls.metadataStore.clientCertificate.certificate",
        ),
    )
    metadata_store_tls_key: Path | None = field(
        default=None,
        metadata=option(
            FILE,
            "PEM key of --metadata-store-tls-certificate, not encrypted",
            field="source.tls.metadataStore.clientCertificate.privateKey",
        ),
    )
    metadata_store_tls_hostname_verification: bool = field(
        default=True,
        metadata=option(
            BOOLEAN,
            "whether a certificate of the metadata store must name the server's host",
            field="source.tls.metadataStore.hostnameVerification",
        ),
    )
    metadata_store_login_file: Path | None = field(
        default=None,
        metadata=option(
            FILE,
            "file with USER:PASSWORD for ZooKeeper, read again at each connection",
            unset="no login",
            field="source.metadataStoreLogin.secretRef",
        ),
    )
    metadata_store_login_scheme: LoginScheme = field(
        default=LoginScheme.SASL,
        metadata=option(
            member_of(LoginScheme),
            "how to log in: SASL DIGEST-MD5 (sasl), or ZooKeeper's scheme digest (digest)",
            field="source.metadataStoreLogin.scheme",
        ),
    )
    metadata_store_node_rights: NodeRights | None = field(
        default=None,
        metadata=option(
            member_of(NodeRights),
            "rights on the nodes that this broker creates: all for its own login and none for others (creator), or all for "
            "everyone (open)",
            unset="creator with --metadata-store-login-file, else open",
            field="source.metadataStoreLogin.nodeRights",
        ),
    )
    broker_tls_trust_certificates: Path | None = field(
        default=None,
        metadata=option(
            FILE,
            "PEM authorities of the source cluster's brokers",
            unset=_SYSTEM_TRUST,
            field="source.tls.brokers.trustCertificates",
        ),
    )
    broker_tls_certificate: Path | None = field(
        default=None,
        metadata=option(
            FILE,
            "PEM certificate that this broker presents to the source cluster's brokers",
            field="source.tls.brokers.clientCertificate.certificate",
        ),
    )
    broker_tls_key: Path | None = field(
        default=None,
        metadata=option(
            FILE,
            "PEM key of --broker-tls-certificate, not encrypted",
            field="source.tls.brokers.clientCertificate.privateKey",
        ),
    )
    broker_tls_hostname_verification: bool = field(
        default=True,
        metadata=option(
            BOOLEAN,
            "whether the certificate of an owner broker must name its host",
            field="source.tls.brokers.hostnameVerification",
        ),
    )
    admin_token_file: Path | None = field(
        default=None,
        metadata=option(
            FILE,
            "token for the admin API, read again when the file changes; its role must be allowed to consume the served topics",
            field="source.authentication.secretRef",
        ),
    )
    admin_oauth2: OAuth2Config | None = field(
        default=None,
        metadata=option(
            OAUTH2,
            "access tokens of an OAuth 2.0 server, instead of --admin-token-file; keys as in the configuration file",
            unset="none",
            field="source.authentication.oauth2",
        ),
    )
    bookie_tls_trust_certificates: Path | None = field(
        default=None,
        metadata=option(
            FILE,
            "PEM authorities of the bookies; any of the four bookie-tls options enables TLS to bookies",
            unset=_SYSTEM_TRUST,
            field="source.tls.bookies.trustCertificates",
        ),
    )
    bookie_tls_certificate: Path | None = field(
        default=None,
        metadata=option(
            FILE,
            "PEM certificate that this broker presents to bookies",
            field="source.tls.bookies.clientCertificate.certificate",
        ),
    )
    bookie_tls_key: Path | None = field(
        default=None,
        metadata=option(
            FILE,
            "PEM key of --bookie-tls-certificate, not encrypted",
            field="source.tls.bookies.clientCertificate.privateKey",
        ),
    )
    bookie_tls_hostname_verification: bool = field(
        default=True,
        metadata=option(
            BOOLEAN,
            "whether the certificate of a bookie must name its host",
            field="source.tls.bookies.hostnameVerification",
        ),
    )
    bookie_login_file: Path | None = field(
        default=None,
        metadata=option(
            FILE,
            "file with USER:PASSWORD for bookies (SASL DIGEST-MD5), read again at each connection",
            unset="no login",
            field="source.bookieLogin.secretRef",
        ),
    )

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
    def limits(self) -> LimitSettings:
        """Limits of connections, consumers and memory of slow clients."""
        return LimitSettings(
            connections=self.max_connections,
            connections_per_ip=self.max_connections_per_ip,
            consumers_per_topic=self.max_consumers_per_topic,
            consumers_per_subscription=self.max_consumers_per_subscription,
            buffered_bytes=self.max_buffered_bytes,
        )

    @property
    def service_urls(self) -> tuple[str, ...]:
        """One URL for each named broker of the source cluster."""
        return split_urls(self.service_url)

    @property
    def admin_urls(self) -> tuple[str, ...]:
        """One URL for each named admin API of the source cluster."""
        return split_urls(self.admin_url)

    @property
    def metadata_url(self) -> MetadataUrl:
        """The URL of the metadata store."""
        return MetadataUrl.parse(self.metadata_store_url)

    @property
    def bookkeeper_metadata_url(self) -> MetadataUrl | None:
        """The URL of the bookies' metadata store; None for the same."""
        return (
            None
            if self.bookkeeper_metadata_store_url is None
            else MetadataUrl.parse(self.bookkeeper_metadata_store_url)
        )

    @property
    def tls(self) -> TlsFiles | None:
        """Files of TLS with clients; None without TLS."""
        if self.tls_listen is None:
            return None
        return TlsFiles("tls", self.tls_trust_certificates, self.tls_certificate, self.tls_key)

    @property
    def peer_tls(self) -> TlsFiles | None:
        """Files of TLS with the pool's other brokers, which see the certificate for clients; None without TLS."""
        if self.peer_tls_trust_certificates is None:
            return None
        return TlsFiles("peer-tls", self.peer_tls_trust_certificates, self.tls_certificate, self.tls_key)

    @property
    def broker_tls(self) -> TlsFiles | None:
        """Files of TLS with the source cluster's brokers; None without TLS."""
        if not self.service_url.startswith("pulsar+ssl:") and not self.admin_url.startswith("https:"):
            return None
        return TlsFiles(
            "broker-tls",
            self.broker_tls_trust_certificates,
            self.broker_tls_certificate,
            self.broker_tls_key,
            self.broker_tls_hostname_verification,
        )

    @property
    def metadata_store_tls(self) -> TlsFiles | None:
        """Files of TLS with the metadata store; None without TLS."""
        given = TlsFiles(
            "metadata-store-tls",
            self.metadata_store_tls_trust_certificates,
            self.metadata_store_tls_certificate,
            self.metadata_store_tls_key,
            self.metadata_store_tls_hostname_verification,
        )
        return None if given == TlsFiles("metadata-store-tls") else given

    @property
    def metadata_security(self) -> StoreSecurity:
        """TLS and login of the connections to the metadata store."""
        return StoreSecurity(
            self.metadata_store_tls,
            self.metadata_store_login_file,
            self.metadata_store_login_scheme,
            self.metadata_store_node_rights,
        )

    @property
    def bookie_tls(self) -> TlsFiles | None:
        """Files of TLS with bookies; None without TLS."""
        given = TlsFiles(
            "bookie-tls",
            self.bookie_tls_trust_certificates,
            self.bookie_tls_certificate,
            self.bookie_tls_key,
            self.bookie_tls_hostname_verification,
        )
        return None if given == TlsFiles("bookie-tls") else given
