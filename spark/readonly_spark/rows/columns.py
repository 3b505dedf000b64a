"""The columns of the source, and Arrow record batches of them, without an object per message. Pure.

The header of an entry is stored once for all its messages. It is expanded to one value per row when a record batch is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from readonly_spark.rows.arrays import times_array
from readonly_spark.rows.builder import EntryHeader, Projection
from readonly_spark.rows.native_builder import ROW_BUILDER
from readonly_spark.values.type_names import PROPERTIES, TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from readonly_engine.wire.batch import StoredEntry

    from readonly_spark.rows.builder import RowBatch, RowBuilder

ENCRYPTION: Final = pa.struct(
    [
        pa.field(
            "keys",
            pa.list_(
                pa.struct(
                    [pa.field("name", pa.string()), pa.field("value", pa.binary()), pa.field("metadata", PROPERTIES)]
                )
            ),
        ),
        pa.field("algorithm", pa.string()),
        pa.field("parameter", pa.binary()),
        pa.field("compression", pa.string()),
        pa.field("uncompressedSize", pa.int32()),
        pa.field("chunkUuid", pa.string()),
        pa.field("chunkId", pa.int32()),
        pa.field("chunks", pa.int32()),
    ]
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: the name.
        arrow: the Arrow type.
        spark: the type in Spark's DDL.
        meaning: the text for the documentation.
    """

    name: str
    arrow: pa.DataType
    spark: str
    meaning: str


COLUMNS: Final = (
    Column("topic", pa.string(), "string", "the topic's full name, without a partition's suffix"),
    Column("partition", pa.int32(), "int", "the number of the partition; null for a topic without partitions"),
    Column(
        "messageId",
        pa.string(),
        "string",
        "`LEDGER:ENTRY:PARTITION`, in a batch followed by `:INDEX`, as the Java client prints it",
    ),
    Column("ledgerId", pa.int64(), "bigint", "the ledger"),
    Column(
        "entryId", pa.int64(), "bigint", "the entry in the ledger; for a chunked message the entry of its last chunk"
    ),
    Column("batchIndex", pa.int32(), "int", "the index in the batch; null outside of a batch"),
    Column(
        "batchSize",
        pa.int32(),
        "int",
        "the number of messages in the batch, including those that compaction removed; null outside of a batch",
    ),
    Column("publishTime", TIMESTAMP, "timestamp", "the time at which the producer sent it"),
    Column("eventTime", TIMESTAMP, "timestamp", "the event time of the application; null for none"),
    Column(
        "brokerTime",
        TIMESTAMP,
        "timestamp",
        "the time at which the owner broker stored it; null if it is not recorded",
    ),
    Column(
        "index",
        pa.int64(),
        "bigint",
        "the number of the message in its topic or partition, as `getIndex()` of the Java client; null if it is not recorded",
    ),
    Column("key", pa.binary(), "binary", "the key's bytes; null for none"),
    Column("orderingKey", pa.binary(), "binary", "the ordering key; null for none"),
    Column("value", pa.binary(), "binary", "the payload; null for a tombstone"),
    Column("properties", PROPERTIES, "map<string,string>", "the application's properties"),
    Column("producerName", pa.string(), "string", "the name of the producer"),
    Column("sequenceId", pa.int64(), "bigint", "the sequence id of the producer"),
    Column("schemaVersion", pa.binary(), "binary", "the schema version that it was written with; null for none"),
    Column(
        "replicatedFrom",
        pa.string(),
        "string",
        "the cluster that a replicated message came from; null for a local one",
    ),
    Column(
        "encryption",
        ENCRYPTION,
        "struct<keys:array<struct<name:string,value:binary,metadata:map<string,string>>>,algorithm:string,parameter:binary,"
        "compression:string,uncompressedSize:int,chunkUuid:string,chunkId:int,chunks:int>",
        "the encryption metadata of an encrypted entry, also of a batch: it is one row with the stored payload as `value`; null "
        "for other entries",
    ),
)
"""Every column, in order."""

RAW_VALUE: Final = Column(
    "rawValue", pa.binary(), "binary", "the payload of a decoded value, with the option `rawValue`"
)

NAMES: Final = tuple(column.name for column in COLUMNS)
BY_NAME: Final = {column.name: column for column in (*COLUMNS, RAW_VALUE)}

_COMPRESSIONS: Final = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")


_Headers = Any
"""The headers of many entries: an EntryHeader whose fields are tuples, one item per entry."""


