"""The configuration of `pulsar-readonly serve`: a YAML file and flags with the same names; flags win."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from readonly_engine.broker.bindings import Unbound
from readonly_engine.broker.dispatch.rate import UNLIMITED, DispatchRate
from readonly_engine.broker.limits import LimitSettings
from readonly_engine.broker.listeners import (
    BindAddress,
    ListenerError,
    Urls,
    parse_advertised_listeners,
    parse_bind_addresses,
)
from readonly_engine.locality import is_place
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.metadata.url import hosts_in
from readonly_engine.tiered.config import TieredConfig, TieredConfigError, parse_tiered_config
from readonly_engine.tls import TlsFiles
from readonly_engine.yaml_file import YamlFileError, parse_yaml, read_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SIZE = re.compile(r"([0-9]{1,18})(B|KiB|MiB|GiB)?")
_UNITS = {None: 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")


class ConfigError(ValueError):
    """A setting that cannot be used: names it, and says what would be right."""


class Address(NamedTuple):
    """Where to listen."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


MOST_WORKERS = 64

ALL_INTERFACES = "0.0.0.0"  # noqa: S104 - what a server in a container listens on
AS_NOTED = TieredConfig()
LISTEN = Address(ALL_INTERFACES, 6650)
HTTP = Address(ALL_INTERFACES, 8080)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Settings of one broker. A field's name with dashes is its flag and its key in the file.

    Attributes:
        metadata_store: ZooKeeper of the writable cluster, `zk:HOST:PORT[,HOST:PORT...][/chroot]`.
        writer_url: service URL of the writable cluster, `pulsar://HOST:PORT[,HOST:PORT...]` or `pulsar+ssl://...`.
        admin_url: admin API of the writable cluster, `http://HOST:PORT[,HOST:PORT...]` or `https://...`.
        writer_tls_trust_certificates: PEM authorities of the writable cluster's brokers; without it, those of the system.
        writer_tls_certificate: PEM certificate that this broker shows to them.
        writer_tls_key: PEM key of that certificate.
        writer_tls_verify_hostname: whether the certificate of a writable broker must name its host.
        admin_token_file: file with the token for the admin API, read again when it changes.
        bookie_tls_trust_certificates: PEM authorities of the bookies; any of the four `bookie-tls` keys turns on TLS to bookies.
        bookie_tls_certificate: PEM certificate that this broker shows to bookies.
        bookie_tls_key: PEM key of that certificate.
        bookie_tls_verify_hostname: whether the certificate of a bookie must name its host.
        listen: address for clients without TLS.
        http: address for health, metrics and statistics.
        advertised_url: URL of this broker in lookup answers, `pulsar://HOST:PORT`; without it, made from `listen`.
        tls_listen: address for clients with TLS; without it, none.
        tls_certificate: PEM certificate that clients get, read again when it changes.
        tls_key: PEM key of that certificate.
        tls_trust_certificates: PEM authorities of client certificates; with it, each client must show one.
        advertised_tls_url: URL of this broker in lookup answers to clients with TLS; without it, made from `tls-listen`.
        advertised_listeners: URLs of this broker for clients of named listeners (PIP-61).
        bind_addresses: further addresses for clients of named listeners (PIP-95), besides `listen` and `tls-listen`.
        peer_tls_trust_certificates: PEM authorities of the pool's own brokers; with it, they connect to each other with TLS only.
        topics: bound topics, names or regular expressions; they are bound in addition to the bindings file.
        bindings: file of bindings, read again when it changes.
        lookup_unbound: answer to lookups of unbound topics: the owner, a relay through this pool, or an error.
        pool: name of the pool; brokers of one pool share its consumers.
        pool_uid: identity that keeps pools of the same name in one metadata store apart; empty for none.
        locality: place of this broker, `/RACK` or `/ZONE/RACK` as for bookies; near bookies are read first; empty for any.
        locality_file: file with the place, read again when it changes; it wins over `locality`.
        cache_size: bytes of entries kept in memory.
        tiered_storage: how offloaded ledgers are read (below).
        dispatch_rate_per_subscription: limit of each subscription, per second.
        dispatch_rate_per_broker: limit of all subscriptions of this broker together, per second.
        max_connections: limit of client connections, 0 for none.
        max_connections_per_ip: limit of client connections from one address, 0 for none.
        max_consumers_per_topic: limit of consumers of a topic or partition on this broker, 0 for none.
        max_consumers_per_subscription: limit of consumers of a subscription on this broker, 0 for none.
        max_buffered_bytes: bytes that wait for slow clients, of all clients together.
        workers: broker processes on this machine, each with ports of its own.
        log_level: lowest level of log lines.
        log_format: form of log lines.
    """

    metadata_store: str
    writer_url: str
    admin_url: str
    writer_tls_trust_certificates: Path | None = None
    writer_tls_certificate: Path | None = None
    writer_tls_key: Path | None = None
    writer_tls_verify_hostname: bool = True
    admin_token_file: Path | None = None
    bookie_tls_trust_certificates: Path | None = None
    bookie_tls_certificate: Path | None = None
    bookie_tls_key: Path | None = None
    bookie_tls_verify_hostname: bool = True
    listen: Address = LISTEN
    http: Address = HTTP
    advertised_url: str = ""
    tls_listen: Address | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_trust_certificates: Path | None = None
    advertised_tls_url: str = ""
    advertised_listeners: Mapping[str, Urls] = field(default_factory=dict)
    bind_addresses: tuple[BindAddress, ...] = ()
    peer_tls_trust_certificates: Path | None = None
    topics: tuple[str, ...] = ()
    bindings: Path | None = None
    lookup_unbound: Unbound = Unbound.REDIRECT
    pool: str = "default"
    pool_uid: str = ""
    locality: str = ""
    locality_file: Path | None = None
    cache_size: int = 256 << 20
    tiered_storage: TieredConfig = AS_NOTED
    dispatch_rate_per_subscription: DispatchRate = UNLIMITED
    dispatch_rate_per_broker: DispatchRate = UNLIMITED
    max_connections: int = 0
    max_connections_per_ip: int = 0
    max_consumers_per_topic: int = 0
    max_consumers_per_subscription: int = 0
    max_buffered_bytes: int = 512 << 20
    workers: int = 1
    log_level: str = "info"
    log_format: str = "text"

    @property
    def limits(self) -> LimitSettings:
        """How many connections and consumers the broker takes."""
        return LimitSettings(
            connections=self.max_connections,
            connections_per_ip=self.max_connections_per_ip,
            consumers_per_topic=self.max_consumers_per_topic,
            consumers_per_subscription=self.max_consumers_per_subscription,
            buffered_bytes=self.max_buffered_bytes,
        )

    @property
    def writer_urls(self) -> tuple[str, ...]:
        """Each broker of the writable cluster that is named."""
        return _each(self.writer_url)

    @property
    def admin_urls(self) -> tuple[str, ...]:
        """Each admin API of the writable cluster that is named."""
        return _each(self.admin_url)

    @property
    def tls(self) -> TlsFiles | None:
        """TLS towards clients; None for none."""
        if self.tls_listen is None:
            return None
        return TlsFiles("tls", self.tls_trust_certificates, self.tls_certificate, self.tls_key)

    @property
    def peer_tls(self) -> TlsFiles | None:
        """TLS towards the other brokers of the pool; None for none. They are shown what clients are shown."""
        if self.peer_tls_trust_certificates is None:
            return None
        return TlsFiles("peer-tls", self.peer_tls_trust_certificates, self.tls_certificate, self.tls_key)

    @property
    def writer_tls(self) -> TlsFiles | None:
        """TLS towards the writable cluster; None for none."""
        if not _encrypted(self.writer_url) and not _encrypted(self.admin_url):
            return None
        return TlsFiles(
            "writer-tls",
            self.writer_tls_trust_certificates,
            self.writer_tls_certificate,
            self.writer_tls_key,
            self.writer_tls_verify_hostname,
        )

    @property
    def bookie_tls(self) -> TlsFiles | None:
        """TLS towards bookies; None for none."""
        given = TlsFiles(
            "bookie-tls",
            self.bookie_tls_trust_certificates,
            self.bookie_tls_certificate,
            self.bookie_tls_key,
            self.bookie_tls_verify_hostname,
        )
        return None if given == TlsFiles("bookie-tls") else given

    @property
    def zookeeper_hosts(self) -> str:
        """The metadata store as ZooKeeper's clients write it."""
        return hosts_in(self.metadata_store)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError("must be a text")
    return value


