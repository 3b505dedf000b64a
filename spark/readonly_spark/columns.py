"""The columns of the source, and Arrow batches of them: buffers that messages are decoded into, never message objects.

What all messages of an entry share is kept once for the entry and spread out by an index when a batch is made.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from readonly_spark.type_names import TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from readonly_engine.wire.batch import StoredEntry

PROPERTIES: Final = pa.map_(pa.string(), pa.string())

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

ROW_BYTES: Final = 96
"""What a row costs beside its payload, about: to know when a batch is full."""


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


class MessageColumns:
    """Messages of one topic, column by column, until a batch is made of them.

    The decoder appends to the lists of messages and calls `entry` behind the messages of each entry. Only the columns that are
    wanted are filled; `values` always is.

    Args:
        topic: the topic's name, without a partition's suffix.
        partition: the partition, -1 for none.
        wanted: names of columns, in the order of the batch.
        values: makes the column `value` of payloads and their schema versions; None leaves them as they are.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        wanted: Sequence[str],
        values: Callable[[Sequence[bytes | None], Sequence[bytes | None]], pa.Array] | None = None,
    ) -> None:
        self._decode_values = values
        self._topic = topic
        self._partition = partition
        self._wanted = tuple(wanted)
        self.with_keys = not {"key", "orderingKey"}.isdisjoint(wanted)
        self.with_properties = "properties" in wanted
        self.with_times = "eventTime" in wanted
        self.with_sequence = "sequenceId" in wanted
        self.with_values = "value" in wanted
        self.rows = 0
        self.bytes = 0
        self._clear()

    def _clear(self) -> None:
        self.values: list[bytes | None] = []
        self.keys: list[bytes | None] = []
        self.ordering_keys: list[bytes | None] = []
        self.properties: list[Sequence[tuple[str, str]]] = []
        self.event_times: list[int] = []
        self.sequence_ids: list[int] = []
        self.batch_indexes = array("i")
        self._counts: list[int] = []
        self._entries: list[tuple[int, int, StoredEntry]] = []
        self.rows = 0
        self.bytes = 0

    def entry(self, ledger_id: int, entry_id: int, stored: StoredEntry) -> None:
        """Say where the messages that were appended since the last call come from.

        Args:
            ledger_id: the ledger.
            entry_id: the entry.
            stored: its metadata; its body is not kept.
        """
        count = len(self.batch_indexes) - self.rows
        if count:
            self.rows += count
            self._counts.append(count)
            self._entries.append((ledger_id, entry_id, stored))
            self.bytes += count * ROW_BYTES

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Everything since the last batch as one.

        Args:
            schema: with the wanted columns, as Spark asks for it.
        """
        indexes = self._spread()
        arrays = [self._BUILDERS[name](self, indexes) for name in self._wanted]
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else _rows_only(self.rows, schema)
        self._clear()
        return batch

    def _spread(self) -> pa.Array | None:
        """For each message the number of its entry; None where each entry has one message."""
        if len(self._counts) == self.rows:
            return None
        spread = array("i")
        for number, count in enumerate(self._counts):
            spread.extend(array("i", (number,)) * count)
        return pa.Array.from_buffers(pa.int32(), self.rows, [None, pa.py_buffer(spread)])

    def _of_entries(self, values: list[Any], kind: pa.DataType, indexes: pa.Array | None) -> pa.Array:
        found = pa.array(values, kind)
        return found if indexes is None else found.take(indexes)

    # One method a column

    def _build_topic(self, _: pa.Array | None) -> pa.Array:
        return pa.repeat(pa.scalar(self._topic, pa.string()), self.rows)

    def _build_partition(self, _: pa.Array | None) -> pa.Array:
        partition = None if self._partition < 0 else self._partition
        return pa.repeat(pa.scalar(partition, pa.int32()), self.rows)

    def _build_message_id(self, indexes: pa.Array | None) -> pa.Array:
        ids = [f"{ledger_id}:{entry_id}:{self._partition}" for ledger_id, entry_id, _ in self._entries]
        whole = self._of_entries(ids, pa.string(), indexes)
        in_batch = self._build_batch_index(indexes)
        if in_batch.null_count == self.rows:
            return whole
        with_index = pc.binary_join_element_wise(whole, pc.cast(in_batch, pa.string()), ":")
        return with_index if not in_batch.null_count else pc.coalesce(with_index, whole)

    def _build_ledger_id(self, indexes: pa.Array | None) -> pa.Array:
        return self._of_entries([ledger_id for ledger_id, _, _ in self._entries], pa.int64(), indexes)

    def _build_entry_id(self, indexes: pa.Array | None) -> pa.Array:
        return self._of_entries([entry_id for _, entry_id, _ in self._entries], pa.int64(), indexes)

    def _build_batch_index(self, _: pa.Array | None) -> pa.Array:
        found = pa.Array.from_buffers(pa.int32(), self.rows, [None, pa.py_buffer(self.batch_indexes)])
        return found if min(self.batch_indexes) >= 0 else pc.replace_with_mask(found, pc.less(found, 0), _NO_INDEX)

    def _build_batch_size(self, indexes: pa.Array | None) -> pa.Array:
        sizes = [stored.metadata.num_messages_in_batch if stored.batched else None for _, _, stored in self._entries]
        return self._of_entries(sizes, pa.int32(), indexes)

    def _build_publish_time(self, indexes: pa.Array | None) -> pa.Array:
        times = [stored.metadata.publish_time * 1000 for _, _, stored in self._entries]
        return self._of_entries(times, pa.int64(), indexes).cast(TIMESTAMP)

    def _build_event_time(self, _: pa.Array | None) -> pa.Array:
        return _times(self.event_times)

    def _build_broker_time(self, indexes: pa.Array | None) -> pa.Array:
        times = [stored.broker_timestamp * 1000 or None for _, _, stored in self._entries]
        return self._of_entries(times, pa.int64(), indexes).cast(TIMESTAMP)

    def _build_key(self, _: pa.Array | None) -> pa.Array:
        return pa.array(self.keys, pa.binary())

    def _build_ordering_key(self, _: pa.Array | None) -> pa.Array:
        return pa.array(self.ordering_keys, pa.binary())

    def _build_value(self, indexes: pa.Array | None) -> pa.Array:
        if self._decode_values is None:
            return binary_array(self.values)
        return self._decode_values(self.values, self._build_schema_version(indexes).to_pylist())

    def _build_properties(self, _: pa.Array | None) -> pa.Array:
        if any(self.properties):
            # As in the Java client, the last of equal keys counts.
            return pa.array([dict(pairs) for pairs in self.properties], PROPERTIES)
        offsets = pa.Array.from_buffers(pa.int32(), self.rows + 1, [None, pa.py_buffer(bytes(4 * (self.rows + 1)))])
        return pa.MapArray.from_arrays(offsets, pa.array([], pa.string()), pa.array([], pa.string()))

    def _build_producer_name(self, indexes: pa.Array | None) -> pa.Array:
        return self._of_entries(
            [_text(stored.metadata.producer_name) for _, _, stored in self._entries], pa.string(), indexes
        )

    def _build_sequence_id(self, _: pa.Array | None) -> pa.Array:
        return pa.array(self.sequence_ids, pa.int64())

    def _build_schema_version(self, indexes: pa.Array | None) -> pa.Array:
        versions = [
            stored.metadata.schema_version if stored.metadata.HasField("schema_version") else None
            for _, _, stored in self._entries
        ]
        return self._of_entries(versions, pa.binary(), indexes)

    def _build_replicated_from(self, indexes: pa.Array | None) -> pa.Array:
        clusters = [
            _text(stored.metadata.replicated_from) if stored.metadata.HasField("replicated_from") else None
            for _, _, stored in self._entries
        ]
        return self._of_entries(clusters, pa.string(), indexes)

    def _build_encryption(self, indexes: pa.Array | None) -> pa.Array:
        return self._of_entries([_encryption(stored) for _, _, stored in self._entries], ENCRYPTION, indexes)

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


_NO_INDEX: Final = pa.scalar(None, pa.int32())


def binary_array(values: Sequence[bytes | None]) -> pa.Array:
    """Byte strings as one buffer and its offsets: a third of the time that Arrow takes for a list of objects."""
    try:
        data = b"".join(values)  # type: ignore[arg-type]
    except TypeError:  # some are None
        return pa.array(values, pa.binary())
    offsets = array("i", accumulate(map(len, values), initial=0))  # type: ignore[arg-type]
    return pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _times(times: Sequence[int]) -> pa.Array:
    """Times in ms, 0 for none."""
    if not any(times):
        return pa.nulls(len(times), TIMESTAMP)
    return pa.array([time * 1000 or None for time in times], pa.int64()).cast(TIMESTAMP)


def _rows_only(rows: int, schema: pa.Schema) -> pa.RecordBatch:
    """A batch without columns, for who only counts."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([]))).cast(schema)


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
