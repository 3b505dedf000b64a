"""Secrets and settings of a stack whose ZooKeeper and bookies are as in production: TLS, logins and rights.

ZooKeeper serves brokers, bookies and pools at a port with TLS and SASL. The devstack itself, and the tests' own sessions, use its
other port, which has neither.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from devstack.common.certificates import DAYS, issue, make_authority
from devstack.pulsar.spec import HOST, Setting

if TYPE_CHECKING:
    from pathlib import Path

    from devstack.pulsar.spec import PulsarSpec

SERVERS: Final = "pulsar"
"""User of brokers and bookies."""

READER: Final = "reader"
"""User of the pools."""

_PASSWORD_BYTES: Final = 18
_NO_FIPS: Final = {"zookeeper.fips-mode": "false"}
"""ZooKeeper 3.9 has no DIGEST-MD5 otherwise, on neither side."""


@dataclass(frozen=True, slots=True)
class StoreSecrets:
    """The secrets of a stack's stores in one folder, which only its owner can read.

    Attributes:
        folder: folder of the files.
    """

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> StoreSecrets:
        """Make missing files: authority, certificates of servers and pools, logins, and the JAAS files of the servers."""
        made = cls(folder)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not made.authority.exists():
            make_authority(made.authority, "pulsar-readonly stores")
        for name in (SERVERS, READER):
            if not made.certificate(name).exists():
                made.issue(name)
            if not made.login_file(name).exists():
                _write(made.login_file(name), f"{name}:{secrets.token_urlsafe(_PASSWORD_BYTES)}\n")
        # ZooKeeper reads a certificate and its key from one file.
        _write(made.key_store, made.key(SERVERS).read_text() + made.certificate(SERVERS).read_text())
        module = "org.apache.zookeeper.server.auth.DigestLoginModule required"
        users = "".join(f'\n  user_{name}="{made.password(name)}"' for name in (SERVERS, READER))
        login = f'\n  username="{SERVERS}"\n  password="{made.password(SERVERS)}"'
        _write(made.server_jaas, _section("Server", module + users))
        clients = [_section(name, module + login) for name in ("Client", "BookKeeper")]
        _write(made.client_jaas, "".join([*clients, _section("Bookie", module + users)]))
        return made

    @property
    def authority(self) -> Path:
        """Certificate of the authority."""
        return self.folder / "ca.pem"

    @property
    def key_store(self) -> Path:
        """Key and certificate of the servers."""
        return self.folder / "servers.both.pem"

    @property
    def server_jaas(self) -> Path:
        """ZooKeeper's users."""
        return self.folder / "zookeeper.jaas"

    @property
    def client_jaas(self) -> Path:
        """Login of brokers and bookies, and the bookies' own users."""
        return self.folder / "client.jaas"

    def certificate(self, name: str) -> Path:
        """Return the certificate of a user."""
        return self.folder / f"{name}.pem"

    def key(self, name: str) -> Path:
        """Return the key of a user's certificate."""
        return self.folder / f"{name}.key"

    def login_file(self, name: str) -> Path:
        """Return the file with a user's login."""
        return self.folder / f"{name}.login"

    def password(self, name: str) -> str:
        """Return the password of a user."""
        return self.login_file(name).read_text().strip().partition(":")[2]

    def issue(self, name: str, folder: Path | None = None, host: str = HOST, days: str = DAYS) -> tuple[Path, Path]:
        """Make a certificate for servers at a host and for clients; return it and its key."""
        path = (folder or self.folder) / f"{name}.pem"
        names = ("IP:127.0.0.1", "DNS:localhost") if host == HOST else (f"DNS:{host}",)
        return issue(self.authority, path, f"/CN={name}", usages="digitalSignature", alternatives=names, days=days)

    def options(self, *, bookie_login: bool = False) -> tuple[str, ...]:
        """Return the options by which a pool connects to ZooKeeper and bookies."""
        files = {
            "trust-certificates": self.authority,
            "certificate": self.certificate(READER),
            "key": self.key(READER),
        }
        encrypted = ("metadata-store",) if bookie_login else ("metadata-store", "bookie")
        every = {f"--{peer}-tls-{name}": str(path) for peer in encrypted for name, path in files.items()}
        every["--metadata-store-login-file"] = str(self.login_file(READER))
        if bookie_login:
            every["--bookie-login-file"] = str(self.login_file(READER))
        return tuple(word for pair in every.items() for word in pair)


