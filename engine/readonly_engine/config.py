"""The configuration of `pulsar-readonly serve`: a YAML file and flags with the same names; flags win."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from readonly_engine.broker.dispatch.rate import UNLIMITED, DispatchRate
from readonly_engine.broker.limits import LimitSettings
from readonly_engine.tiered.config import TieredConfig, TieredConfigError, parse_tiered_config
from readonly_engine.yaml_file import YamlFileError, parse_yaml, read_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SIZE = re.compile(r"(\d+)(B|KiB|MiB|GiB)?")
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


ALL_INTERFACES = "0.0.0.0"  # noqa: S104 - what a server in a container listens on
AS_NOTED = TieredConfig()
LISTEN = Address(ALL_INTERFACES, 6650)
HTTP = Address(ALL_INTERFACES, 8080)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Settings of one broker. A field's name with dashes is its flag and its key in the file.

    Attributes:
        metadata_store: ZooKeeper of the writable cluster, `zk:HOST:PORT[,HOST:PORT...][/chroot]`.
        writer_url: binary protocol of the writable cluster, `pulsar://HOST:PORT`.
        admin_url: admin API of the writable cluster, `http://HOST:PORT`.
        listen: where clients connect.
        http: where health, metrics and statistics are served.
        advertised_url: where clients are sent to reach this broker, `pulsar://HOST:PORT`.
        topics: topics or regular expressions that are bound whatever the bindings file says.
        bindings: a file of bindings that is read again when it changes.
        pool: brokers with the same pool name share the topics out among them.
        cache_size: bytes of entries kept in memory.
        tiered_storage: how offloaded ledgers are read.
        dispatch_rate_per_subscription: how much each subscription may deliver in a second.
        dispatch_rate_per_broker: how much all of them together may.
        max_connections: client connections, 0 for any number.
        max_connections_per_ip: client connections from one address, 0 for any number.
        max_consumers_per_topic: consumers of a topic or partition on this broker, 0 for any number.
        max_consumers_per_subscription: consumers of a subscription on this broker, 0 for any number.
        max_buffered_bytes: bytes that wait for slow clients to read them, of all clients together.
        log_level: one of LOG_LEVELS.
        log_format: one of LOG_FORMATS.
    """

    metadata_store: str
    writer_url: str
    admin_url: str
    listen: Address = LISTEN
    http: Address = HTTP
    advertised_url: str = ""
    topics: tuple[str, ...] = ()
    bindings: Path | None = None
    pool: str = "default"
    cache_size: int = 256 << 20
    tiered_storage: TieredConfig = AS_NOTED
    dispatch_rate_per_subscription: DispatchRate = UNLIMITED
    dispatch_rate_per_broker: DispatchRate = UNLIMITED
    max_connections: int = 0
    max_connections_per_ip: int = 0
    max_consumers_per_topic: int = 0
    max_consumers_per_subscription: int = 0
    max_buffered_bytes: int = 512 << 20
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
    def zookeeper_hosts(self) -> str:
        """The metadata store as ZooKeeper's clients write it."""
        return self.metadata_store.removeprefix("zk:")


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError("must be a text")
    return value


def _metadata_store(value: object) -> str:
    text = _text(value)
    if not re.fullmatch(r"zk:[^/:,\s]+:\d+(,[^/:,\s]+:\d+)*(/\S*)?", text):
        raise ConfigError(f"{text!r} would be zk:HOST:PORT[,HOST:PORT...][/chroot]")
    return text


def _url(scheme: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        text = _text(value)
        try:
            parts = urlsplit(text)
            right = (
                parts.scheme == scheme and bool(parts.hostname) and (parts.port or 1) > 0 and parts.path in {"", "/"}
            )
        except ValueError:
            right = False
        if not right:
            raise ConfigError(f"{text!r} would be {scheme}://HOST:PORT")
        return text.rstrip("/")

    return parse


def _address(value: object) -> Address:
    text = _text(value)
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"{text!r} would be HOST:PORT")
    return Address(host.strip("[]"), int(port))


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) and item for item in value):
        raise ConfigError("must be a list of topics or patterns")
    return tuple(value)


def _size(value: object) -> int:
    match = _SIZE.fullmatch(str(value)) if isinstance(value, (str, int)) and not isinstance(value, bool) else None
    if match is None:
        raise ConfigError(f"{value!r} would be a size as 64MiB or 1GiB")
    return int(match[1]) * _UNITS[match[2]]


def _count(value: object) -> int:
    text = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    if not text.isdecimal():
        raise ConfigError(f"{value!r} would be a number, 0 for no limit")
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


def _one_of(choices: tuple[str, ...]) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if value not in choices:
            raise ConfigError(f"{value!r} would be one of {', '.join(choices)}")
        return str(value)

    return parse


_PARSERS: Mapping[str, Callable[[object], Any]] = {
    "metadata_store": _metadata_store,
    "writer_url": _url("pulsar"),
    "admin_url": _url("http"),
    "listen": _address,
    "http": _address,
    "advertised_url": _url("pulsar"),
    "topics": _texts,
    "bindings": lambda value: Path(_text(value)),
    "pool": _text,
    "cache_size": _size,
    "tiered_storage": _tiered_storage,
    "dispatch_rate_per_subscription": _dispatch_rate,
    "dispatch_rate_per_broker": _dispatch_rate,
    "max_connections": _count,
    "max_connections_per_ip": _count,
    "max_consumers_per_topic": _count,
    "max_consumers_per_subscription": _count,
    "max_buffered_bytes": _size,
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
    config = EngineConfig(**values)
    if not config.topics and config.bindings is None:
        raise ConfigError(
            "topics is missing: give --topics PATTERN, or --bindings FILE for topics that an operator binds"
        )
    return config
