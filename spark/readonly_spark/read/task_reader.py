"""The entries of one task as Arrow record batches."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from readonly_engine.bookkeeper.errors import BookKeeperError, NoSuchEntryError, NoSuchLedgerError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.wire.batch import decode_stored_entry
from readonly_engine.wire.compacted import decode_compacted
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.errors import WireError

from readonly_spark.errors import DataLossError, SourceError
from readonly_spark.read.entry_source import EntrySource
from readonly_spark.rows.chunks import ChunkedMessages
from readonly_spark.rows.columns import MessageColumns
from readonly_spark.rows.decode import DamagedEntryError, DecodeContext, decode_entries
from readonly_spark.values.decoder import ValueDecoder
from readonly_spark.values.schema import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from readonly_engine.wire.batch import StoredEntry

    from readonly_spark.task import CompactedRange, TaskPlan, TaskRange

log = logging.getLogger(__name__)

LOOK_BACK_READ_ENTRIES: Final = 200
"""Entries of one read in search of a message's earlier chunks."""

MAX_LOOK_BACK_ENTRIES: Final = 20_000
"""Entries to search for the first chunk; a message without one is skipped, as if its first chunk was trimmed."""


def read_task(task: TaskPlan, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a task.

    Args:
        task: the task.
        schema: the columns to read.

    Raises:
        SourceError: the entries cannot be read.
    """
    source = EntrySource(task)
    try:
        for task_range in task.ranges:
            yield from _read_range(source, task, task_range, schema)
    finally:
        source.close()


def _read_range(
    source: EntrySource, task: TaskPlan, task_range: TaskRange, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    name = parse_topic_name(task_range.topic)
    ledger = task_range.ledger
    values = None
    if task.schemas and "value" in schema.names:
        values = ValueDecoder(task.schemas[str(name.base)], schema.field("value").type).column
    columns = MessageColumns(str(name.base), name.partition, schema.names, values)
    chunked = ChunkedMessages(lambda uuid: _earlier_chunks(source, task_range, uuid))
    context = DecodeContext(chunked, task_range.aborted)
    max_bytes = task.options.batch_bytes
    try:
        try:
            for entries in source.read(task_range.topic, ledger, task_range.first, task_range.last, ledger.entry_bytes):
                decodable = entries if task_range.compacted is None else _unwrap(entries, task_range.compacted)
                start = 0
                while start < len(decodable):
                    start = decode_entries(decodable, start, context, columns.rows, max_bytes)
                    if columns.rows.size >= max_bytes:
                        yield columns.batch(schema)
        except (NoSuchEntryError, NoSuchLedgerError) as error:
            lost = f"{task_range.topic}: entries {task_range.first} to {task_range.last} of ledger {ledger.ledger_id}: {error}"
            if task.options.fail_on_data_loss:
                raise DataLossError(f"{lost}; set failOnDataLoss=false to read the rest") from error
            log.warning("lost: %s", lost)
        if columns.rows.count:
            yield columns.batch(schema)
    except (BookKeeperError, DamagedEntryError, SchemaError) as error:
        raise SourceError(f"{task_range.topic}: {error}") from error


def _unwrap(entries: Sequence[Entry], compacted: CompactedRange) -> list[Entry]:
    """Return the entries of a compacted ledger at their original positions, limited to the range."""
    found = []
    for entry in entries:
        try:
            position, payload = decode_compacted(bytes(entry.payload))
        except WireError as error:
            raise DamagedEntryError(f"entry {entry.entry_id} of compacted ledger {entry.ledger_id}: {error}") from error
        if compacted.start <= position < compacted.end:
            found.append(Entry(*position, -1, 0, payload))
    return found


def _earlier_chunks(source: EntrySource, task_range: TaskRange, uuid: str) -> list[StoredEntry]:
    """Return the chunks of a message that precede this range, from its last first chunk on."""
    found: list[StoredEntry] = []
    seen = 0
    before = (task_range.ledger, task_range.first - 1)
    for ledger, last in (before, *((ledger, ledger.last) for ledger in task_range.earlier)):
        end = last
        while end >= 0 and seen < MAX_LOOK_BACK_ENTRIES:
            begin = max(end - LOOK_BACK_READ_ENTRIES + 1, 0)
            entries = [
                entry
                for part in source.read(task_range.topic, ledger, begin, end, ledger.entry_bytes)
                for entry in part
            ]
            seen += len(entries)
            for entry in reversed(entries):
                try:
                    stored = decode_stored_entry(bytes(entry.payload))
                except WireError:
                    continue
                if stored.chunk and not stored.encrypted and stored.metadata.uuid == uuid:
                    found.append(stored)
                    if stored.metadata.chunk_id == 0:
                        return found[::-1]
            end = begin - 1
    return found[::-1]
