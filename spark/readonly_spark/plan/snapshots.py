"""Snapshots of transaction buffers (PIP-31, PIP-196): what a topic's owner broker knew of its transactions at one moment.

An owner writes them to system topics of the namespace, with the topic's name as key: before it stores a topic's first message of
a transaction, and every few seconds while messages arrive (TopicTransactionBuffer, Pulsar 4.0.8). A topic without one has no
transactions. All transactions up to the snapshot's position have ended, so the search for markers can begin behind it.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import fastavro
from readonly_engine.bookkeeper.errors import BookKeeperError, MissingEntriesError
from readonly_engine.bookkeeper.ledger import LedgerReader
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.topic.compacted import find_compaction
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.wire.batch import decode_stored_entry, unpack
from readonly_engine.wire.compacted import decode_compacted
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.message import decode_metadata, decode_stored

from readonly_spark.errors import SourceError
from readonly_spark.values.schema import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from readonly_engine.bookkeeper.pool import BookiePool
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.wire.message_pb2 import MessageMetadata

    from readonly_spark.plan.schema_registry import TopicSchemas

log = logging.getLogger(__name__)

WHOLE: Final = "__transaction_buffer_snapshot"
INDEXES: Final = "__transaction_buffer_snapshot_indexes"
SEGMENTS: Final = "__transaction_buffer_snapshot_segments"
"""System topics of a namespace (SystemTopicNames): whole snapshots, or indexes and segments of them
(`transactionBufferSegmentedSnapshotEnabled`)."""

READ_ENTRIES: Final = 500

MAX_ABORTED: Final = 1_000_000
"""Aborted transactions of a snapshot that is used. A segment has some 87,000 by default."""

ANY_LEDGER: Final = 2**63 - 1

_UNSIGNED: Final = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What an owner knew.

    Attributes:
        position: a transaction with a message at this position or before it has ended.
        aborted: aborted transactions, by most and least bits, each with the last ledger that may have messages of it, or with
            ANY_LEDGER.
    """

    position: Position
    aborted: Mapping[tuple[int, int], int]


@dataclass(frozen=True, slots=True)
class _SnapshotPosition:
    """Where the newest snapshot of a topic is stored."""

    reader: LedgerReader
    entry_id: int
    compacted: bool

    async def payload(self) -> bytes:
        (entry,) = await self.reader.read(self.entry_id, self.entry_id)
        return bytes(decode_compacted(entry.payload)[1] if self.compacted else entry.payload)


class _SystemTopic:
    """The newest snapshot of each topic in a system topic.

    Attributes:
        places: by topic.
        topics: all topics that ever had a snapshot.
        read_to: the last entry that was read; None for none.
    """

    def __init__(self) -> None:
        self.places: dict[str, _SnapshotPosition] = {}
        self.topics: set[str] = set()
        self.read_to: Position | None = None

    def add(self, payload: bytes, place: _SnapshotPosition) -> None:
        try:
            metadata = decode_metadata(decode_stored(payload).payload)
        except WireError:
            return
        key = metadata.partition_key
        if not isinstance(key, str) or not key:
            return
        self.topics.add(key)
        if metadata.null_value:
            self.places.pop(key, None)  # the topic was deleted, or is about to be
        else:
            self.places[key] = place


