"""ReadOnlyBrokerPool: spec.source, the source cluster."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from readonly_operator.api.metadata_store import BOOKKEEPER_METADATA_STORE_URL, FORM, METADATA_STORE_URL
from readonly_operator.api.pool.authentication import Authentication
from readonly_operator.api.schema import Choice, Flag, Nested, Rule, Text, declare
from readonly_operator.api.secrets import Certificate, LoginKey, TrustedCertificates
from readonly_operator.api.values import HOST_PORT, qualified

SERVICE_URL = Text(
    512,
    rf"pulsar(\+ssl)?://{HOST_PORT}(,{HOST_PORT})*/?",
    "must be pulsar://HOST:PORT[,HOST:PORT] or pulsar+ssl://HOST:PORT[,HOST:PORT], "
    "for example pulsar://pulsar-broker.pulsar:6650",
)
ADMIN_URL = Text(
    512,
    rf"https?://{HOST_PORT}(,{HOST_PORT})*/?",
    "must be http://HOST:PORT[,HOST:PORT] or https://HOST:PORT[,HOST:PORT], for example http://pulsar-broker.pulsar:8080",
)
_NOT_TLS = "!has(self.authentication) || !has(self.authentication.type) || self.authentication.type != 'Tls'"


@dataclass(frozen=True, slots=True)
class TlsClient:
    """TLS of connections that brokers open.

    Attributes:
        trust_certificates: authorities; None for those that the image trusts.
        client_certificate: the client's certificate; None for none.
        hostname_verification: whether a certificate must name the host.
    """

    trust_certificates: TrustedCertificates | None = field(
        default=None,
        metadata=declare(
            Nested(TrustedCertificates),
            "Authorities of the servers' certificates. Without it, those that the image trusts.",
        ),
    )
    client_certificate: Certificate | None = field(
        default=None,
        metadata=declare(Nested(Certificate), "Client certificate. Without it, none is used."),
    )
    hostname_verification: bool = field(
        default=True,
        metadata=declare(Flag(), "Whether a server's certificate must name the host of the connection."),
    )


@dataclass(frozen=True, slots=True)
class MetadataStoreLogin:
    """The pool's login at ZooKeeper.

    Attributes:
        secret_ref: Secret with the login.
        scheme: Sasl or Digest.
        node_rights: Creator or Open.
    """

    secret_ref: LoginKey = field(
        metadata=declare(
            Nested(LoginKey),
            "Secret with USER:PASSWORD. Brokers read a changed login at their next connection.",
            required="say which Secret has the login, for example secretRef: {name: zookeeper-login, key: login}",
        )
    )
    scheme: str = field(
        default="Sasl",
        metadata=declare(
            Choice(("Sasl", "Digest")), "Sasl: SASL DIGEST-MD5. Digest: ZooKeeper's own scheme of this name."
        ),
    )
    node_rights: str = field(
        default="Creator",
        metadata=declare(
            Choice(("Creator", "Open")),
            "Rights on nodes that brokers create below /pulsar-readonly. Creator: all for this login, none for others. "
            "Open: all for everyone, as on Pulsar's own nodes.",
        ),
    )


@dataclass(frozen=True, slots=True)
class BookieLogin:
    """The pool's login at bookies.

    Attributes:
        secret_ref: Secret with the login.
    """

    secret_ref: LoginKey = field(
        metadata=declare(
            Nested(LoginKey),
            "Secret with USER:PASSWORD. Brokers read a changed login at their next connection.",
            required="say which Secret has the login, for example secretRef: {name: bookie-login, key: login}",
        )
    )


@dataclass(frozen=True, slots=True)
class SourceTls:
    """TLS towards the source cluster.

    Attributes:
        brokers: towards its brokers and their admin API; None for the URLs' defaults.
        bookies: towards its bookies; None for no TLS.
        metadata_store: towards the metadata store; None for no TLS.
    """

    RULES = (
        Rule(
            "!has(self.bookies) || has(self.bookies.trustCertificates)",
            "say which authorities sign the bookies' certificates, with secretName or configMapName",
            ".bookies.trustCertificates",
            "FieldValueRequired",
        ),
        Rule(
            "!has(self.metadataStore) || has(self.metadataStore.trustCertificates)",
            "say which authorities sign the certificates of the metadata store, with secretName or configMapName",
            ".metadataStore.trustCertificates",
            "FieldValueRequired",
        ),
    )

    brokers: TlsClient | None = field(
        default=None,
        metadata=declare(
            Nested(TlsClient),
            "TLS towards the owner brokers (serviceUrl of pulsar+ssl://) and their admin API (adminUrl of https://). "
            "Without it, "
            "the image's authorities are trusted.",
        ),
    )
    bookies: TlsClient | None = field(
        default=None,
        metadata=declare(
            Nested(TlsClient), "TLS towards the bookies. Without it, connections to bookies are not encrypted."
        ),
    )
    metadata_store: TlsClient | None = field(
        default=None,
        metadata=declare(
            Nested(TlsClient), "TLS towards the metadata store. Without it, connections to it are not encrypted."
        ),
    )


@dataclass(frozen=True, slots=True)
class Source:
    """The source cluster.

    Attributes:
        service_url: pulsar://HOST:PORT[,HOST:PORT] or pulsar+ssl://...
        admin_url: http(s)://HOST:PORT[,HOST:PORT], without a slash at the end.
        metadata_store_url: the brokers' metadata store, in one of the forms of metadata_store.py
        bookkeeper_metadata_store_url: of the bookies, if it is another one; None for the same.
        authentication: the pool's identity at the admin API; None for none.
        metadata_store_login: the pool's login at ZooKeeper; None for none.
        bookie_login: the pool's login at bookies; None for none.
        tls: towards the cluster; None for the URLs' defaults.
        namespace: namespace of the named Secrets and ConfigMaps, and of Services with short names; empty without any, so that
            pools of all namespaces share the reports about the cluster.
    """

    RULES = (
        Rule(
            "!has(self.tls) || !has(self.tls.brokers) || !has(self.serviceUrl) || !has(self.adminUrl)"
            " || self.serviceUrl.startsWith('pulsar+ssl://') || self.adminUrl.startsWith('https://')",
            "would not be used: neither serviceUrl is pulsar+ssl:// nor adminUrl https://",
            ".tls.brokers",
        ),
        Rule(
            f"{_NOT_TLS} || (has(self.tls) && has(self.tls.brokers) && has(self.tls.brokers.clientCertificate))",
            "say which certificate is the pool's identity when authentication.type is Tls, for example "
            "tls: {brokers: {clientCertificate: {secretName: orders-client}}}",
            ".tls",
            "FieldValueRequired",
        ),
        Rule(
            f"{_NOT_TLS} || !has(self.adminUrl) || self.adminUrl.startsWith('https://')",
            "must be https:// when authentication.type is Tls: the certificate is shown in the TLS handshake only",
            ".adminUrl",
        ),
    )

    service_url: str = field(
        metadata=declare(
            SERVICE_URL,
            "Service URL of the owner brokers, pulsar://HOST:PORT[,HOST:PORT] or pulsar+ssl://. Several hosts are "
            "tried in turn. "
            "Read-only brokers forward subscriptions, acks and producers to the owner brokers.",
            required="give the URL that clients of the owner brokers use, for example pulsar://pulsar-broker.pulsar:6650",
        )
    )
    admin_url: str = field(
        metadata=declare(
            ADMIN_URL,
            "The admin API of the owner brokers, http://HOST:PORT[,HOST:PORT] or https://. Several hosts are tried in turn. "
            "It serves checks and reads of topic state. Only lookup.clusterName and explicitLac.probeTopic cause writes.",
            required="give the URL of the owner brokers' admin API, for example http://pulsar-broker.pulsar:8080",
        )
    )
    metadata_store_url: str = field(
        metadata=declare(
            METADATA_STORE_URL,
            f"Metadata store of the source cluster, {FORM}: the "
            "value of metadataStoreUrl in broker.conf. It identifies the cluster: hosts may be replaced a few at a time, the "
            "chroot may not change. After a migration to Oxia it may become the new URL.",
            required="give the metadata store of the source cluster as its brokers have it in metadataStoreUrl, "
            "for example zk:pulsar-zookeeper.pulsar:2181",
        )
    )
    bookkeeper_metadata_store_url: str | None = field(
        default=None,
        metadata=declare(
            BOOKKEEPER_METADATA_STORE_URL,
            "Metadata store of the bookies, if it is another than that of the brokers: bookkeeperMetadataServiceUri in "
            "broker.conf, without metadata-store: at its beginning.",
        ),
    )
    authentication: Authentication | None = field(
        default=None,
        metadata=declare(
            Nested(Authentication),
            "The pool's own identity at the source cluster; its role must be allowed to consume the bound topics. Brokers "
            "pass clients' "
            "own credentials on. Without it, the pool has no identity.",
        ),
    )
    metadata_store_login: MetadataStoreLogin | None = field(
        default=None,
        metadata=declare(
            Nested(MetadataStoreLogin), "The pool's login at ZooKeeper. Without it, brokers do not log in."
        ),
    )
    bookie_login: BookieLogin | None = field(
        default=None,
        metadata=declare(
            Nested(BookieLogin), "The pool's login at bookies (SASL DIGEST-MD5). Without it, brokers do not log in."
        ),
    )
    tls: SourceTls | None = field(
        default=None,
        metadata=declare(Nested(SourceTls), "Certificates for TLS towards the source cluster."),
    )

    namespace: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "admin_url", self.admin_url.rstrip("/"))

    def seen_from(self, namespace: str) -> Source:
        """Return the source of a pool in a namespace."""
        hosts = (url.partition(":")[2].strip("/").partition("/")[0] for url in self._urls)
        names = (host.partition(":")[0] for some in hosts for host in some.split(","))
        local = self.authentication is not None or self.tls is not None
        return replace(self, namespace=namespace) if local or any(qualified(one, "x") != one for one in names) else self

    @property
    def _urls(self) -> tuple[str, ...]:
        return self.service_url, self.admin_url, *(url for _, url in self.metadata_stores)

    @property
    def metadata_stores(self) -> tuple[tuple[str, str], ...]:
        """Return name and value of each field with a metadata store."""
        stores = (
            ("metadataStoreUrl", self.metadata_store_url),
            ("bookkeeperMetadataStoreUrl", self.bookkeeper_metadata_store_url),
        )
        return tuple((field, url) for field, url in stores if url is not None)

    @property
    def admin_urls(self) -> tuple[str, ...]:
        """Return the URL of each admin API host."""
        scheme, _, hosts = self.admin_url.partition("://")
        return tuple(f"{scheme}://{host}" for host in hosts.split(","))
