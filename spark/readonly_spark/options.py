"""The options of the source `pulsar-readonly`: parsing and validation. `option_list` documents them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.config.nearest import nearest
from readonly_engine.config.option import ConfigError, options_of
from readonly_engine.config.option import Option as DeclaredOption
from readonly_engine.config.tiered import MIN_CACHED_READS, TIERED_STORAGE, TieredConfig
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.metadata.security import OPEN_STORE, LoginScheme, StoreSecurity
from readonly_engine.metadata.url import FORMS, MetadataUrl
from readonly_engine.net.tls import TlsFiles
from readonly_engine.topic.position import Position

from readonly_spark.option_list import OPTIONS
from readonly_spark.option_values import (
    ERROR,
    FAIL,
    RAW,
    parse_admin_urls,
    parse_batch_bytes,
    parse_bool,
    parse_count,
    parse_decode_errors,
    parse_login_scheme,
    parse_path,
    parse_seconds,
    parse_size,
    parse_strategy,
    parse_subscription,
    parse_value_schema,
)
from readonly_spark.position_options import (
    LATEST,
    batch_indexes_by_topic,
    indexes_by_topic,
    offsets_by_topic,
    time_ms,
    topic_names,
    topic_pattern,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_TABLE_OPTION: Final = "option."
_TABLE_PROPERTIES: Final = frozenset(
    {"provider", "owner", "comment", "location", "external", "is_managed_location", "collation"}
)
"""Properties that Spark sets (TableCatalog)."""


class OptionError(ValueError):
    """An invalid option; the message names it and the expected form."""


TIERED_READ_BYTES: Final = 4 << 20
"""Default of `tieredStorage.readSize`. A task reads forward, so larger requests than a broker's cost it nothing. For 500 MB from
MinIO they took half of the server's CPU, measured by the bench; and stores charge for each request."""

TIERED_CACHE_BYTES: Final = MIN_CACHED_READS * TIERED_READ_BYTES
"""Default of `tieredStorage.cacheSize`: the request that a task reads, and those that it makes ahead. Only for chunked messages a
task goes back."""