class SnapshotCatalog:
    """Finds and reads snapshots.

    Args:
        cluster: Pulsar's metadata.
        pool: connections to the bookies.
        schemas: reads the schemas of a topic.
    """

    def __init__(
        self, cluster: ClusterMetadata, pool: BookiePool, schemas: Callable[[TopicName], Awaitable[TopicSchemas]]
    ) -> None:
        self._cluster = cluster
        self._pool = pool
        self._schemas = schemas
        self._found: dict[tuple[str, str], _SystemTopic] = {}
        self._known_schemas: dict[str, TopicSchemas] = {}

    def knows(self, topic: TopicName) -> bool:
        """Return whether a topic ever had a snapshot, and so may have transactions."""
        name = str(topic)
        return any(name in self._of(topic, kind).topics for kind in (WHOLE, INDEXES))

    def _of(self, topic: TopicName, kind: str) -> _SystemTopic:
        return self._found.setdefault((f"{topic.tenant}/{topic.namespace}", kind), _SystemTopic())

    async def refresh(self, namespaces: Iterable[tuple[str, str]]) -> dict[tuple[str, str], BookKeeperError]:
        """Find the snapshots of namespaces.

        Returns:
            The errors of namespaces whose snapshots cannot be read now.

        Raises:
            MetadataError: the metadata store does not answer.
        """
        failed: dict[tuple[str, str], BookKeeperError] = {}

        async def one(tenant: str, namespace: str) -> None:
            for topic in await self._cluster.topics(tenant, namespace):
                if topic.base.local_name in {WHOLE, INDEXES}:
                    try:
                        await self._read_new(topic)
                    except BookKeeperError as error:
                        failed[tenant, namespace] = error

        await asyncio.gather(*(one(*name) for name in sorted(set(namespaces))))
        return failed

    async def _read_new(self, topic: TopicName) -> None:
        """Read the entries of a system topic since the last call.

        The last entry of an open ledger counts even if it is not confirmed yet: what it says of another topic is true.
        """
        found = self._of(topic, topic.base.local_name)
        start = found.read_to
        if start is None:
            start = EARLIEST
            compaction = await find_compaction(self._cluster, self._pool, topic)
            if compaction is not None:
                for first in range(0, compaction.entries, READ_ENTRIES):
                    last = min(first + READ_ENTRIES, compaction.entries) - 1
                    for entry in await compaction.reader.read(first, last):
                        place = _SnapshotPosition(compaction.reader, entry.entry_id, compacted=True)
                        found.add(decode_compacted(entry.payload)[1], place)
                start = compaction.horizon
        info = await self._cluster.topic(topic)
        for listed in () if info is None else sorted(info.ledger_info, key=lambda ledger: ledger.ledger_id):
            if listed.ledger_id < start.ledger_id:
                continue
            first = start.entry_id + 1 if listed.ledger_id == start.ledger_id else 0
            metadata = await self._cluster.ledger(listed.ledger_id)
            if metadata is None:
                continue
            reader = LedgerReader(listed.ledger_id, metadata, self._pool)
            last = metadata.last_entry_id if metadata.closed else (await reader.read_lac()).last_entry
            try:
                for begin in range(first, last + 1, READ_ENTRIES):
                    for entry in await reader.read(begin, min(begin + READ_ENTRIES - 1, last)):
                        found.add(entry.payload, _SnapshotPosition(reader, entry.entry_id, compacted=False))
                        start = Position(entry.ledger_id, entry.entry_id)
            except MissingEntriesError as error:
                log.info("%s: %s", topic, error)  # just trimmed, or not written yet
        found.read_to = start

    async def read(self, topic: TopicName) -> Snapshot | None:
        """Return the newest snapshot of a topic; None if there is none that can be used.

        Raises:
            MetadataError: the metadata store does not answer.
            BookKeeperError: it cannot be read now.
        """
        snapshots = []
        for kind, decode in ((WHOLE, self._whole), (INDEXES, self._segmented)):
            place = self._of(topic, kind).places.get(str(topic))
            if place is None:
                continue
            source = parse_topic_name(f"persistent://{topic.tenant}/{topic.namespace}/{kind}")
            try:
                snapshots.append(await decode(await self._value(source, await place.payload())))
            except MissingEntriesError as error:
                self._of(topic, kind).read_to = None  # it was compacted: read the whole system topic next time
                log.info("%s: %s", source, error)
            except (WireError, SourceError, *UNREADABLE) as error:
                log.warning("%s: the snapshot of %s cannot be used: %s", source, topic, error)
        return max(snapshots, key=lambda snapshot: snapshot.position, default=None)

    async def _value(self, source: TopicName, payload: bytes) -> Any:
        """Return the value of a message of a system topic, whose schema is Avro."""
        stored = decode_stored_entry(payload)
        (message,) = unpack(stored)
        version, name = _version(stored.metadata), str(source)
        if name not in self._known_schemas or version not in self._known_schemas[name].versions:
            self._known_schemas[name] = await self._schemas(source)
        schema = self._known_schemas[name].versions.get(version)
        if schema is None or message.value is None:
            raise SourceError("it has no schema")
        return fastavro.schemaless_reader(io.BytesIO(message.value), json.loads(schema.text))

    async def _whole(self, value: Any) -> Snapshot:
        """Return a TransactionBufferSnapshot."""
        aborted = {
            _txn(one["txnIdMostBits"], one["txnIdLeastBits"]): one["ledgerId"]
            for one in _bounded(value["aborts"] or (), 0)
        }
        return Snapshot(_position(value), aborted)

    async def _segmented(self, value: Any) -> Snapshot:
        """Return the TransactionBufferSnapshotIndexes with all its segments."""
        topic = parse_topic_name(value["topicName"])
        segments = parse_topic_name(f"persistent://{topic.tenant}/{topic.namespace}/{SEGMENTS}")
        aborted: dict[tuple[int, int], int] = {}
        for index in value["indexList"] or ():
            payload = await self._segment(Position(index["segmentLedgerID"], index["segmentEntryID"]))
            segment = await self._value(segments, payload)
            if segment["topicName"] != value["topicName"]:
                raise SourceError(f"a segment is of {segment['topicName']}")
            for one in _bounded(segment["aborts"] or (), len(aborted)):
                aborted[_txn(one["mostSigBits"], one["leastSigBits"])] = index["abortedMarkLedgerID"]
        snapshot = value["snapshot"]
        for one in _bounded(snapshot["aborts"] or (), len(aborted)):
            aborted[_txn(one["mostSigBits"], one["leastSigBits"])] = ANY_LEDGER
        return Snapshot(_position(snapshot), aborted)

    async def _segment(self, place: Position) -> bytes:
        metadata = await self._cluster.ledger(place.ledger_id)
        if metadata is None:
            raise SourceError(f"the ledger of segment {place} was deleted")
        return await _SnapshotPosition(
            LedgerReader(place.ledger_id, metadata, self._pool), place.entry_id, compacted=False
        ).payload()


def _version(metadata: MessageMetadata) -> int:
    return int.from_bytes(metadata.schema_version, "big")


def _txn(most: int, least: int) -> tuple[int, int]:
    return most & _UNSIGNED, least & _UNSIGNED


def _position(value: Mapping[str, int]) -> Position:
    return Position(value["maxReadPositionLedgerId"], value["maxReadPositionEntryId"])


def _bounded(aborts: list[Any] | tuple[()], others: int) -> list[Any] | tuple[()]:
    if others + len(aborts) > MAX_ABORTED:
        raise SourceError(f"it has more than {MAX_ABORTED:,} aborted transactions")
    return aborts