def secured(spec: PulsarSpec, folder: Path, *, bookie_login: bool = False) -> PulsarSpec:
    """Return a specification whose ZooKeeper has TLS and logins.

    Args:
        spec: the specification; its metadata store is ZooKeeper.
        folder: folder of the secrets, which are made if they are missing.
        bookie_login: whether bookies have logins, instead of TLS. They cannot have both: a bookie of 4.17 closes a connection
            that has no login at the end of the TLS handshake, and clients log in after it.
    """
    made = StoreSecrets.make(folder)
    url = f"zk:{HOST}:{spec.secure_port}"
    pem = {"Store.type": "PEM"}
    zookeeper = {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "secureClientPort": str(spec.secure_port),
        "secureClientPortAddress": HOST,
        **{f"ssl.{one}{key}": value for one in ("key", "trust") for key, value in pem.items()},
        "ssl.keyStore.location": str(made.key_store),
        "ssl.trustStore.location": str(made.authority),
        "ssl.clientAuth": "need",
        "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    }
    client = {
        "java.security.auth.login.config": str(made.client_jaas),
        **_NO_FIPS,
        "zookeeper.client.secure": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        **{f"zookeeper.ssl.{one}{key}": value for one in ("key", "trust") for key, value in pem.items()},
        "zookeeper.ssl.keyStore.location": str(made.key_store),
        "zookeeper.ssl.trustStore.location": str(made.authority),
    }
    broker = {
        "metadataStoreUrl": url,
        "configurationMetadataStoreUrl": url,
    }
    bookie = {"metadataServiceUri": f"metadata-store:{url}"}
    provider = "org.apache.bookkeeper.sasl.SASL"
    tls = "org.apache.bookkeeper.tls.TLSContextFactory"
    if bookie_login:
        broker["bookkeeperClientAuthenticationPlugin"] = f"{provider}ClientProviderFactory"
        bookie["bookieAuthProviderFactoryClass"] = f"{provider}BookieAuthProviderFactory"
        bookie["saslJaasClientAllowedIds"] = f"{SERVERS}|{READER}"
    else:
        broker |= {
            "bookkeeperTLSProviderFactoryClass": tls,
            "bookkeeperTLSClientAuthentication": "true",
            "bookkeeperTLSKeyFileType": "PEM",
            "bookkeeperTLSTrustCertTypes": "PEM",
            "bookkeeperTLSKeyFilePath": str(made.key(SERVERS)),
            "bookkeeperTLSCertificateFilePath": str(made.certificate(SERVERS)),
            "bookkeeperTLSTrustCertsFilePath": str(made.authority),
        }
        bookie |= {
            "tlsProvider": "JDK",
            "tlsProviderFactoryClass": tls,
            "tlsClientAuthentication": "true",
            "tlsKeyStoreType": "PEM",
            "tlsKeyStore": str(made.key(SERVERS)),
            "tlsCertificatePath": str(made.certificate(SERVERS)),
            "tlsTrustStoreType": "PEM",
            "tlsTrustStore": str(made.authority),
        }
    settings = [
        *(Setting("zookeeper", key, value) for key, value in zookeeper.items()),
        *(Setting("broker", key, value) for key, value in broker.items()),
        *(Setting("bookie", key, value) for key, value in bookie.items()),
        Setting(
            "zookeeper-env",
            "PULSAR_EXTRA_OPTS",
            _properties({"java.security.auth.login.config": str(made.server_jaas), **_NO_FIPS}),
        ),
        Setting("broker-env", "PULSAR_EXTRA_OPTS", _properties(client)),
        Setting("bookie-env", "BOOKIE_EXTRA_OPTS", _properties(client)),
    ]
    return replace(spec, settings=(*settings, *spec.settings), store_secrets=str(folder), bookie_login=bookie_login)


def _section(name: str, content: str) -> str:
    return f"{name} {{\n  {content};\n}};\n"


def _properties(values: dict[str, str]) -> str:
    return " ".join(f"-D{key}={value}" for key, value in values.items())


def _write(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    with open(path, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)