def _metadata_store(value: object) -> str:
    text = _text(value)
    try:
        hosts_in(text)
    except MetadataError as error:
        raise ConfigError(str(error)) from error
    return text


def _encrypted(url: str) -> bool:
    return url.startswith(("pulsar+ssl:", "https:"))


def _each(url: str) -> tuple[str, ...]:
    scheme, _, hosts = url.partition("://")
    return tuple(f"{scheme}://{host}" for host in hosts.split(","))


def _urls(*schemes: str) -> Callable[[object], str]:
    """One scheme and one host or several, as Pulsar writes a service URL."""

    def parse(value: object) -> str:
        text = _text(value).rstrip("/")
        scheme = text.partition("://")[0]
        if scheme not in schemes or not all(_is_url(url, scheme) for url in _each(text)):
            right = " or ".join(f"{scheme}://HOST:PORT[,HOST:PORT...]" for scheme in schemes)
            raise ConfigError(f"{text!r} would be {right}")
        return text

    return parse


def _is_url(text: str, scheme: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme == scheme and bool(parts.hostname) and (parts.port or 1) > 0 and parts.path in {"", "/"}
    except ValueError:
        return False


def _url(scheme: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        text = _text(value)
        if not _is_url(text, scheme):
            raise ConfigError(f"{text!r} would be {scheme}://HOST:PORT")
        return text.rstrip("/")

    return parse


def _address(value: object) -> Address:
    text = _text(value)
    host, _, port = text.rpartition(":")
    if not host or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise ConfigError(f"{text!r} would be HOST:PORT")
    return Address(host.strip("[]"), int(port))


def _texts(value: object, what: str = "topics or patterns") -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) and item for item in value):
        raise ConfigError(f"must be a list of {what}")
    return tuple(value)


