"""The columns of the source, and Arrow batches of them: buffers that messages are decoded into, never message objects.

What all messages of an entry share is kept once for the entry and spread out by an index when a batch is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from readonly_spark.rows.builder import Facts, Wanted, times_array
from readonly_spark.rows.native import ROWS
from readonly_spark.values.type_names import PROPERTIES, TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from readonly_engine.wire.batch import StoredEntry

    from readonly_spark.rows.builder import Rows, Taken

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
        name: its name.
        arrow: its type in Arrow.
        spark: its type in Spark's DDL.
        meaning: for documentation.
    """

    name: str
    arrow: pa.DataType
    spark: str
    meaning: str


COLUMNS: Final = (
    Column(
        "topic", pa.string(), "string", "the topic's full name; of a partitioned one without the partition's suffix"
    ),
    Column("partition", pa.int32(), "int", "the partition's number; null for a topic that is not partitioned"),
    Column(
        "messageId",
        pa.string(),
        "string",
        "`LEDGER:ENTRY:PARTITION`, and `:INDEX` in a batch, as the Java client prints it",
    ),
    Column("ledgerId", pa.int64(), "bigint", "the ledger"),
    Column("entryId", pa.int64(), "bigint", "the entry in it; of a chunked message that of its last chunk"),
    Column("batchIndex", pa.int32(), "int", "the place in its batch; null outside of one"),
    Column(
        "batchSize",
        pa.int32(),
        "int",
        "messages of its batch, those that compaction took out included; null outside of one",
    ),
    Column("publishTime", TIMESTAMP, "timestamp", "when the producer sent it"),
    Column("eventTime", TIMESTAMP, "timestamp", "the time that the application gave it; null for none"),
    Column("brokerTime", TIMESTAMP, "timestamp", "when the owner stored it; null where the cluster does not note it"),
    Column("key", pa.binary(), "binary", "the key's bytes; null for none"),
    Column("orderingKey", pa.binary(), "binary", "the ordering key; null for none"),
    Column("value", pa.binary(), "binary", "the payload; null for a tombstone"),
    Column("properties", PROPERTIES, "map<string,string>", "the application's properties"),
    Column("producerName", pa.string(), "string", "the producer"),
    Column("sequenceId", pa.int64(), "bigint", "the producer's number for it"),
    Column("schemaVersion", pa.binary(), "binary", "the version of the schema that it was written with; null for none"),
    Column("replicatedFrom", pa.string(), "string", "the cluster where it was published, if another; null else"),
    Column(
        "encryption",
        ENCRYPTION,
        "struct<keys:array<struct<name:string,value:binary,metadata:map<string,string>>>,algorithm:string,parameter:binary,"
        "compression:string,uncompressedSize:int,chunkUuid:string,chunkId:int,chunks:int>",
        "of an encrypted entry what its keeper of keys needs: `value` is then the entry's whole payload as it is stored, a batch "
        "in one row; null else",
    ),
)
"""Every column, in the order in which they appear."""

BY_NAME: Final = {column.name: column for column in COLUMNS}
NAMES: Final = tuple(BY_NAME)

_COMPRESSIONS: Final = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")


_Facts = Any
"""Facts of many entries: of each one a tuple, and typed as none."""


