"""The entries of one task as Arrow record batches."""

from __future__ import annotations

import logging
import socket
import time
from typing import TYPE_CHECKING, Final

from readonly_engine.bookkeeper.errors import BookKeeperError, MissingEntriesError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.wire.batch import decode_stored_entry
from readonly_engine.wire.compacted import decode_compacted
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.errors import WireError

from readonly_spark.errors import DataLossError, SourceError
from readonly_spark.outages import RetryWindow, is_transient
from readonly_spark.read.entry_source import EntrySource
from readonly_spark.rows.chunks import ChunkedMessages, EarlierChunks
from readonly_spark.rows.columns import MessageColumns
from readonly_spark.rows.decode import DamagedEntryError, DecodeContext, decode_entries
from readonly_spark.task import EARLIER_LEDGERS
from readonly_spark.values.decoder import ValueDecoder
from readonly_spark.values.schema import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.batch import StoredEntry

    from readonly_spark.rows.partial_entry import PartialEntry
    from readonly_spark.task import CompactedRange, TaskPlan, TaskRange

log = logging.getLogger(__name__)

LOOK_BACK_READ_ENTRIES: Final = 200
"""Entries of one read in search of a message's earlier chunks."""

MAX_SHOWN_RANGES: Final = 10
"""Ranges of lost entries in one line of the log."""

MAX_LOOK_BACK_ENTRIES: Final = 20_000
"""Entries to search for the first chunk of a message."""

MAX_SEARCHED_ENTRIES: Final = 1_000_000
"""The same for all messages of a range: last chunks without a first one are cheap to publish."""