def _items(value: object) -> tuple[str, ...]:
    """A list, or a text with commas as Pulsar writes one."""
    return _texts(value.split(",") if isinstance(value, str) else value, "texts NAME:pulsar://HOST:PORT")


def _advertised_listeners(value: object) -> Mapping[str, Urls]:
    try:
        return parse_advertised_listeners(_items(value))
    except ListenerError as error:
        raise ConfigError(str(error)) from error


def _size(value: object) -> int:
    match = _SIZE.fullmatch(str(value)) if isinstance(value, (str, int)) and not isinstance(value, bool) else None
    if match is None:
        raise ConfigError(f"{value!r} would be a size as 64MiB or 1GiB")
    return int(match[1]) * _UNITS[match[2]]


def _count(value: object) -> int:
    text = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    if not re.fullmatch("[0-9]{1,18}", text):
        raise ConfigError(f"{value!r} would be a number, 0 for no limit")
    return int(text)


def _workers(value: object) -> int:
    text = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    if not re.fullmatch("[0-9]{1,3}", text) or not 0 < int(text) <= MOST_WORKERS:
        raise ConfigError(f"{value!r} would be a number from 1 to {MOST_WORKERS}, best that of the cores")
    return int(text)


def _tiered_storage(value: object) -> TieredConfig:
    """A mapping, or on the command line a text that is one in YAML."""
    if isinstance(value, str):
        try:
            value = parse_yaml(value)
        except YamlFileError:
            raise ConfigError(f"{value!r} would be a mapping as {{read-priority: bookkeeper-first}}") from None
    try:
        return parse_tiered_config(value, _size)
    except TieredConfigError as error:
        raise ConfigError(str(error)) from error


def _dispatch_rate(value: object) -> DispatchRate:
    """A mapping, or on the command line a text that is one in YAML."""
    wrong = ConfigError(f"{value!r} would be a mapping of what a second allows, as {{messages: 1000, bytes: 10MiB}}")
    if isinstance(value, str):
        try:
            value = parse_yaml(value)
        except YamlFileError:
            raise wrong from None
    if not isinstance(value, dict) or not value or set(value) - {"messages", "bytes"}:
        raise wrong
    messages = value.get("messages", 0)
    if not isinstance(messages, int) or isinstance(messages, bool) or messages < 0:
        raise ConfigError(f"messages: {messages!r} would be a number of messages a second, 0 for no limit")
    try:
        return DispatchRate(messages, _size(value.get("bytes", 0)))
    except ConfigError as error:
        raise ConfigError(f"bytes: {error}") from error


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value not in {"true", "false"}:
        raise ConfigError(f"{value!r} would be true or false")
    return value == "true"


def _locality(value: object) -> str:
    text = _text(value)
    if not is_place(text):
        raise ConfigError(
            f"{text!r} would be /RACK or /ZONE/RACK, as bookies are placed by pulsar-admin bookies set-bookie-rack"
        )
    return text


def _path(value: object) -> Path:
    return Path(_text(value))


def _one_of(choices: tuple[str, ...]) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if value not in choices:
            raise ConfigError(f"{value!r} would be one of {', '.join(choices)}")
        return str(value)

    return parse


def _unbound(value: object) -> Unbound:
    return Unbound(_one_of(tuple(Unbound))(value))


