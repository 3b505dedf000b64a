"""The work of one task: reads its entries and gives Arrow batches."""

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
from readonly_spark.rows.decode import DamagedEntryError, Decoder, decode_entries
from readonly_spark.values.schema import SchemaError, ValueDecoder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from readonly_engine.wire.batch import StoredEntry

    from readonly_spark.task import Compacted, TaskPiece, Work

log = logging.getLogger(__name__)

LOOK_BACK_ENTRIES: Final = 200
"""Entries that are read at once in search of a message's earlier chunks."""

LOOK_BACK_MOST: Final = 20_000
"""A message of which no first chunk is found in so many entries before is left out, as one whose first chunk was trimmed."""


def read_work(work: Work, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The messages of a task.

    Args:
        work: the task.
        schema: the wanted columns.

    Raises:
        SourceError: they cannot be read.
    """
    source = EntrySource(work)
    try:
        for piece in work.pieces:
            yield from _read_piece(source, work, piece, schema)
    finally:
        source.close()


def _read_piece(source: EntrySource, work: Work, piece: TaskPiece, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    name = parse_topic_name(piece.topic)
    values = None
    if work.schemas and "value" in schema.names:
        values = ValueDecoder(work.schemas[str(name.base)], schema.field("value").type).column
    columns = MessageColumns(str(name.base), name.partition, schema.names, values)
    decoder = Decoder(ChunkedMessages(lambda uuid: _earlier_chunks(source, piece, uuid)), piece.aborted)
    most = work.options.batch_bytes
    try:
        try:
            for entries in source.read(piece.topic, piece.ledger, piece.first, piece.last, piece.ledger.entry_bytes):
                wanted = entries if piece.compacted is None else _unwrap(entries, piece.compacted)
                start = 0
                while start < len(wanted):
                    start = decode_entries(wanted, start, decoder, columns.rows, most)
                    if columns.rows.size >= most:
                        yield columns.batch(schema)
        except (NoSuchEntryError, NoSuchLedgerError) as error:
            lost = f"{piece.topic}: entries {piece.first} to {piece.last} of ledger {piece.ledger.ledger_id}: {error}"
            if work.options.fail_on_data_loss:
                raise DataLossError(f"{lost}; failOnDataLoss=false reads what is left") from error
            log.warning("lost: %s", lost)
        if columns.rows.count:
            yield columns.batch(schema)
    except (BookKeeperError, DamagedEntryError, SchemaError) as error:
        raise SourceError(f"{piece.topic}: {error}") from error


def _unwrap(entries: Sequence[Entry], compacted: Compacted) -> list[Entry]:
    """Entries of a compacted ledger as they stood in the topic, those in the wanted range."""
    found = []
    for entry in entries:
        try:
            where, payload = decode_compacted(bytes(entry.payload))
        except WireError as error:
            raise DamagedEntryError(f"entry {entry.entry_id} of compacted ledger {entry.ledger_id}: {error}") from error
        if compacted.start <= where < compacted.end:
            found.append(Entry(*where, -1, 0, payload))
    return found


def _earlier_chunks(source: EntrySource, piece: TaskPiece, uuid: str) -> list[StoredEntry]:
    """The chunks of a message before this piece, from its last first chunk on."""
    found: list[StoredEntry] = []
    seen = 0
    for ledger, last in ((piece.ledger, piece.first - 1), *((ledger, ledger.last) for ledger in piece.earlier)):
        end = last
        while end >= 0 and seen < LOOK_BACK_MOST:
            begin = max(end - LOOK_BACK_ENTRIES + 1, 0)
            entries = [
                entry for part in source.read(piece.topic, ledger, begin, end, ledger.entry_bytes) for entry in part
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
