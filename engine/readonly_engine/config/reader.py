"""Read the settings of a broker: the YAML file of --config, then the command line, which wins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from readonly_engine.config.listeners import check_bind_addresses
from readonly_engine.config.option import (
    ConfigError,
    Option,
    check_keys,
    key_of,
    options_of,
    read_options,
    without_unknown,
)
from readonly_engine.config.replay import check_replay
from readonly_engine.config.settings import WARN_UNKNOWN, EngineConfig
from readonly_engine.config.yaml_file import YamlFileError, read_yaml
from readonly_engine.metadata.security import LoginScheme, NodeRights
from readonly_engine.net.interfaces import LOOPBACK_HOSTS, is_public

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


def read_config_file(path: Path, ignored: Callable[[str], object] = lambda _: None) -> dict[str, Any]:
    """Return the values in a YAML file by key, not checked yet.

    Args:
        path: the file.
        ignored: called with each unknown key of a file that says `unknown-keys: warn`.

    Raises:
        ConfigError: the file cannot be read, is not YAML, or has an unknown key.
    """
    try:
        document = read_yaml(path, "--config")
    except YamlFileError as error:
        raise ConfigError(str(error)) from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"--config {path} must be a mapping of settings")
    if document.get("unknown-keys") == WARN_UNKNOWN:
        document, unknown = without_unknown(EngineConfig, document)
        for key in unknown:
            ignored(key)
    try:
        check_keys(EngineConfig, document)
    except ConfigError as error:
        raise ConfigError(f"--config {path}: {error}") from error
    return document


def make_config(
    file_settings: Mapping[str, Any], flags: Mapping[str, Any], *, topics_required: bool = True
) -> EngineConfig:
    """Return the settings from values of a file and of flags, both by key.

    Args:
        file_settings: values of the file.
        flags: values of flags, which win.
        topics_required: whether topics or bindings must be given.

    Raises:
        ConfigError: a required option is missing, a value has another form, or two contradict each other.
    """
    settings = {**file_settings, **flags}
    for one in options_of(EngineConfig):
        if one.required and one.key not in settings:
            raise ConfigError(f"{one.key} is missing: give it as {one.flag} or as {one.key} in the file of --config")

    def where(one: Option) -> str:
        return one.flag if one.key in flags else f"{one.key} in the file of --config"

    config = EngineConfig(**read_options(EngineConfig, settings, where))
    try:
        check_bind_addresses(config.bind_addresses, config.advertised_listeners)
    except ConfigError as error:
        raise ConfigError(f"bind-addresses: {error}") from error
    if topics_required and not config.topics and config.bindings is None:
        raise ConfigError(
            "topics is missing: give --topics PATTERN, or --bindings FILE for topics that an operator binds"
        )
    check_replay(config.replay, settings)
    _check_tls(config)
    _check_http(config)
    if config.admin_oauth2 is not None and config.admin_token_file is not None:
        raise ConfigError("admin-oauth2 and admin-token-file exclude each other: give one of them")
    if config.metadata_store_node_rights is NodeRights.CREATOR and config.metadata_store_login_file is None:
        raise ConfigError("metadata-store-login-file is missing: metadata-store-node-rights creator needs it")
    if config.metadata_store_login_scheme is LoginScheme.DIGEST and config.metadata_store_login_file is None:
        raise ConfigError("metadata-store-login-file is missing: metadata-store-login-scheme needs it")
    return config


def _check_tls(config: EngineConfig) -> None:
    """Check the options of TLS against each other.

    Raises:
        ConfigError: one needs another, or would have no effect.
    """
    for prefix in ("tls", "metadata_store_tls", "broker_tls", "bookie_tls"):
        pair = [f"{prefix}_{name}" for name in ("certificate", "key")]
        given = [name for name in pair if getattr(config, name) is not None]
        if len(given) == 1:
            (missing,) = set(pair) - set(given)
            raise ConfigError(f"{key_of(missing)} is missing: {key_of(given[0])} needs it")
    if config.tls_listen is None and any(address.tls for address in config.bind_addresses):
        raise ConfigError("tls-listen is missing: bind-addresses with pulsar+ssl:// use its certificate")
    if config.tls_listen is not None and config.tls_certificate is None:
        raise ConfigError("tls-certificate and tls-key are missing: tls-listen needs them")
    own = () if config.http_tls else ("tls_certificate", "peer_tls_trust_certificates")
    for name, needed in (
        *((name, "tls_listen") for name in (*own, "tls_trust_certificates", "advertised_tls_url")),
        *((name, "broker_tls") for name in ("broker_tls_trust_certificates", "broker_tls_certificate")),
    ):
        if getattr(config, name) and getattr(config, needed) is None:
            what = (
                "tls-listen" if needed == "tls_listen" else "a service-url of pulsar+ssl:// or an admin-url of https://"
            )
            raise ConfigError(f"{key_of(name)} is given without {what}: it has no effect")


def _check_http(config: EngineConfig) -> None:
    """Check the options of the HTTP port against each other.

    Raises:
        ConfigError: one needs another, or the port would be open to the internet, or the token readable on its way.
    """
    if config.http_tls and config.tls_certificate is None:
        raise ConfigError("tls-certificate and tls-key are missing: http-tls needs them")
    if config.http_token_file is not None and not config.http_tls and config.http.host not in LOOPBACK_HOSTS:
        raise ConfigError(
            f"http-tls is missing: http-token-file needs it with http {config.http}, or others read the token on its way; "
            "without TLS, listen on 127.0.0.1"
        )
    if is_public(config.http.host) and config.http_token_file is None:
        raise ConfigError(
            f"http: {config.http} is an address of the internet, where anyone could read topics and subscriptions: give "
            "http-tls and http-token-file, or a private address"
        )