class MessageColumns:
    """Collect messages of one topic by column, and make record batches of them.

    Args:
        topic: the topic's name, without a partition's suffix.
        partition: the partition; -1 for none.
        names: the columns to build, in the order of the record batch.
        values: makes the column `value` of payloads, their schema versions, a flag for each if some are encrypted, and the keys
            if `keyed`; None keeps the payloads.
        keyed: whether values have a part in the key of their message.
        builder: makes the row builder.

    Attributes:
        rows: receives the decoded messages.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        names: Sequence[str],
        values: Callable[[pa.Array, pa.Array, Sequence[bool] | None, pa.Array | None], pa.Array] | None = None,
        *,
        keyed: bool = False,
        builder: Callable[[Projection], RowBuilder] = ROW_BUILDER,
    ) -> None:
        self._decode_values = values
        self._keyed = keyed
        self._topic = topic
        self._partition = partition
        self._names = tuple(names)
        self.rows = builder(
            Projection(
                values=not {"value", RAW_VALUE.name}.isdisjoint(names),
                keys=keyed or not {"key", "orderingKey"}.isdisjoint(names),
                properties="properties" in names,
                times="eventTime" in names,
                sequence="sequenceId" in names,
            )
        )

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return all rows since the last record batch; there must be at least one.

        Args:
            schema: the requested columns with the types that Spark expects.
        """
        rows = self.rows.finish()
        headers: _Headers = EntryHeader._make(zip(*rows.headers, strict=True))
        arrays = [self._BUILDERS[name](self, rows, headers) for name in self._names]
        return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else _rows_only(rows.rows, schema)

    # One method per column

    def _build_topic(self, rows: RowBatch, _: _Headers) -> pa.Array:
        return pa.repeat(pa.scalar(self._topic, pa.string()), rows.rows)

    def _build_partition(self, rows: RowBatch, _: _Headers) -> pa.Array:
        partition = None if self._partition < 0 else self._partition
        return pa.repeat(pa.scalar(partition, pa.int32()), rows.rows)

    def _build_message_id(self, rows: RowBatch, headers: _Headers) -> pa.Array:
        positions = zip(headers.ledger_id, headers.entry_id, strict=True)
        ids = [f"{ledger_id}:{entry_id}:{self._partition}" for ledger_id, entry_id in positions]
        return self.rows.message_ids(ids, rows)

    def _build_ledger_id(self, rows: RowBatch, headers: _Headers) -> pa.Array:
        return _per_row(headers.ledger_id, pa.int64(), rows)

    def _build_entry_id(self, rows: RowBatch, headers: _Headers) -> pa.Array:
        return _per_row(headers.entry_id, pa.int64(), rows)

    def _build_batch_index(self, rows: RowBatch, _: _Headers) -> pa.Array:
        return rows.batch_indexes

    def _build_batch_size(self, rows: RowBatch, headers: _Headers) -> pa.Array:
        return _per_row(headers.batch_size, pa.int32(), rows)

    def _build_publish_time(self, rows: RowBatch, headers: _Headers) -> pa.Array:
        return _per_row(times_array(headers.publish_time), TIMESTAMP, rows)

    def _build_event_time(self, rows: RowBatch, _: _Headers) -> pa.Array:
        return rows.event_times

    def _build_broker_time(self, rows: RowBatch, headers: _Headers) -> pa.Array:
        return _per_row(times_array(headers.broker_time), TIMESTAMP, rows)

    def _build_index(self, rows: RowBatch, headers: _Headers) -> pa.Array:
        of_last = _per_row([None if index < 0 else index for index in headers.last_index], pa.int64(), rows)
        if of_last.null_count == len(of_last) or rows.batch_indexes.null_count == len(of_last):
            return of_last
        # As MessageImpl.getIndex: the owner stores the index of a batch's last message.
        first = pc.subtract(of_last, self._build_batch_size(rows, headers))
        in_batch = pc.add(pc.add(first, rows.batch_indexes), 1)
        return pc.coalesce(in_batch, of_last)

    def _build_key(self, rows: RowBatch, _: _Headers) -> pa.Array:
        return rows.keys

    def _build_ordering_key(self, rows: RowBatch, _: _Headers) -> pa.Array:
        return rows.ordering_keys

    def _build_value(self, rows: RowBatch, headers: _Headers) -> pa.Array:
        if self._decode_values is None:
            return rows.values
        encrypted = None
        if any(headers.encryption):
            of_entries = pa.array([one is not None for one in headers.encryption], pa.bool_())
            encrypted = _per_row(of_entries, pa.bool_(), rows).to_pylist()
        versions = self._build_schema_version(rows, headers)
        return self._decode_values(rows.values, versions, encrypted, rows.keys if self._keyed else None)

    def _build_raw_value(self, rows: RowBatch, _: _Headers) -> pa.Array:
        return rows.values

    def _build_properties(self, rows: RowBatch, _: _Headers) -> pa.Array:
        return rows.properties

    def _build_producer_name(self, rows: RowBatch, headers: _Headers) -> pa.Array:
        return _per_row(headers.producer_name, pa.string(), rows)

    def _build_sequence_id(self, rows: RowBatch, _: _Headers) -> pa.Array:
        return rows.sequence_ids

    def _build_schema_version(self, rows: RowBatch, headers: _Headers) -> pa.Array:
        return _per_row(headers.schema_version, pa.binary(), rows)

    def _build_replicated_from(self, rows: RowBatch, headers: _Headers) -> pa.Array:
        return _per_row(headers.replicated_from, pa.string(), rows)

    def _build_encryption(self, rows: RowBatch, headers: _Headers) -> pa.Array:
        return _per_row(headers.encryption, ENCRYPTION, rows)

    _BUILDERS: Final = {
        "topic": _build_topic,
        "partition": _build_partition,
        "messageId": _build_message_id,
        "ledgerId": _build_ledger_id,
        "entryId": _build_entry_id,
        "batchIndex": _build_batch_index,
        "batchSize": _build_batch_size,
        "publishTime": _build_publish_time,
        "eventTime": _build_event_time,
        "brokerTime": _build_broker_time,
        "index": _build_index,
        "key": _build_key,
        "orderingKey": _build_ordering_key,
        "value": _build_value,
        "rawValue": _build_raw_value,
        "properties": _build_properties,
        "producerName": _build_producer_name,
        "sequenceId": _build_sequence_id,
        "schemaVersion": _build_schema_version,
        "replicatedFrom": _build_replicated_from,
        "encryption": _build_encryption,
    }


