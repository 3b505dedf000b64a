"""Queries of the driver to the cluster: topics, their ledgers and readable ends, schemas, and positions of timestamps."""

from __future__ import annotations

import logging
from collections import OrderedDict
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from readonly_engine.bookkeeper.connect import BookieSecurity
from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.bookkeeper.ledger import LedgerReader
from readonly_engine.bookkeeper.pool import BookiePool
from readonly_engine.metadata.connect import ClusterStores
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.net.tls import ClientTls
from readonly_engine.tiered.storage import TieredStorage
from readonly_engine.topic.cache import EntryCache
from readonly_engine.topic.compacted import find_compaction
from readonly_engine.topic.log import TopicLog
from readonly_engine.topic.reading import position_at
from readonly_engine.wire.bookkeeper_pb2 import LedgerMetadataFormat
from readonly_engine.wire.errors import WireError

from readonly_spark.errors import SourceError
from readonly_spark.option_values import AUTO, NULL, RAW
from readonly_spark.outages import is_transient
from readonly_spark.plan.gather import gather_bounded
from readonly_spark.plan.index_start import IndexStart, position_of_index
from readonly_spark.plan.samples import EntrySampler
from readonly_spark.plan.schema_registry import SchemaRegistry
from readonly_spark.plan.snapshots import SnapshotCatalog
from readonly_spark.plan.topic_selection import TopicSelection, bases_of
from readonly_spark.plan.topic_state import ReadableLedger, TopicState
from readonly_spark.plan.transactions import TransactionCatalog
from readonly_spark.task import LedgerLocation
from readonly_spark.values.merged import DifferentTypesError, merged_type
from readonly_spark.values.schema import ValueSchema, parse_definition, value_type

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence

    import pyarrow as pa
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.ledgers import LedgerMetadata
    from readonly_engine.wire.managed_ledger_pb2 import LedgerInfo

    from readonly_spark.options import Options
    from readonly_spark.plan.schema_registry import TopicSchemas

log = logging.getLogger(__name__)

A = TypeVar("A")
B = TypeVar("B")

MAX_REMEMBERED_LEDGERS: Final = 10_000
"""Ledgers whose state is cached."""

CACHE_BYTES: Final = 16 << 20