_PARSERS: Mapping[str, Callable[[object], Any]] = {
    "metadata_store": _metadata_store,
    "writer_url": _urls("pulsar", "pulsar+ssl"),
    "admin_url": _urls("http", "https"),
    "writer_tls_trust_certificates": _path,
    "writer_tls_certificate": _path,
    "writer_tls_key": _path,
    "writer_tls_verify_hostname": _flag,
    "admin_token_file": _path,
    "bookie_tls_trust_certificates": _path,
    "bookie_tls_certificate": _path,
    "bookie_tls_key": _path,
    "bookie_tls_verify_hostname": _flag,
    "listen": _address,
    "http": _address,
    "advertised_url": _url("pulsar"),
    "tls_listen": _address,
    "tls_certificate": _path,
    "tls_key": _path,
    "tls_trust_certificates": _path,
    "advertised_tls_url": _url("pulsar+ssl"),
    "advertised_listeners": _advertised_listeners,
    "bind_addresses": _items,
    "peer_tls_trust_certificates": _path,
    "topics": _texts,
    "bindings": _path,
    "lookup_unbound": _unbound,
    "pool": _text,
    "pool_uid": _text,
    "locality": _locality,
    "locality_file": _path,
    "cache_size": _size,
    "tiered_storage": _tiered_storage,
    "dispatch_rate_per_subscription": _dispatch_rate,
    "dispatch_rate_per_broker": _dispatch_rate,
    "max_connections": _count,
    "max_connections_per_ip": _count,
    "max_consumers_per_topic": _count,
    "max_consumers_per_subscription": _count,
    "max_buffered_bytes": _size,
    "workers": _workers,
    "log_level": _one_of(LOG_LEVELS),
    "log_format": _one_of(LOG_FORMATS),
}

KEYS = tuple(field.name.replace("_", "-") for field in fields(EngineConfig))
"""The names of all settings, as flags and in the file."""

_REQUIRED = ("metadata-store", "writer-url", "admin-url")


def read_config_file(path: Path) -> dict[str, Any]:
    """The settings in a file, not looked into yet.

    Raises:
        ConfigError: the file cannot be read, is not YAML, or has a key that is no setting.
    """
    try:
        document = read_yaml(path, "--config")
    except YamlFileError as error:
        raise ConfigError(str(error)) from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"--config {path} must be a mapping of settings")
    unknown = sorted(str(key) for key in document if key not in KEYS)
    if unknown:
        raise ConfigError(f"--config {path}: unknown key {unknown[0]!r}; known are {', '.join(KEYS)}")
    return document


def make_config(file_settings: Mapping[str, Any], flags: Mapping[str, Any]) -> EngineConfig:
    """The configuration of settings from a file and of flags that were given.

    Raises:
        ConfigError: a setting is missing, or is not what it should be.
    """
    settings = {**file_settings, **flags}
    for key in _REQUIRED:
        if key not in settings:
            raise ConfigError(f"{key} is missing: give it as --{key} or as {key} in the file of --config")
    values = {}
    for key, value in settings.items():
        name = key.replace("-", "_")
        try:
            values[name] = _PARSERS[name](value)
        except ConfigError as error:
            where = f"--{key}" if key in flags else f"{key} in the file of --config"
            raise ConfigError(f"{where}: {error}") from error
    if "bind_addresses" in values:
        try:
            values["bind_addresses"] = parse_bind_addresses(
                values["bind_addresses"], values.get("advertised_listeners", {})
            )
        except ListenerError as error:
            raise ConfigError(f"bind-addresses: {error}") from error
    config = EngineConfig(**values)
    if not config.topics and config.bindings is None:
        raise ConfigError(
            "topics is missing: give --topics PATTERN, or --bindings FILE for topics that an operator binds"
        )
    _check_tls(config)
    return config


def _check_tls(config: EngineConfig) -> None:
    """Raise where settings of TLS do not go together."""
    for prefix in ("tls", "writer_tls", "bookie_tls"):
        shown = [f"{prefix}_{name}" for name in ("certificate", "key")]
        given = [name for name in shown if getattr(config, name) is not None]
        if len(given) == 1:
            (missing,) = set(shown) - set(given)
            raise ConfigError(f"{_key(missing)} is missing: {_key(given[0])} needs it")
    if config.tls_listen is None and any(address.tls for address in config.bind_addresses):
        raise ConfigError("tls-listen is missing: bind-addresses with pulsar+ssl:// use its certificate")
    if config.tls_listen is not None and config.tls_certificate is None:
        raise ConfigError("tls-certificate and tls-key are missing: tls-listen needs them")
    for name, needed in (
        *((name, "tls_listen") for name in ("tls_certificate", "tls_trust_certificates", "advertised_tls_url")),
        ("peer_tls_trust_certificates", "tls_listen"),
        *((name, "writer_tls") for name in ("writer_tls_trust_certificates", "writer_tls_certificate")),
    ):
        if getattr(config, name) and getattr(config, needed) is None:
            what = (
                "tls-listen" if needed == "tls_listen" else "a writer-url of pulsar+ssl:// or an admin-url of https://"
            )
            raise ConfigError(f"{_key(name)} is given without {what}: nothing would use it")


def _key(name: str) -> str:
    return name.replace("_", "-")
