"""The options of `pulsar-readonly plan`. Those that `serve` has, too, are declared there."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Final

from readonly_engine.config.kinds import SIZE, choice_of, list_of, number_between, read_texts, split_urls
from readonly_engine.config.option import ConfigError, Kind, option
from readonly_engine.config.settings import MAX_WORKERS, EngineConfig
from readonly_engine.config.tls_options import tls_files
from readonly_engine.sizing.workload import SPLIT_TYPES, Policy, Subscriptions, SubscriptionType, TopicLoad, Workload

if TYPE_CHECKING:
    from pathlib import Path

    from readonly_engine.config.oauth2 import OAuth2Config
    from readonly_engine.net.tls import TlsFiles

TEXT: Final = "text"
JSON: Final = "json"
TIMEOUT_S: Final = 60.0
MAX_TIMEOUT_S: Final = 600.0
MAX_COUNT: Final = 10_000_000
MAX_RATE: Final = 1e9
MAX_BATCH: Final = 1e6
MESSAGE_BYTES: Final = 1024
CATCH_UP_SPEED: Final = 2.0
"""Backlog that a consumer reads by default, in times of the publish rate of its topics. Chosen, not measured."""

_SERVE: Final = {one.name: one.metadata for one in fields(EngineConfig)}
_TYPES: Final = "|".join(SubscriptionType)
_SUBSCRIPTIONS: Final = re.compile(rf"({_TYPES})=([0-9]{{1,8}})(?:x([0-9]{{1,8}}))?")
_FORM: Final = "TYPE=N or TYPE=NxCONSUMERS"
DEFAULTS: Final = Policy()


def _number(least: float, most: float, form: str = "N") -> Kind[float]:
    """Return the kind of numbers in a range."""

    def read(value: object) -> float | None:
        text = str(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else ""
        if not re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,9})?", text):
            return None
        return float(text) if least <= float(text) <= most else None

    return Kind(form, f"a number from {least:.10g} to {most:.10g}", read, lambda value: f"{value:g}")


def _count(least: int) -> Kind[int]:
    return number_between(least, MAX_COUNT, "a whole one")


def _read_positive_size(value: object) -> int | None:
    found = SIZE.read(value)
    return found or None


POSITIVE_SIZE: Final = Kind("SIZE", "a size above 0 such as 100, 1KiB or 10MiB", _read_positive_size, SIZE.write)


def _read_subscriptions(value: object) -> tuple[Subscriptions, ...] | None:
    """Return subscriptions from texts as `Shared=2x50`.

    Raises:
        ConfigError: a type that has one consumer has several.
    """
    texts = read_texts(value)
    if texts is None:
        return None
    found = []
    for text in texts:
        match = _SUBSCRIPTIONS.fullmatch(text)
        if match is None or match[3] == "0" or int(match[2]) > MAX_COUNT or int(match[3] or 1) > MAX_COUNT:
            return None
        kind, consumers = SubscriptionType(match[1]), int(match[3] or 1)
        if consumers > 1 and kind not in SPLIT_TYPES | {SubscriptionType.FAILOVER}:
            raise ConfigError(
                f"a subscription of type {kind} has one consumer, not {consumers}; write {kind}={match[2]}"
            )
        found.append(Subscriptions(kind, int(match[2]), consumers))
    return tuple(one for one in found if one.count)


SUBSCRIPTIONS: Final = Kind(
    "TYPE=N[xCONSUMERS]",
    f"{_FORM}, with a type of {', '.join(SubscriptionType)}, N up to {MAX_COUNT}, and CONSUMERS from 1",
    _read_subscriptions,
    lambda _: "",
    several=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanConfig:
    """Settings of the command. A field's name with dashes is its flag."""

    topics: int = field(default=1, metadata=option(_count(1), "topics", group="Load"))
    partitions: int = field(
        default=1, metadata=option(_count(1), "partitions of each topic; 1 also for topics without")
    )
    publish_rate: float = field(
        default=0.0,
        metadata=option(_number(0, MAX_RATE), "messages per second that are published to all topics together"),
    )
    message_size: int | None = field(
        default=None, metadata=option(POSITIVE_SIZE, "size of a message", unset="1KiB, or by --publish-bytes")
    )
    publish_bytes: int | None = field(
        default=None,
        metadata=option(POSITIVE_SIZE, "bytes per second that are published to all topics, instead of --message-size"),
    )
    batch_size: float | None = field(
        default=None,
        metadata=option(
            _number(1, MAX_BATCH), "messages of one entry, as producers batch them", unset="1, or by the statistics"
        ),
    )
    readers: int = field(default=0, metadata=option(_count(0), "Readers of each topic, the same as Reader=N"))
    subscriptions: tuple[Subscriptions, ...] = field(
        default=(),
        metadata=option(
            SUBSCRIPTIONS,
            "subscriptions of each topic, and the consumers of each: Exclusive=20 Shared=2x50. Types: "
            f"{', '.join(SubscriptionType)}",
        ),
    )
    passthrough_subscriptions: tuple[Subscriptions, ...] = field(
        default=(),
        metadata=option(
            SUBSCRIPTIONS, "subscriptions of each topic that pass through to the owner, besides the others"
        ),
    )
    catch_up_share: float = field(
        default=0.0,
        metadata=option(_number(0, 1), "share of the subscriptions that read a backlog at any time, besides the tail"),
    )
    catch_up_rate: int | None = field(
        default=None,
        metadata=option(
            POSITIVE_SIZE,
            "bytes per second that each of these reads",
            unset=f"{CATCH_UP_SPEED:g} times the bytes of its topic",
        ),
    )
    connections: int | None = field(
        default=None, metadata=option(_count(0), "client connections of the pool", unset="one for each consumer")
    )

    topic: tuple[str, ...] = field(
        default=(),
        metadata=option(
            list_of("TOPIC", "topics"), "topic whose statistics have the load", group="Load of a source cluster"
        ),
    )
    namespace: tuple[str, ...] = field(
        default=(),
        metadata=option(list_of("TENANT/NAMESPACE", "namespaces"), "namespace whose statistics have the load"),
    )
    admin_url: str = field(default="", metadata=_SERVE["admin_url"])
    admin_token_file: Path | None = field(default=None, metadata=_SERVE["admin_token_file"])
    admin_oauth2: OAuth2Config | None = field(default=None, metadata=_SERVE["admin_oauth2"])
    broker_tls_trust_certificates: Path | None = field(default=None, metadata=_SERVE["broker_tls_trust_certificates"])
    broker_tls_certificate: Path | None = field(default=None, metadata=_SERVE["broker_tls_certificate"])
    broker_tls_key: Path | None = field(default=None, metadata=_SERVE["broker_tls_key"])
    broker_tls_hostname_verification: bool = field(default=True, metadata=_SERVE["broker_tls_hostname_verification"])
    timeout: float = field(
        default=TIMEOUT_S,
        metadata=option(_number(1, MAX_TIMEOUT_S, "SECONDS"), "limit of all requests together", unit="seconds"),
    )

    workers: int = field(
        default=DEFAULTS.workers,
        metadata=option(
            number_between(1, MAX_WORKERS, "as --workers of serve"), "processes of each broker", group="Brokers"
        ),
    )
    min_brokers: int = field(
        default=DEFAULTS.min_brokers, metadata=option(_count(1), "brokers at least; two survive the loss of one")
    )
    utilization: float = field(
        default=DEFAULTS.utilization,
        metadata=option(_number(0.05, 1), "planned share of each core and of the network of a broker"),
    )
    broker_network: int = field(
        default=int(DEFAULTS.broker_network),
        metadata=option(
            Kind("SIZE", POSITIVE_SIZE.expected, _read_positive_size, lambda _: ""),
            "bytes per second that a broker's network carries in each direction",
            unset="1250000000, which is 10 Gbit/s",
        ),
    )
    output: str = field(default=TEXT, metadata=option(choice_of(TEXT, JSON), "form of the plan", group="Report"))

    @property
    def observes(self) -> bool:
        """Whether the load is that of a source cluster."""
        return bool(self.topic or self.namespace)

    @property
    def policy(self) -> Policy:
        """Size of a broker."""
        return Policy(self.workers, self.min_brokers, self.utilization, float(self.broker_network))

    @property
    def added(self) -> tuple[Subscriptions, ...]:
        """Subscriptions of each topic that the options have."""
        readers = (Subscriptions(SubscriptionType.READER, self.readers),) if self.readers else ()
        passing = (
            Subscriptions(one.type, one.count, one.consumers, "as given") for one in self.passthrough_subscriptions
        )
        return (*readers, *self.subscriptions, *passing)

    @property
    def admin_tls(self) -> TlsFiles | None:
        """Files of TLS with the admin API; None without TLS."""
        return tls_files(self, "broker-tls", self.admin_url)

    @property
    def admin_urls(self) -> tuple[str, ...]:
        """One URL for each named admin API."""
        return split_urls(self.admin_url)