def read_task(task: TaskPlan, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a task.

    Args:
        task: the task.
        schema: the columns to read.

    Raises:
        SourceError: the entries cannot be read, or this machine lacks the file of the option `requiredFile`.
    """
    required = task.options.required_file
    if required is not None and not required.exists():
        raise SourceError(
            f"a task requires the file {required}, which does not exist on {socket.gethostname()}; share its folder with this "
            "machine, or use an object store or HDFS"
        )
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
    values, keyed = None, False
    if task.schemas and "value" in schema.names:
        decoder = ValueDecoder(task.schemas[str(name.base)], schema.field("value").type)
        values, keyed = decoder.decode, decoder.keyed
    columns = MessageColumns(str(name.base), name.partition, schema.names, values, keyed=keyed)
    chunked = ChunkedMessages(_ChunkSearch(source, task_range))
    context = DecodeContext(chunked, task_range.aborted)
    max_bytes = task.options.batch_bytes
    try:
        for entries in _existing(source, task_range, fail=task.options.fail_on_data_loss, retry_s=task.options.retry_s):
            decodable = entries if task_range.compacted is None else _unwrap(entries, task_range.compacted)
            for run, context.partial in _runs(decodable, task_range.partial):
                start = 0
                while start < len(run):
                    start = decode_entries(run, start, context, columns.rows, max_bytes)
                    if columns.rows.size >= max_bytes:
                        yield columns.batch(schema)
        _report(chunked, task_range.topic, fail=task.options.fail_on_data_loss)
        if columns.rows.count:
            yield columns.batch(schema)
    except (BookKeeperError, DamagedEntryError, SchemaError) as error:
        raise SourceError(f"{task_range.topic}: {error}") from error


def _runs(entries: list[Entry], partial: Sequence[PartialEntry]) -> Iterator[tuple[list[Entry], PartialEntry | None]]:
    """Yield entries in order: those that are read in part alone, and the others between them together."""
    start = 0
    for one in partial:
        for index in range(start, len(entries)):
            if (entries[index].ledger_id, entries[index].entry_id) == one.position:
                yield entries[start:index], None
                yield [entries[index]], one
                start = index + 1
                break
    yield (entries[start:] if start else entries), None


def _report(chunked: ChunkedMessages, topic: str, *, fail: bool) -> None:
    """Log chunked messages that are no rows.

    Raises:
        DataLossError: the first chunk of a message is too far away, or was trimmed since the query began, and `fail` is set.
    """
    if chunked.incomplete:
        log.warning("%s: %d messages lack chunks, which were trimmed or never published", topic, chunked.incomplete)
    if chunked.unknown:
        what = f"{topic}: the first chunks of the messages that end at {', '.join(map(str, chunked.unknown[:MAX_SHOWN_RANGES]))}"
        where = (
            f"were trimmed, or are more than {MAX_LOOK_BACK_ENTRIES:,} entries, or {EARLIER_LEDGERS} ledgers, before"
        )
        if fail:
            raise DataLossError(f"{what} {where}; set failOnDataLoss=false to read the rest")
        log.warning("lost: %s %s", what, where)


def _existing(source: EntrySource, task_range: TaskRange, *, fail: bool, retry_s: float = 0.0) -> Iterator[list[Entry]]:
    """Yield the entries of a range that exist, in order.

    Args:
        source: reads entries.
        task_range: the range.
        fail: whether missing entries are an error.
        retry_s: time for which entries are read again while bookies do not answer, in seconds.

    Raises:
        DataLossError: entries are missing, and `fail` is set.
        BookKeeperError: entries cannot be read now.
    """
    ledger = task_range.ledger
    lost: list[tuple[int, int]] = []
    outages = RetryWindow(retry_s)
    todo = [(task_range.first, task_range.last)]  # the next one last
    while todo:
        first, last = todo.pop()
        if first > last:
            continue
        try:
            for entries in source.read(task_range.topic, ledger, first, last, ledger.entry_bytes):
                first = entries[-1].entry_id + 1
                outages.ended([""])
                yield entries
        except MissingEntriesError as error:
            missing = error.missing or (first, last)
            begin, end = max(missing[0], first), min(missing[1], last)
            if fail:
                what = f"{task_range.topic}: entries {begin} to {end} of ledger {ledger.ledger_id} are lost: {error}"
                raise DataLossError(f"{what}; set failOnDataLoss=false to read the rest") from error
            # Later reads may fail first, so entries before the missing ones are read now.
            todo += [(end + 1, last), (first, begin - 1)]
            lost.append((begin, end))
        except BookKeeperError as error:
            now = time.monotonic()
            pause = outages.failed("", now) if is_transient(error) else None
            if pause is None:
                raise
            if outages.to_log("", now):
                log.warning("%s is read again for at most %g s: %s", task_range.topic, retry_s, error)
            time.sleep(pause)
            todo.append((first, last))
    if lost:
        log.warning("lost: %s: %s of ledger %d", task_range.topic, _shown(lost), ledger.ledger_id)


def _shown(lost: Iterable[tuple[int, int]]) -> str:
    """Return ranges of entries as text, neighbours together: `entries 3 to 9, 12 to 12 and 4 other ranges`."""
    merged: list[list[int]] = []
    for first, last in sorted(lost):
        if merged and first <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    text = ", ".join(f"{first} to {last}" for first, last in merged[:MAX_SHOWN_RANGES])
    others = len(merged) - MAX_SHOWN_RANGES
    return f"entries {text}{f' and {others} other ranges' if others > 0 else ''}"


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


class _ChunkSearch:
    """Search the entries before another one for the chunks of a message, from its last first chunk on.

    Args:
        source: reads entries.
        task_range: the range with the message's last chunk.
    """

    def __init__(self, source: EntrySource, task_range: TaskRange) -> None:
        self._source = source
        self._range = task_range
        self._left = MAX_SEARCHED_ENTRIES

    def __call__(self, uuid: str, before: Position) -> EarlierChunks:
        """See ChunkedMessages."""
        found: list[StoredEntry] = []
        left = min(MAX_LOOK_BACK_ENTRIES, self._left)
        here = (self._range.ledger, before.entry_id - 1)
        for ledger, last in (here, *((ledger, ledger.last) for ledger in self._range.earlier)):
            end = last
            while end >= 0:
                if left <= 0:
                    return EarlierChunks(found[::-1], whole=False)
                begin = max(end - LOOK_BACK_READ_ENTRIES + 1, 0)
                try:
                    parts = list(self._source.read(self._range.topic, ledger, begin, end, ledger.entry_bytes))
                except MissingEntriesError:
                    # As if they were trimmed; the range that they belong to reports the loss, unless it was read before.
                    return EarlierChunks(found[::-1], whole=not self._range.resumed)
                left -= end - begin + 1
                self._left -= end - begin + 1
                for entry in reversed([entry for part in parts for entry in part]):
                    try:
                        stored = decode_stored_entry(bytes(entry.payload))
                    except WireError:
                        continue
                    if stored.chunk and not stored.encrypted and stored.metadata.uuid == uuid:
                        found.append(stored)
                        if stored.metadata.chunk_id == 0:
                            return EarlierChunks(found[::-1])
                end = begin - 1
        all_searched = len(self._range.earlier) < EARLIER_LEDGERS and not self._range.resumed
        return EarlierChunks(found[::-1], whole=all_searched)