_BY_KEY: Final = {option.name.lower(): option for option in OPTIONS}


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldOptions:
    """A subscription that holds messages back.

    Attributes:
        subscription: its name.
        urls: addresses of the admin API.
        token_file: file with a token; None for none.
        tls: files for TLS; None for the system's certificate authorities.
    """

    subscription: str
    urls: tuple[str, ...]
    token_file: Path | None = None
    tls: TlsFiles | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The parsed options.

    Attributes:
        metadata_url: the brokers' metadata store.
        bookkeeper_metadata_url: the bookies' metadata store; None for the same.
        topics: full names; empty with a pattern.
        topics_pattern: the pattern of full names; empty with named topics.
        starting: `earliest`, `latest`, or for each topic one of these, a position, or a publish time in ms since the epoch; None
            for the default.
        ending: the end, in the same form.
        starting_in_batch: for each topic that starts within a batch, the batch index of its first message.
        ending_in_batch: for each topic that ends within a batch, the batch index of the first message that is not read. The
            position in `ending` is after this entry then.
        starting_ms: publish time of the start in ms since the epoch; None for none.
        ending_ms: publish time of the end, not included; None for none.
        starting_index: number of the first message, or one by topic; None for none.
        ending_index: number of the first message that is not read, in the same form.
        later_required: whether a topic without a message at or after its time of the start is an error.
        min_partitions: minimum number of tasks.
        partition_bytes: target bytes of a task.
        partition_records: target messages of a task; None for no target.
        trigger_bytes: target bytes of a micro-batch; None for no limit.
        trigger_messages: target messages of a micro-batch; None for no limit.
        min_trigger_messages: messages that a micro-batch waits for; None for none.
        max_trigger_delay_s: longest wait for them, in seconds.
        hold: a subscription that holds messages back; None for none.
        batch_bytes: target bytes of an Arrow record batch.
        fail_on_data_loss: whether lost messages are an error.
        read_compacted: whether to read the compacted view.
        value_schema: `raw`, `auto`, or a schema's JSON.
        field_columns: whether the fields of decoded values are columns of their own.
        raw_value: whether there is a column of payloads beside the decoded values.
        decode_errors: `fail` or `null`.
        retry_s: time for which planning is tried again, in seconds.
        required_file: a file that each task must find; None for none.
        reads_in_flight: concurrent requests of a task.
        read_rate: bytes per second of a task; None for no limit.
        query_read_rate: bytes per second of all tasks; None for no limit.
        concurrent_tasks: how many tasks run at once; None for all of a batch.
        bookie_tls: files for TLS to bookies; None for plain connections.
        bookie_login_file: file with the login at bookies; None for none.
        metadata_security: TLS and login of connections to ZooKeeper.
        tiered: settings for reads of offloaded ledgers.
    """

    metadata_url: MetadataUrl
    bookkeeper_metadata_url: MetadataUrl | None
    topics: tuple[str, ...] = ()
    topics_pattern: str = ""
    starting: str | dict[str, str | int | Position] | None = None
    ending: str | dict[str, str | int | Position] | None = None
    starting_in_batch: Mapping[str, int] = field(default_factory=dict)
    ending_in_batch: Mapping[str, int] = field(default_factory=dict)
    starting_ms: int | None = None
    ending_ms: int | None = None
    starting_index: int | dict[str, int] | None = None
    ending_index: int | dict[str, int] | None = None
    later_required: bool = False
    min_partitions: int = 1
    partition_bytes: int = 256 << 20
    partition_records: int | None = None
    trigger_bytes: int | None = None
    trigger_messages: int | None = None
    min_trigger_messages: int | None = None
    max_trigger_delay_s: float = 900.0
    hold: HoldOptions | None = None
    batch_bytes: int = 8 << 20
    fail_on_data_loss: bool = True
    read_compacted: bool = False
    value_schema: str = RAW
    field_columns: bool = False
    raw_value: bool = False
    decode_errors: str = FAIL
    retry_s: float = 300.0
    required_file: Path | None = None
    reads_in_flight: int = 4
    read_rate: int | None = None
    query_read_rate: int | None = None
    concurrent_tasks: int | None = None
    bookie_tls: TlsFiles | None = None
    bookie_login_file: Path | None = None
    metadata_security: StoreSecurity = OPEN_STORE
    tiered: TieredConfig = field(default_factory=TieredConfig)


def parse_options(given: Mapping[str, str], *, streaming: bool | None) -> Options:
    """Parse options.

    Args:
        given: texts by option name, in any case.
        streaming: True for a streaming query, False for a batch query, None if it is not known yet.

    Raises:
        OptionError: an option is missing, unknown, malformed, or contradicts another.
    """
    texts = _without_table_properties({key.lower(): value for key, value in given.items()})
    for key in sorted(texts):
        if key not in _BY_KEY:
            names = [option.name for option in OPTIONS]
            near = nearest(key, names)
            hint = f"; the nearest is {near}" if near else ""
            raise OptionError(f"unknown option {key!r}{hint}; the options are {', '.join(names)}")
        use = _BY_KEY[key].use
        if streaming is not None and use != "both" and (use == "streaming") != streaming:
            kind = "batch queries, not for a stream" if use == "batch" else "streaming queries, not for a batch"
            raise OptionError(f"{_BY_KEY[key].name} is for {kind}")

    def read(name: str, parse: Callable[[str], Any], default: Any) -> Any:
        text = texts.get(name.lower())
        if text is None:
            return default
        try:
            return parse(text)
        except (ValueError, MetadataError) as error:
            raise OptionError(f"{name}: {error}") from None

    url = read("metadataStoreUrl", lambda text: MetadataUrl.parse(text.strip()), None)
    if url is None:
        hint = "" if texts else "; Spark keeps no options of a table that CREATE TABLE made: use CREATE TEMPORARY VIEW"
        raise OptionError(f"metadataStoreUrl is missing; set it to {FORMS}{hint}")
    _one_of(texts, ("topic", "topics", "topicsPattern"), required=True)
    _one_of(texts, ("startingOffsets", "startingTimestamp", "startingIndex"))
    _one_of(texts, ("endingOffsets", "endingTimestamp", "endingIndex"))
    starting_ms, ending_ms = read("startingTimestamp", time_ms, None), read("endingTimestamp", time_ms, None)
    if starting_ms is not None and ending_ms is not None and starting_ms > ending_ms:
        raise OptionError("endingTimestamp is before startingTimestamp")
    starting_index, ending_index = (read(name, indexes_by_topic, None) for name in ("startingIndex", "endingIndex"))
    if isinstance(starting_index, int) and isinstance(ending_index, int) and starting_index > ending_index:
        raise OptionError("endingIndex is before startingIndex")
    ending, ending_in_batch = (
        read("endingOffsets", offsets_by_topic, None),
        read("endingOffsets", batch_indexes_by_topic, {}),
    )
    compacted = read("readCompacted", parse_bool, False)
    field_columns = read("fieldColumns", parse_bool, False)
    if field_columns and read("valueSchema", parse_value_schema, RAW) == RAW:
        raise OptionError("fieldColumns requires valueSchema=auto, or a schema")
    if "concurrenttasks" in texts and "maxqueryreadbytespersecond" not in texts:
        raise OptionError("concurrentTasks requires maxQueryReadBytesPerSecond")
    if "maxtriggerdelay" in texts and "minmessagespertrigger" not in texts:
        raise OptionError("maxTriggerDelay requires minMessagesPerTrigger")
    return Options(
        metadata_url=url,
        bookkeeper_metadata_url=read("bookkeeperMetadataStoreUrl", lambda text: MetadataUrl.parse(text.strip()), None),
        topics=read("topic", topic_names, ()) or read("topics", topic_names, ()),
        topics_pattern=read("topicsPattern", topic_pattern, ""),
        starting=read("startingOffsets", offsets_by_topic, None),
        ending=_past(ending, ending_in_batch),
        starting_in_batch=read("startingOffsets", batch_indexes_by_topic, {}),
        ending_in_batch=ending_in_batch,
        starting_ms=starting_ms,
        ending_ms=ending_ms,
        starting_index=starting_index,
        ending_index=ending_index,
        later_required=read("startingTimestampStrategy", parse_strategy, LATEST) == ERROR,
        min_partitions=read("minPartitions", parse_count, 1),
        partition_bytes=read("maxBytesPerPartition", parse_size, 256 << 20),
        partition_records=read("maxRecordsPerPartition", parse_count, None),
        trigger_bytes=read("maxBytesPerTrigger", parse_size, None),
        trigger_messages=read("maxMessagesPerTrigger", parse_count, None),
        min_trigger_messages=read("minMessagesPerTrigger", parse_count, None),
        max_trigger_delay_s=read("maxTriggerDelay", parse_seconds, 900.0),
        hold=_hold(texts, read),
        batch_bytes=read("batchBytes", parse_batch_bytes, 8 << 20),
        fail_on_data_loss=read("failOnDataLoss", parse_bool, True),
        read_compacted=compacted,
        value_schema=read("valueSchema", parse_value_schema, RAW),
        field_columns=field_columns,
        raw_value=read("rawValue", parse_bool, False),
        decode_errors=read("decodeErrors", parse_decode_errors, FAIL),
        retry_s=read("retryTimeout", parse_seconds, 300.0),
        required_file=read("requiredFile", parse_path, None),
        reads_in_flight=read("readsInFlight", parse_count, 4),
        read_rate=read("maxReadBytesPerSecond", parse_size, None),
        query_read_rate=read("maxQueryReadBytesPerSecond", parse_size, None),
        concurrent_tasks=read("concurrentTasks", parse_count, None),
        bookie_tls=_tls("bookieTls", texts, read),
        bookie_login_file=read("bookieLoginFile", parse_path, None),
        metadata_security=_metadata_security(texts, read),
        tiered=_tiered(texts),
    )


def _past(
    ending: str | dict[str, str | int | Position] | None, in_batch: Mapping[str, int]
) -> str | dict[str, str | int | Position] | None:
    """Return the ends with the entries that are read in part."""
    if not isinstance(ending, dict):
        return ending
    places = {name: place for name, place in ending.items() if isinstance(place, Position) and name in in_batch}
    return {**ending, **{name: Position(at.ledger_id, at.entry_id + 1) for name, at in places.items()}}


def _without_table_properties(texts: dict[str, str]) -> dict[str, str]:
    """Leave out what Spark adds to the options of a table in its catalog: each option once more, and properties of its own."""
    return {
        key: value
        for key, value in texts.items()
        if key not in _TABLE_PROPERTIES
        and not (key.startswith(_TABLE_OPTION) and texts.get(key.removeprefix(_TABLE_OPTION)) == value)
    }


def _one_of(texts: Mapping[str, str], names: tuple[str, ...], *, required: bool = False) -> None:
    found = [name for name in names if name.lower() in texts]
    if len(found) > 1:
        raise OptionError(f"{' and '.join(found)} contradict each other; set one of them")
    if required and not found:
        raise OptionError(f"no topic is named; set one of {', '.join(names)}")


def _tls(
    prefix: str, texts: Mapping[str, str], read: Callable[[str, Callable[[str], Any], Any], Any]
) -> TlsFiles | None:
    paths = [read(f"{prefix}.{name}", parse_path, None) for name in ("trustCertificates", "certificate", "key")]
    verify = read(f"{prefix}.hostnameVerification", parse_bool, True)
    if not any(paths):
        if f"{prefix}.hostnameVerification".lower() in texts:
            raise OptionError(f"{prefix}.hostnameVerification requires {prefix}.trustCertificates")
        return None
    if paths[2] is not None and paths[1] is None:
        raise OptionError(f"{prefix}.key requires {prefix}.certificate")
    trust, certificate, key = paths
    return TlsFiles(prefix, trust, certificate, key, hostname_verification=verify)


def _metadata_security(
    texts: Mapping[str, str], read: Callable[[str, Callable[[str], Any], Any], Any]
) -> StoreSecurity:
    login_file = read("metadataStoreLoginFile", parse_path, None)
    scheme = read("metadataStoreLoginScheme", parse_login_scheme, LoginScheme.SASL)
    if login_file is None and "metadatastoreloginscheme" in texts:
        raise OptionError("metadataStoreLoginScheme requires metadataStoreLoginFile")
    return StoreSecurity(_tls("metadataStoreTls", texts, read), login_file, scheme, camel_case=True)


def _hold(texts: Mapping[str, str], read: Callable[[str, Callable[[str], Any], Any], Any]) -> HoldOptions | None:
    name = read("holdSubscription", parse_subscription, None)
    urls = read("adminUrl", parse_admin_urls, ())
    token_file = read("adminTokenFile", parse_path, None)
    tls = _tls("adminTls", texts, read)
    if name is None:
        for option in ("adminUrl", "adminTokenFile", "adminTls.trustCertificates", "adminTls.certificate"):
            if option.lower() in texts:
                raise OptionError(f"{option} requires holdSubscription")
        return None
    if not urls:
        raise OptionError("holdSubscription requires adminUrl")
    if tls is None and any(url.startswith("https:") for url in urls):
        tls = TlsFiles("adminTls", None, None, None, hostname_verification=True)
    return HoldOptions(subscription=name, urls=urls, token_file=token_file, tls=tls)


def _tiered(texts: Mapping[str, str]) -> TieredConfig:
    settings: dict[str, object] = {}
    names = {one.key: _camel_case(one.name) for one in options_of(TieredConfig)}
    for one in options_of(TieredConfig):
        text = texts.get(f"tieredstorage.{names[one.key].lower()}")
        if text is not None:
            try:
                settings[one.key] = _tiered_value(one, text)
            except ValueError as error:
                raise OptionError(f"tieredStorage.{names[one.key]}: {error}") from None
    # Of two sizes the one that is not given fits the other; errors name the given one.
    read_size, cache_size = settings.get("read-size"), settings.get("cache-size")
    if cache_size is None:
        settings["cache-size"] = max(
            TIERED_CACHE_BYTES, MIN_CACHED_READS * read_size if isinstance(read_size, int) else 0
        )
    if read_size is None:
        most = cache_size // MIN_CACHED_READS if isinstance(cache_size, int) else TIERED_READ_BYTES
        settings["read-size"] = min(TIERED_READ_BYTES, max(most, TieredConfig().read_size))
    try:
        return TIERED_STORAGE.parse(settings)
    except ConfigError as error:
        key, _, reason = str(error).partition(": ")
        raise OptionError(f"tieredStorage.{names[key]}: {reason}") from None


def _tiered_value(one: DeclaredOption, text: str) -> object:
    """Convert a text of Spark to a value of the broker's configuration file.

    Raises:
        ValueError: the text is no size.
    """
    if one.unit == "bytes":
        return parse_size(text)
    return float(text) if one.unit == "seconds" and re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else text


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