ADMIN_KEYS: Final = frozenset(name.replace("_", "-") for name in _SERVE if name.startswith(("admin_", "broker_tls_")))
"""Keys that are taken from the file of `serve`."""

_LOAD: Final = ("topics", "partitions", "publish_rate", "message_size", "publish_bytes")
"""Options that the statistics of a source cluster replace."""

_ANY_LOAD: Final = (*_LOAD, "readers", "subscriptions", "passthrough_subscriptions", "catch_up_rate", "catch_up_share")


def check(config: PlanConfig, given: frozenset[str]) -> None:
    """Check options against each other.

    Args:
        config: the options.
        given: the names of those that were given.

    Raises:
        ConfigError: options contradict each other, or one is missing.
    """
    if config.catch_up_rate is not None and not config.catch_up_share:
        raise ConfigError("--catch-up-rate: needs --catch-up-share, the share of the subscriptions that read so")
    if config.observes:
        if not config.admin_url:
            raise ConfigError("--admin-url: missing; --topic and --namespace need it, for example http://broker:8080")
        for name in _LOAD:
            if name in given:
                raise ConfigError(f"{_flag(name)}: omit it with --topic or --namespace, whose statistics have it")
        if config.admin_oauth2 is not None and config.admin_token_file is not None:
            raise ConfigError("--admin-oauth2: omit it or --admin-token-file; only one can be used")
        return
    if "admin_url" in given:
        raise ConfigError("--admin-url: needs --topic or --namespace, the topics whose statistics have the load")
    if not given & set(_ANY_LOAD):
        raise ConfigError(
            "the load is missing: give --readers or --subscriptions and --publish-rate, or --admin-url with --topic or "
            "--namespace"
        )
    if config.publish_bytes is not None:
        if config.message_size is not None:
            raise ConfigError("--publish-bytes: omit it or --message-size; each gives the other by --publish-rate")
        if not config.publish_rate:
            raise ConfigError("--publish-bytes: needs --publish-rate, the messages per second that have these bytes")
    if config.catch_up_share and config.catch_up_rate is None and not config.publish_rate:
        raise ConfigError("--catch-up-share: needs --catch-up-rate where --publish-rate is 0")


def workload_of(config: PlanConfig) -> Workload:
    """Return the load that the options describe."""
    topics = config.topics * config.partitions
    messages = config.publish_rate / topics
    size = float(config.message_size or MESSAGE_BYTES)
    if config.publish_bytes is not None:
        size = config.publish_bytes / config.publish_rate
    batch = config.batch_size or 1.0
    load = TopicLoad(topics, messages, messages * size, batch, config.added, entry_bytes=max(1.0, size * batch))
    # A consumer of a partitioned topic has one connection for all partitions that one broker serves.
    connections = load.consumers * config.topics if config.connections is None else config.connections
    return Workload((with_catch_up(load, config),), float(connections))


def with_catch_up(load: TopicLoad, config: PlanConfig) -> TopicLoad:
    """Return a load with the backlog of --catch-up-share and --catch-up-rate besides its own."""
    rate = load.bytes * CATCH_UP_SPEED if config.catch_up_rate is None else config.catch_up_rate
    readers = config.catch_up_share * load.readers
    return replace(
        load,
        catch_up_bytes=load.catch_up_bytes + readers * rate,
        catch_up_readers=load.catch_up_readers + readers,
    )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
