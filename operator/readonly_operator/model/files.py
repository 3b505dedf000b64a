"""Mounted files of Secrets and ConfigMaps: certificates, keys, tokens.

The kubelet refreshes the volumes, and brokers read changed files again. A rotated Secret restarts nothing.
No environment variable, argument or ConfigMap contains anything of a Secret.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from readonly_operator.kube.http_ports import HTTP_TOKEN
from readonly_operator.kube.names import SECRETS_DIRECTORY, VOLUME_PREFIX
from readonly_operator.model.certificate import listener_certificate

if TYPE_CHECKING:
    from readonly_operator.api.pool import Pool
    from readonly_operator.api.pool.authentication import OAuth2
    from readonly_operator.api.pool.source import TlsClient
    from readonly_operator.api.secrets import Certificate, LoginKey, TrustedCertificates

KEY_FILE = "key.json"
CLIENT_ID = "client-id"
CLIENT_SECRET = "client-secret"  # noqa: S105 (the name of a file)


@dataclass(frozen=True, slots=True)
class Mount:
    """Volume with files of one Secret or ConfigMap.

    Attributes:
        purpose: names the volume and its directory.
        files: file name by the engine's option.
        keys: key of the Secret or ConfigMap by file name.
        secret: the Secret; empty for a ConfigMap.
        config_map: the ConfigMap; empty for a Secret.
    """

    purpose: str
    files: dict[str, str]
    keys: dict[str, str]
    secret: str = ""
    config_map: str = ""
    directory: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "directory", f"{SECRETS_DIRECTORY}/{self.purpose}")

    def options(self) -> dict[str, str]:
        """Return the engine's options with the paths of the files."""
        return {option: f"{self.directory}/{name}" for option, name in self.files.items()}

    def volume(self) -> dict[str, Any]:
        """Return the volume. Every user of the pod may read a Secret's files: brokers run as any user, and nothing else does."""
        items = [{"key": key, "path": name} for name, key in self.keys.items()]
        if self.secret:
            source = {"secret": {"secretName": self.secret, "items": items, "defaultMode": 0o444}}
        else:
            source = {"configMap": {"name": self.config_map, "items": items}}
        return {"name": f"{VOLUME_PREFIX}{self.purpose}", **source}

    def mount(self) -> dict[str, Any]:
        """Return the container's volume mount."""
        return {"name": f"{VOLUME_PREFIX}{self.purpose}", "mountPath": self.directory, "readOnly": True}


def mounts(pool: Pool) -> list[Mount]:
    """Return all volumes with files that a pool's brokers read."""
    found: list[Mount] = []
    source, tls = pool.source, pool.listeners.tls
    if source.authentication is not None and source.authentication.oauth2 is not None:
        found += _oauth2(source.authentication.oauth2)
    elif source.authentication is not None and source.authentication.secret_ref is not None:
        secret = source.authentication.secret_ref
        found.append(
            Mount("admin-token", {"admin-token-file": "token"}, {"token": secret.key}, secret=secret.name),
        )
    if source.tls is not None:
        found += _client("broker", source.tls.brokers) + _client("bookie", source.tls.bookies)
        found += _client("metadata-store", source.tls.metadata_store)
    if source.metadata_store_login is not None:
        found.append(_login("metadata-store", source.metadata_store_login.secret_ref))
    if source.bookie_login is not None:
        found.append(_login("bookie", source.bookie_login.secret_ref))
    found += listener_mounts(pool)
    if tls is not None and tls.peer_trust_certificates is not None:
        found.append(_trust("peer-tls", tls.peer_trust_certificates))
    token = pool.http.token_secret_ref
    if token is not None:
        found.append(Mount(HTTP_TOKEN, {"http-token-file": "token"}, {"token": token.key}, secret=token.name))
    if pool.tiered_storage is not None and pool.tiered_storage.credentials is not None:
        secret_key = pool.tiered_storage.credentials
        found.append(
            Mount("tiered-storage", {}, {"credentials": secret_key.key}, secret=secret_key.name),
        )
    return found


def listener_mounts(pool: Pool) -> list[Mount]:
    """Return the volumes with files of the listeners with TLS, none of the source cluster."""
    tls = pool.listeners.tls
    if tls is None:
        return []
    found = [_certificate("tls", listener_certificate(pool, tls))]
    if tls.trust_certificates is not None:
        found.append(_trust("tls", tls.trust_certificates))
    return found


def _oauth2(wanted: OAuth2) -> list[Mount]:
    """Return the files of access tokens. The option that names them is a mapping; see `oauth2_options`."""
    secret = wanted.secret_ref
    keys = {KEY_FILE: secret.key_file, CLIENT_ID: secret.client_id, CLIENT_SECRET: secret.client_secret}
    given = {name: key for name, key in keys.items() if key}
    found = [Mount("admin-oauth2", {}, given, secret=secret.name)]
    trusted = wanted.trust_certificates
    if trusted is not None:
        found.append(
            Mount(
                "admin-oauth2-trust",
                {},
                {"ca.crt": trusted.key},
                secret=trusted.secret_name,
                config_map=trusted.config_map_name,
            )
        )
    return found


def oauth2_options(wanted: OAuth2) -> dict[str, str]:
    """Return the engine's option admin-oauth2."""
    made = {"issuer-url": wanted.issuer_url, "audience": wanted.audience, "scope": wanted.scope}
    credentials, *trust = _oauth2(wanted)
    options = {KEY_FILE: "key-file", CLIENT_ID: "client-id-file", CLIENT_SECRET: "client-secret-file"}
    files = {options[name]: f"{credentials.directory}/{name}" for name in credentials.keys}
    if trust:
        files["trust-certificates"] = f"{trust[0].directory}/ca.crt"
    return {**{name: value for name, value in made.items() if value}, **files}


def _client(peer: str, tls: TlsClient | None) -> list[Mount]:
    found: list[Mount] = []
    if tls is not None and tls.trust_certificates is not None:
        found.append(_trust(f"{peer}-tls", tls.trust_certificates))
    if tls is not None and tls.client_certificate is not None:
        found.append(_certificate(f"{peer}-tls", tls.client_certificate))
    return found


def _login(peer: str, login: LoginKey) -> Mount:
    return Mount(f"{peer}-login", {f"{peer}-login-file": "login"}, {"login": login.key}, secret=login.name)


def _trust(prefix: str, trusted: TrustedCertificates) -> Mount:
    return Mount(
        f"{prefix}-trust",
        {f"{prefix}-trust-certificates": "ca.crt"},
        {"ca.crt": trusted.key},
        secret=trusted.secret_name,
        config_map=trusted.config_map_name,
    )


def _certificate(prefix: str, certificate: Certificate) -> Mount:
    return Mount(
        f"{prefix}-certificate",
        {f"{prefix}-certificate": "tls.crt", f"{prefix}-key": "tls.key"},
        {"tls.crt": certificate.certificate, "tls.key": certificate.private_key},
        secret=certificate.secret_name,
    )
