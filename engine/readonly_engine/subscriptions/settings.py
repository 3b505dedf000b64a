"""The options of `pulsar-readonly subscriptions`. Those that `serve` has, too, are declared there."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from readonly_engine.config.kinds import BOOLEAN, FILE, split_urls, urls
from readonly_engine.config.option import ConfigError, Option, option, options_of, read_options
from readonly_engine.config.settings import EngineConfig
from readonly_engine.config.tls_options import tls_files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from readonly_engine.config.oauth2 import OAuth2Config
    from readonly_engine.net.tls import TlsFiles

_SERVE = {one.name: one.metadata for one in fields(EngineConfig)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolConfig:
    """Settings of the command. A field's name with dashes is its flag; those of `serve` are also keys of the file of --config."""

    service_url: str = field(metadata=_SERVE["service_url"])
    admin_url: str = field(metadata=_SERVE["admin_url"])
    admin_token_file: Path | None = field(default=None, metadata=_SERVE["admin_token_file"])
    admin_oauth2: OAuth2Config | None = field(default=None, metadata=_SERVE["admin_oauth2"])
    broker_tls_trust_certificates: Path | None = field(default=None, metadata=_SERVE["broker_tls_trust_certificates"])
    broker_tls_certificate: Path | None = field(default=None, metadata=_SERVE["broker_tls_certificate"])
    broker_tls_key: Path | None = field(default=None, metadata=_SERVE["broker_tls_key"])
    broker_tls_hostname_verification: bool = field(default=True, metadata=_SERVE["broker_tls_hostname_verification"])
    pool: str = field(default="default", metadata=_SERVE["pool"])
    pool_uid: str = field(default="", metadata=_SERVE["pool_uid"])
    pool_service_url: str = field(
        default="",
        metadata=option(
            urls("pulsar", "pulsar+ssl"), "service URL of the pool; commands that change a subscription need it"
        ),
    )
    pool_token_file: Path | None = field(
        default=None,
        metadata=option(
            FILE,
            "token for the pool: the owner must permit its role to consume the subscription",
            unset="that of --admin-token-file or --admin-oauth2",
        ),
    )
    pool_tls_trust_certificates: Path | None = field(
        default=None,
        metadata=option(FILE, "PEM authorities of the pool's brokers", unset="those of the system"),
    )
    pool_tls_hostname_verification: bool = field(
        default=True, metadata=option(BOOLEAN, "whether the certificate of a pool's broker must name its host")
    )

    @property
    def identity(self) -> str:
        """Identity of the pool (PoolMembership.identity)."""
        return f"{self.pool}@{self.pool_uid}" if self.pool_uid else self.pool

    @property
    def admin_urls(self) -> tuple[str, ...]:
        """One URL for each named admin API of the source cluster."""
        return split_urls(self.admin_url)

    @property
    def broker_tls(self) -> TlsFiles | None:
        """Files of TLS with the source cluster's brokers; None without TLS."""
        return tls_files(self, "broker-tls", self.service_url, self.admin_url)

    @property
    def pool_tls(self) -> TlsFiles | None:
        """Files of TLS with the pool's brokers; None without TLS."""
        return tls_files(self, "pool-tls", self.pool_service_url)

    @property
    def user_token_file(self) -> Path | None:
        """File with the user's token; None for none."""
        return self.pool_token_file or self.admin_token_file


SHARED_WITH_SERVE = frozenset(_SERVE) & {one.name for one in fields(ToolConfig)}
"""Fields whose values a configuration file of `serve` has."""


def make_tool_config(file_settings: Mapping[str, Any], flags: Mapping[str, Any]) -> ToolConfig:
    """Return the settings from values of a configuration file of `serve` and of flags, both by key.

    Raises:
        ConfigError: a required option is missing, or a value has another form.
    """
    shared = {one.key for one in options_of(ToolConfig) if one.name in SHARED_WITH_SERVE}
    settings = {**{key: value for key, value in file_settings.items() if key in shared}, **flags}
    for one in options_of(ToolConfig):
        if one.required and one.key not in settings:
            raise ConfigError(f"{one.flag} is missing: give it, or --config with a file of `serve` that has {one.key}")

    def where(one: Option) -> str:
        return one.flag if one.key in flags else f"{one.key} in the file of --config"

    return ToolConfig(**read_options(ToolConfig, settings, where))
