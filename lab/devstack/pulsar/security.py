"""Keys, tokens, passwords and certificates of a stack with authentication, and its settings."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from devstack.common.certificates import issue, make_authority, openssl
from devstack.pulsar.spec import HOST, Setting

if TYPE_CHECKING:
    from pathlib import Path

    from devstack.pulsar.spec import PulsarSpec

ADMIN_ROLE: Final = "admin"
"""The superuser role of the brokers and of the tests' set-up."""

TLS_PORT: Final = 21
HTTPS_PORT: Final = 25
"""Offsets of the first broker's TLS ports from the stack's base port, for up to four brokers."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a stack in one folder.

    Attributes:
        folder: folder of the files.
    """

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Credentials:
        """Make missing files: secret key, superuser's token, authority, and the brokers' certificate."""
        made = cls(folder)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not made.secret_key.exists():
            made.secret_key.write_bytes(os.urandom(32))
        if not made.admin_token_file.exists():
            made.admin_token_file.write_text(made.token(ADMIN_ROLE))
        if not made.authority.exists():
            make_authority(made.authority, "pulsar-readonly test authority")
        if not (folder / "broker.pem").exists():
            made.certificate("broker")
        return made

    @property
    def secret_key(self) -> Path:
        """The key that signs tokens (HMAC-SHA256)."""
        return self.folder / "secret.key"

    @property
    def admin_token_file(self) -> Path:
        """The superuser's token, without expiry."""
        return self.folder / "admin.token"

    @property
    def authority(self) -> Path:
        """Certificate of the authority that signs all others."""
        return self.folder / "ca.pem"

    @property
    def passwords(self) -> Path:
        """Users and passwords of basic authentication, in the format of Apache's htpasswd."""
        return self.folder / "htpasswd"

    def token(self, role: str, seconds: float | None = None) -> str:
        """Return a JSON Web Token for a role; it expires after `seconds`, or never for None."""
        claims: dict[str, object] = {"sub": role}
        if seconds is not None:
            claims["exp"] = int(time.time() + seconds)
        head = _base64(json.dumps({"alg": "HS256"}).encode())
        body = _base64(json.dumps(claims).encode())
        signed = hmac.new(self.secret_key.read_bytes(), f"{head}.{body}".encode(), hashlib.sha256).digest()
        return f"{head}.{body}.{_base64(signed)}"

    def set_passwords(self, passwords: dict[str, str]) -> None:
        """Write the users and passwords of basic authentication; brokers read them at start."""
        salted = {
            user: openssl("passwd", "-apr1", "-salt", "readonly", password).strip()
            for user, password in passwords.items()
        }
        self.passwords.write_text("".join(f"{user}:{password}\n" for user, password in salted.items()))

    def certificate(self, name: str, folder: Path | None = None, host: str = HOST) -> tuple[Path, Path]:
        """Make a signed certificate for servers at `host` and for clients; return it and its key."""
        path = (folder or self.folder) / f"{name}.pem"
        kind = "IP" if host.replace(".", "").isdigit() else "DNS"
        return issue(self.authority, path, f"/CN={name}", usages="digitalSignature", alternatives=(f"{kind}:{host}",))

    def settings(self, spec: PulsarSpec) -> tuple[Setting, ...]:
        """Return the settings of a stack with authentication, authorization and TLS on brokers and bookies."""
        provider = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
        every = {
            "authenticationEnabled": "true",
            "authorizationEnabled": "true",
            "authenticationProviders": f"{provider}Token,{provider}Basic",
            "superUserRoles": ADMIN_ROLE,
            "tokenSecretKey": f"file://{self.secret_key}",
            "basicAuthConf": f"file://{self.passwords}",
            "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
            "brokerClientAuthenticationParameters": f"file://{self.admin_token_file}",
            "tlsCertificateFilePath": str(self.folder / "broker.pem"),
            "tlsKeyFilePath": str(self.folder / "broker.key"),
            "tlsTrustCertsFilePath": str(self.authority),
        }
        own = [
            Setting(f"broker-{index}", key, str(spec.base_port + first + index))
            for index in range(spec.brokers)
            for key, first in (("brokerServicePortTls", TLS_PORT), ("webServicePortTls", HTTPS_PORT))
        ]
        bookies = {
            "tlsProvider": "JDK",
            "tlsProviderFactoryClass": "org.apache.bookkeeper.tls.TLSContextFactory",
            "tlsClientAuthentication": "true",
            "tlsKeyStoreType": "PEM",
            "tlsKeyStore": str(self.folder / "broker.key"),
            "tlsCertificatePath": str(self.folder / "broker.pem"),
            "tlsTrustStoreType": "PEM",
            "tlsTrustStore": str(self.authority),
        }
        every_bookie = [Setting("bookie", key, value) for key, value in bookies.items()]
        return (*(Setting("broker", key, value) for key, value in every.items()), *own, *every_bookie)


def tls_url(spec: PulsarSpec, broker: int = 0) -> str:
    """Return the TLS service URL of a broker."""
    return f"pulsar+ssl://{HOST}:{spec.base_port + TLS_PORT + broker}"


def https_url(spec: PulsarSpec, broker: int = 0) -> str:
    """Return the HTTPS URL of a broker's admin API."""
    return f"https://{HOST}:{spec.base_port + HTTPS_PORT + broker}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