def _per_row(of_entries: Any, kind: pa.DataType, rows: RowBatch) -> pa.Array:
    """Expand values of entries to values of rows."""
    found = of_entries if isinstance(of_entries, pa.Array) else pa.array(of_entries, kind)
    if found.null_count == len(found):
        return pa.nulls(rows.rows, kind)
    return found if rows.entry_of_row is None else found.take(rows.entry_of_row)


def _rows_only(rows: int, schema: pa.Schema) -> pa.RecordBatch:
    """Return a record batch without columns, as a count needs it."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([]))).cast(schema)


def entry_header(ledger_id: int, entry_id: int, stored: StoredEntry) -> EntryHeader:
    """Return the fields that the messages of an entry share."""
    metadata = stored.metadata
    return EntryHeader(
        ledger_id,
        entry_id,
        metadata.num_messages_in_batch if stored.batched else None,
        metadata.publish_time,
        stored.broker_timestamp,
        stored.index,
        _text(metadata.producer_name),
        metadata.schema_version if metadata.HasField("schema_version") else None,
        _text(metadata.replicated_from) if metadata.HasField("replicated_from") else None,
        _encryption(stored),
    )


def _encryption(stored: StoredEntry) -> dict[str, Any] | None:
    metadata = stored.metadata
    if not stored.encrypted:
        return None
    known = 0 <= metadata.compression < len(_COMPRESSIONS)
    return {
        "keys": [
            {
                "name": _text(key.key),
                "value": key.value,
                "metadata": {_text(pair.key): _text(pair.value) for pair in key.metadata},
            }
            for key in metadata.encryption_keys
        ],
        "algorithm": _text(metadata.encryption_algo) if metadata.HasField("encryption_algo") else None,
        "parameter": metadata.encryption_param,
        "compression": _COMPRESSIONS[metadata.compression] if known else str(metadata.compression),
        "uncompressedSize": metadata.uncompressed_size,
        "chunkUuid": _text(metadata.uuid) if stored.chunk else None,
        "chunkId": metadata.chunk_id if stored.chunk else None,
        "chunks": metadata.num_chunks_from_msg if stored.chunk else None,
    }


def _text(found: str | bytes) -> str:
    """Return a text; protobuf gives one that is not UTF-8 as bytes."""
    return found if isinstance(found, str) else found.decode(errors="replace")
