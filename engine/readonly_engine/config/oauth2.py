"""The option `admin-oauth2`: access tokens of an OAuth 2.0 server as the broker's own identity.

The grant is client credentials, with the settings and the key file of the stock clients' AuthenticationOAuth2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from readonly_engine.config.kinds import ENDPOINT, FILE, TEXT, mapping_of
from readonly_engine.config.option import ConfigError, option

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth2Config:
    """Settings of access tokens. Each field is a key of `admin-oauth2`, with dashes."""

    issuer_url: str = field(
        default="",
        metadata=option(
            ENDPOINT, "issuer; the token endpoint is in its document .well-known/openid-configuration", unset="required"
        ),
    )
    audience: str = field(default="", metadata=option(TEXT, "audience of the tokens", unset="none"))
    scope: str = field(default="", metadata=option(TEXT, "scopes of the tokens, separated by blanks", unset="none"))
    key_file: Path | None = field(
        default=None,
        metadata=option(
            FILE, "JSON with client_id and client_secret, as stock clients have it; read again when it changes"
        ),
    )
    client_id_file: Path | None = field(
        default=None, metadata=option(FILE, "client id, instead of key-file; read again when it changes")
    )
    client_secret_file: Path | None = field(
        default=None, metadata=option(FILE, "client secret, instead of key-file; read again when it changes")
    )
    trust_certificates: Path | None = field(
        default=None,
        metadata=option(FILE, "PEM authorities of the issuer and its token endpoint", unset="those of the system"),
    )


def check_oauth2_config(config: OAuth2Config) -> None:
    """Check the keys against each other.

    Raises:
        ConfigError: a key is missing, or two contradict each other.
    """
    if not config.issuer_url:
        raise ConfigError("issuer-url is missing: give https://HOST[/PATH] of the issuer")
    parts = urlsplit(config.issuer_url)
    if not parts.hostname or parts.query or parts.fragment or parts.username is not None:
        raise ConfigError("issuer-url: must be https://HOST[:PORT][/PATH] without user, query and fragment")
    pair = (config.client_id_file, config.client_secret_file)
    if config.key_file is not None and any(pair):
        raise ConfigError("key-file and client-id-file exclude each other: give key-file, or the two other files")
    if config.key_file is None and not all(pair):
        raise ConfigError("key-file is missing: give it, or client-id-file and client-secret-file")


OAUTH2: Final = mapping_of(
    OAuth2Config,
    "{KEY: VALUE, ...}",
    "{issuer-url: 'https://issuer.example.com', key-file: /run/secrets/key.json}",
    check_oauth2_config,
    empty=False,
    required=("issuer-url",),
)