class MessageColumns:
    """Messages of one topic, column by column, until a batch is made of them.

    Args:
        topic: the topic's name, without a partition's suffix.
        partition: the partition, -1 for none.
        wanted: names of columns, in the order of the batch.
        values: makes the column `value` of payloads, their schema versions, and which are encrypted if some are; None leaves
            payloads as they are.
        rows: makes what messages are kept in meanwhile.

    Attributes:
        rows: where decoders put messages.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        wanted: Sequence[str],
        values: Callable[[Sequence[bytes | None], Sequence[bytes | None], Sequence[bool] | None], pa.Array]
        | None = None,
        rows: Callable[[Wanted], Rows] = ROWS,
    ) -> None:
        self._decode_values = values
        self._topic = topic
        self._partition = partition
        self._wanted = tuple(wanted)
        self.rows = rows(
            Wanted(
                values="value" in wanted,
                keys=not {"key", "orderingKey"}.isdisjoint(wanted),
                properties="properties" in wanted,
                times="eventTime" in wanted,
                sequence="sequenceId" in wanted,
            )
        )

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Everything since the last batch as one; there must be something.

        Args:
            schema: with the wanted columns, as Spark asks for it.
        """
        taken = self.rows.take()
        facts: _Facts = Facts._make(zip(*taken.facts, strict=True))
        arrays = [self._BUILDERS[name](self, taken, facts) for name in self._wanted]
        return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else _rows_only(taken.rows, schema)

    # One method a column

    def _build_topic(self, taken: Taken, _: _Facts) -> pa.Array:
        return pa.repeat(pa.scalar(self._topic, pa.string()), taken.rows)

    def _build_partition(self, taken: Taken, _: _Facts) -> pa.Array:
        partition = None if self._partition < 0 else self._partition
        return pa.repeat(pa.scalar(partition, pa.int32()), taken.rows)

    def _build_message_id(self, taken: Taken, facts: _Facts) -> pa.Array:
        places = zip(facts.ledger_id, facts.entry_id, strict=True)
        ids = [f"{ledger_id}:{entry_id}:{self._partition}" for ledger_id, entry_id in places]
        return self.rows.message_ids(ids, taken)

    def _build_ledger_id(self, taken: Taken, facts: _Facts) -> pa.Array:
        return _spread(facts.ledger_id, pa.int64(), taken)

    def _build_entry_id(self, taken: Taken, facts: _Facts) -> pa.Array:
        return _spread(facts.entry_id, pa.int64(), taken)

    def _build_batch_index(self, taken: Taken, _: _Facts) -> pa.Array:
        return taken.batch_indexes

    def _build_batch_size(self, taken: Taken, facts: _Facts) -> pa.Array:
        return _spread(facts.batch_size, pa.int32(), taken)

    def _build_publish_time(self, taken: Taken, facts: _Facts) -> pa.Array:
        return _spread(times_array(facts.publish_time), TIMESTAMP, taken)

    def _build_event_time(self, taken: Taken, _: _Facts) -> pa.Array:
        return taken.event_times

    def _build_broker_time(self, taken: Taken, facts: _Facts) -> pa.Array:
        return _spread(times_array(facts.broker_time), TIMESTAMP, taken)

    def _build_key(self, taken: Taken, _: _Facts) -> pa.Array:
        return taken.keys

    def _build_ordering_key(self, taken: Taken, _: _Facts) -> pa.Array:
        return taken.ordering_keys

    def _build_value(self, taken: Taken, facts: _Facts) -> pa.Array:
        if self._decode_values is None:
            return taken.values
        encrypted = None
        if any(facts.encryption):
            of_entries = pa.array([one is not None for one in facts.encryption], pa.bool_())
            encrypted = _spread(of_entries, pa.bool_(), taken).to_pylist()
        versions = self._build_schema_version(taken, facts).to_pylist()
        return self._decode_values(taken.values.to_pylist(), versions, encrypted)

    def _build_properties(self, taken: Taken, _: _Facts) -> pa.Array:
        return taken.properties

    def _build_producer_name(self, taken: Taken, facts: _Facts) -> pa.Array:
        return _spread(facts.producer_name, pa.string(), taken)

    def _build_sequence_id(self, taken: Taken, _: _Facts) -> pa.Array:
        return taken.sequence_ids

    def _build_schema_version(self, taken: Taken, facts: _Facts) -> pa.Array:
        return _spread(facts.schema_version, pa.binary(), taken)

    def _build_replicated_from(self, taken: Taken, facts: _Facts) -> pa.Array:
        return _spread(facts.replicated_from, pa.string(), taken)

    def _build_encryption(self, taken: Taken, facts: _Facts) -> pa.Array:
        return _spread(facts.encryption, ENCRYPTION, taken)

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
        "key": _build_key,
        "orderingKey": _build_ordering_key,
        "value": _build_value,
        "properties": _build_properties,
        "producerName": _build_producer_name,
        "sequenceId": _build_sequence_id,
        "schemaVersion": _build_schema_version,
        "replicatedFrom": _build_replicated_from,
        "encryption": _build_encryption,
    }


def _spread(of_entries: Any, kind: pa.DataType, taken: Taken) -> pa.Array:
    """What entries have, for each of their rows."""
    found = of_entries if isinstance(of_entries, pa.Array) else pa.array(of_entries, kind)
    if found.null_count == len(found):
        return pa.nulls(taken.rows, kind)
    return found if taken.spread is None else found.take(taken.spread)


def _rows_only(rows: int, schema: pa.Schema) -> pa.RecordBatch:
    """A batch without columns, for who only counts."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([]))).cast(schema)


def facts_of(ledger_id: int, entry_id: int, stored: StoredEntry) -> Facts:
    """What the messages of an entry share."""
    metadata = stored.metadata
    return Facts(
        ledger_id,
        entry_id,
        metadata.num_messages_in_batch if stored.batched else None,
        metadata.publish_time,
        stored.broker_timestamp,
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
    """Protobuf hands out a text that is not UTF-8 as bytes."""
    return found if isinstance(found, str) else found.decode(errors="replace")