class Catalog:
    """Read access to one cluster for planning. Every method runs on the event loop that `open` ran on.

    Args:
        options: the options of the source.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._stores = ClusterStores(options.metadata_url, options.bookkeeper_metadata_url, options.metadata_security)
        self.cluster = self._stores.cluster
        self.pool = BookiePool(
            self.cluster.bookie_address,
            security=BookieSecurity(
                None if options.bookie_tls is None else ClientTls(options.bookie_tls),
                options.bookie_login_file,
                "bookieLoginFile",
            ),
        )
        self._tiered = TieredStorage(options.tiered)
        self._cache = EntryCache(CACHE_BYTES)
        self._tail_ledgers: OrderedDict[int, ReadableLedger] = OrderedDict()
        self._open: OrderedDict[int, LedgerMetadata] = OrderedDict()
        self.selection = TopicSelection(options, self.cluster)
        self.samples = EntrySampler(self.cluster, self.pool, self._tiered)
        self._schemas = SchemaRegistry(self._stores.main, self.cluster, self.pool)
        self.snapshots = SnapshotCatalog(self.cluster, self.pool, self._schemas.read)
        self.transactions = TransactionCatalog(self.cluster, self.pool, self._cache, self._tiered, self.snapshots)

    async def open(self) -> None:
        """Connect.

        Raises:
            MetadataError: the metadata store does not answer.
        """
        await self._stores.start()

    async def close(self) -> None:
        """Close all connections."""
        self._tiered.close()
        self.pool.close()
        await self.pool.wait_closed()
        await self._stores.close()

    async def cluster_id(self) -> str:
        """Return the id of the BookKeeper cluster; empty if it has none."""
        return await self.cluster.bookkeeper_id()

    async def states(self, names: Iterable[str], *, sample: bool = False) -> dict[str, TopicState]:
        """Return the current state of topics; a topic that does not exist is left out.

        Args:
            names: full names of topics and partitions.
            sample: whether to estimate the number of messages per entry.

        Raises:
            MetadataError: the metadata store does not answer.
            BookKeeperError: the bookies of an open ledger do not answer.
        """
        found, failed = await self.reachable_states(names, sample=sample)
        if failed:
            raise min(failed.values(), key=is_transient)
        return found

    async def reachable_states(
        self, names: Iterable[str], *, sample: bool = False
    ) -> tuple[dict[str, TopicState], dict[str, BookKeeperError]]:
        """Return the current state of topics, and the errors of those that cannot be read now.

        Args:
            names: full names of topics and partitions.
            sample: whether to estimate the number of messages per entry.

        Returns:
            Both by topic; a topic that does not exist is in neither.

        Raises:
            MetadataError: the metadata store does not answer.
        """
        failed: dict[str, BookKeeperError] = {}

        async def tried(name: str, query: Coroutine[Any, Any, TopicState | None]) -> TopicState | None:
            try:
                return await query
            except BookKeeperError as error:
                failed[name] = error
                return None

        found = await gather_bounded(lambda name: tried(name, self._state(name, sample=sample)), sorted(names))
        namespaces = {state.name: _namespace(state.name) for state in found if state is not None}
        # After the topics: a snapshot is written before a topic's first message of a transaction.
        try:
            unknown = await self.transactions.refresh_topics(namespaces.values())
        except WireError as error:
            raise SourceError(f"transaction buffer snapshots: {error}") from error
        failed |= {name: unknown[namespace] for name, namespace in namespaces.items() if namespace in unknown}
        existing = [state for state in found if state is not None and state.name not in failed]
        limited = await gather_bounded(lambda state: tried(state.name, self._with_limit(state)), existing)
        return {state.name: state for state in limited if state is not None}, failed

    async def _with_limit(self, state: TopicState) -> TopicState:
        scan = await self.transactions.scan(state.name)
        return state if scan is None else replace(state, limit=scan.limit)

    async def _state(self, name: str, *, sample: bool) -> TopicState | None:
        topic = parse_topic_name(name)
        try:
            info = await self.cluster.topic(topic)
            if info is None:
                return None
            ledgers: list[ReadableLedger] = []
            # An offload changes the order of the list; the owner broker sorts it too.
            for listed in sorted(info.ledger_info, key=lambda ledger: ledger.ledger_id):
                ledger = _closed_ledger(listed) if listed.timestamp else await self._tail_ledger(listed)
                if ledger is None:
                    continue
                if sample and ledger.last >= 0:
                    ledger = replace(ledger, messages_per_entry=await self.samples.messages_per_entry(topic, ledger))
                ledgers.append(ledger)
                if not ledger.closed:
                    break  # later ledgers must not be read before its end
            compaction = None
            if self._options.read_compacted:
                compaction = await find_compaction(self.cluster, self.pool, topic)
        except WireError as error:
            raise SourceError(f"{name}: {error}") from error
        state = TopicState(name, tuple(ledgers))
        if compaction is None:
            return state
        size = compaction.reader.metadata.length
        compacted = ReadableLedger(compaction.reader.ledger_id, compaction.entries - 1, size, compacted=True)
        return replace(state, compacted=compacted, horizon=compaction.horizon)

    async def _tail_ledger(self, listed: LedgerInfo) -> ReadableLedger | None:
        """Return a ledger without a size in the list, from its own metadata and its LAC."""
        metadata = await self.cluster.ledger(listed.ledger_id)
        if metadata is None:
            return None
        if metadata.closed:
            return ReadableLedger(listed.ledger_id, metadata.last_entry_id, metadata.length)
        _remember(self._open, listed.ledger_id, metadata)
        reader = LedgerReader(listed.ledger_id, metadata, self.pool)
        last = (await reader.read_lac()).lac
        known = self._tail_ledgers.get(listed.ledger_id)
        if known is not None and known.last == last:
            return known
        size = 0
        if last >= 0:
            (entry,) = await reader.read(last, last)
            size = entry.length
        found = ReadableLedger(listed.ledger_id, last, size, closed=False)
        _remember(self._tail_ledgers, listed.ledger_id, found)
        return found

    async def positions_at(self, names: Iterable[str], timestamp: int) -> dict[str, Position]:
        """Return the first entry of each topic that was published at a time or later.

        Args:
            names: topics and partitions.
            timestamp: ms since the epoch.

        Raises:
            MetadataError: the metadata store does not answer.
            BookKeeperError: entries cannot be read.
        """
        topics = list(names)
        found = await gather_bounded(lambda name: self._position_at(name, timestamp), topics)
        return dict(zip(topics, found, strict=True))

    async def _position_at(self, name: str, timestamp: int) -> Position:
        async with self._log(name) as topic_log:
            return await position_at(topic_log, timestamp)

    async def positions_of_indexes(self, numbers: Mapping[str, int], *, end: bool = False) -> dict[str, IndexStart]:
        """Return the place of a message in each topic; see `position_of_index`.

        Args:
            numbers: the number by topic or partition.
            end: whether reading ends there.

        Raises:
            MetadataError: the metadata store does not answer.
            BookKeeperError: entries cannot be read.
        """

        async def position(name: str) -> IndexStart:
            async with self._log(name) as topic_log:
                return await position_of_index(topic_log, numbers[name], end=end)

        found = await gather_bounded(position, numbers)
        return dict(zip(numbers, found, strict=True))

    @asynccontextmanager
    async def _log(self, name: str) -> AsyncIterator[TopicLog]:
        topic_log = TopicLog(parse_topic_name(name), self.cluster, self.pool, self._cache, _no_owner, self._tiered)
        try:
            await topic_log.opened()
            await topic_log.refresh()
            yield topic_log
        finally:
            topic_log.close()

    async def value_type(self, names: Iterable[str]) -> pa.DataType:
        """Return the type of decoded values by the option `valueSchema`, which must not be `raw`.

        Topics may have different schemas, as one of them may have a newer version: a struct has the fields of all.

        Raises:
            SourceError: the types of topics do not fit together, or a topic has no schema.
            SchemaError: a schema cannot be used.
            MetadataError: the metadata store does not answer.
            BookKeeperError: the schemas cannot be read.
        """
        if self._options.value_schema != AUTO:
            return value_type(parse_definition(self._options.value_schema))
        schemas = await self.value_schemas(names)
        for base, schema in schemas.items():
            if not schema.unversioned:
                raise SourceError(
                    f"valueSchema=auto: the newest schema version of {base} was deleted; set valueSchema to a schema, or to raw"
                )
        try:
            return merged_type({base: value_type(schema.newest) for base, schema in schemas.items()})
        except DifferentTypesError as error:
            raise SourceError(f"valueSchema=auto: {error}") from None

    async def value_schemas(self, names: Iterable[str]) -> Mapping[str, ValueSchema]:
        """Return the schemas to decode the values of topics with, each topic's own.

        Returns:
            By topic, without a partition's suffix; empty if values are not decoded.

        Raises:
            SourceError: there is no topic, or one has no schema.
            SchemaError: the schema of the option cannot be used.
            MetadataError: the metadata store does not answer.
            BookKeeperError: the schemas cannot be read.
        """
        options = self._options
        nulls = options.decode_errors == NULL
        if options.value_schema == RAW:
            return {}
        bases = bases_of(names)
        found: dict[str, TopicSchemas] = dict(
            zip(bases, await gather_bounded(self._schemas.read, map(parse_topic_name, bases)), strict=True)
        )
        if options.value_schema != AUTO:
            definition = parse_definition(options.value_schema)
            return {base: ValueSchema(definition, schemas.versions, nulls) for base, schemas in found.items()}
        if not bases:
            raise SourceError(
                "valueSchema=auto: no topic exists yet, so there is no schema; set valueSchema to a schema, or to raw"
            )
        for base, schemas in found.items():
            if not schemas.versions:
                raise SourceError(f"valueSchema=auto: {base} has no schema; set valueSchema to a schema, or to raw")
        return {
            base: ValueSchema(
                schemas.versions[max(schemas.versions)], schemas.versions, nulls, unversioned=not schemas.deleted
            )
            for base, schemas in found.items()
        }

    # Ledgers

    async def locations(self, ledgers: Sequence[ReadableLedger]) -> dict[int, LedgerLocation]:
        """Return the locations of ledgers for tasks; a deleted ledger is left out.

        Raises:
            SourceError: tasks cannot read a ledger.
            MetadataError: the metadata store does not answer.
        """
        found = await gather_bounded(self._location, ledgers)
        return {ledger.ledger_id: ledger for ledger in found if ledger is not None}

    async def _location(self, ledger: ReadableLedger) -> LedgerLocation | None:
        # The metadata that `states` read of an open ledger covers all entries that were confirmed then.
        metadata = None if ledger.closed else self._open.get(ledger.ledger_id)
        if metadata is None:
            try:
                metadata = await self.cluster.ledger(ledger.ledger_id)
            except WireError as error:
                raise SourceError(f"ledger {ledger.ledger_id}: {error}") from error
        if metadata is None and not ledger.offload:
            return None
        if metadata is not None:
            metadata = _without_password(ledger.ledger_id, metadata)
        return LedgerLocation(ledger.ledger_id, ledger.last, metadata, ledger.offload, ledger.entry_bytes)

    async def addresses(self, ledgers: Iterable[LedgerLocation]) -> dict[str, tuple[str, int]]:
        """Return the host and port of the ledgers' bookies; a bookie that is not registered is left out."""
        bookies = sorted(
            {
                bookie
                for ledger in ledgers
                if ledger.metadata is not None
                for _, ensemble in ledger.metadata.ensembles
                for bookie in ensemble
            }
        )

        async def address(bookie: str) -> tuple[str, int] | None:
            try:
                return await self.cluster.bookie_address(bookie)
            except MetadataError as error:
                log.warning("%s", error)
                return None

        found = await gather_bounded(address, bookies)
        return {bookie: where for bookie, where in zip(bookies, found, strict=True) if where is not None}


def _namespace(name: str) -> tuple[str, str]:
    topic = parse_topic_name(name)
    return topic.tenant, topic.namespace


def _closed_ledger(listed: LedgerInfo) -> ReadableLedger:
    context = listed.offload_context
    offload = context.SerializeToString(deterministic=True) if context.complete else b""
    return ReadableLedger(listed.ledger_id, listed.entries - 1, listed.size, offload=offload)


def _without_password(ledger_id: int, metadata: LedgerMetadata) -> LedgerMetadata:
    """Remove the password: plans hold no secrets. Reads need none; only HMAC digests use it, and Pulsar's is empty."""
    if metadata.password and metadata.digest_type == LedgerMetadataFormat.HMAC:
        raise SourceError(f"ledger {ledger_id} has a password, so Pulsar did not write it")
    return replace(metadata, password=b"")


def _remember(cache: OrderedDict[int, A], ledger_id: int, item: A) -> None:
    cache[ledger_id] = item
    cache.move_to_end(ledger_id)
    if len(cache) > MAX_REMEMBERED_LEDGERS:
        cache.popitem(last=False)


async def _no_owner() -> None:
    """Query no owner broker."""
