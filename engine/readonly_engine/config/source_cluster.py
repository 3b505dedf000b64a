"""The options of a broker's connections to its source cluster, and the settings that they give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from readonly_engine.config.kinds import BOOLEAN, FILE, member_of, read_text, split_urls, urls
from readonly_engine.config.oauth2 import OAUTH2, OAuth2Config
from readonly_engine.config.option import Kind, option
from readonly_engine.config.tls_options import tls_files
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.metadata.security import LoginScheme, NodeRights, StoreSecurity
from readonly_engine.metadata.url import FORMS, PATTERN, MetadataUrl

if TYPE_CHECKING:
    from pathlib import Path

    from readonly_engine.net.tls import TlsFiles

_SYSTEM_TRUST: Final = "those of the system"


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
class SourceClusterConfig:
    """Settings of the connections to metadata store, brokers, admin API and bookies: the first fields of EngineConfig."""

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
    def broker_tls(self) -> TlsFiles | None:
        """Files of TLS with the source cluster's brokers; None without TLS."""
        return tls_files(self, "broker-tls", self.service_url, self.admin_url)

    @property
    def metadata_store_tls(self) -> TlsFiles | None:
        """Files of TLS with the metadata store; None without TLS."""
        return tls_files(self, "metadata-store-tls")

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
        return tls_files(self, "bookie-tls")
