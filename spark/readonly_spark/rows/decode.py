"""Entries to rows: the function that decides the speed of a task. Pure.

`decode_entries` appends the messages of stored entries to a row builder. The builder in C takes simple entries whole. All other
entries are decoded one by one in Python, in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from readonly_engine.wire.batch import Message, decode_stored_entry, single_message, unpack
from readonly_engine.wire.compression import decompress
from readonly_engine.wire.errors import MalformedFrameError, WireError

from readonly_spark.rows.columns import entry_header

if TYPE_CHECKING:
    from readonly_engine.wire.entry import Entry

    from readonly_spark.rows.builder import RowBuilder
    from readonly_spark.rows.chunks import ChunkedMessages
    from readonly_spark.rows.partial_entry import PartialEntry

_MAX_INT64: Final = (1 << 63) - 1
_REQUIRED: Final = ("producer_name", "sequence_id", "publish_time")


class DamagedEntryError(Exception):
    """A producer's entry that cannot be decoded."""


@dataclass(slots=True)
class DecodeContext:
    """State that decoding needs in addition to the entries.

    Attributes:
        chunked: joins the chunks of large messages.
        aborted: transactions whose messages are skipped.
        partial: the messages of each entry that are read if it is a batch; None for all.
    """

    chunked: ChunkedMessages
    aborted: frozenset[tuple[int, int]] = field(default_factory=frozenset)
    partial: PartialEntry | None = None


def decode_entries(entries: list[Entry], start: int, context: DecodeContext, rows: RowBuilder, max_bytes: int) -> int:
    """Append the messages of entries to rows, in order, until the rows are full or the entries are used up.

    Markers, messages of aborted transactions, messages that compaction removed and payloads that no Pulsar producer wrote are
    skipped, as the owner broker's dispatcher does. An encrypted entry becomes one row with its stored payload.

    Args:
        entries: consecutive entries of one topic, in order.
        start: index of the first entry to decode.
        context: chunks and aborted transactions of the range.
        rows: receives the messages.
        max_bytes: stop after the entry with which the rows reach this size.

    Returns:
        The index of the first entry that was not decoded.

    Raises:
        DamagedEntryError: an entry is damaged, or its compression is unknown.
    """
    index = start
    refuse_transactions = bool(context.aborted)
    while index < len(entries):
        whole = context.partial is None
        simple = rows.append_entries(entries, index, max_bytes, refuse_transactions) if whole else index
        if simple > index:
            index = simple
            if rows.size >= max_bytes:
                break
            continue
        entry = entries[index]
        try:
            _decode(entry, context, rows)
        except WireError as error:
            raise DamagedEntryError(f"entry {entry.ledger_id}:{entry.entry_id}: {error}") from error
        index += 1
        if rows.size >= max_bytes:
            break
    return index


def _decode(entry: Entry, context: DecodeContext, rows: RowBuilder) -> None:
    try:
        stored = decode_stored_entry(bytes(entry.payload))
    except MalformedFrameError:
        return
    metadata = stored.metadata
    if metadata.HasField("marker_type") or not all(map(metadata.HasField, _REQUIRED)):
        return
    if (
        context.aborted
        and metadata.HasField("txnid_least_bits")
        and (metadata.txnid_most_bits, metadata.txnid_least_bits) in context.aborted
    ):
        return
    if metadata.encryption_keys:
        # The key and the properties of an encrypted entry are not encrypted.
        _append(single_message(metadata, stored.body), rows)
    elif stored.chunk:
        message = context.chunked.add(entry, stored)
        if message is not None:
            _append(message, rows)
    else:
        body = decompress(metadata.compression, stored.body, metadata.uncompressed_size)
        partial = context.partial
        if not stored.batched:
            _append(single_message(metadata, body), rows)
        elif partial is not None:
            for message in unpack(stored):
                if partial.first <= message.batch_index and (partial.end is None or message.batch_index < partial.end):
                    _append(message, rows)
        elif not rows.append_batch(body, metadata.num_messages_in_batch, metadata.sequence_id):
            for message in unpack(stored):
                _append(message, rows)
    rows.end_entry(entry_header(entry.ledger_id, entry.entry_id, stored))


def _append(message: Message, rows: RowBuilder) -> None:
    # A sequence id above the largest int64 wraps, as in Java.
    sequence_id = message.sequence_id if message.sequence_id <= _MAX_INT64 else message.sequence_id - (1 << 64)
    rows.append_message(
        message.value,
        message.batch_index,
        message.key,
        message.ordering_key,
        dict(message.properties),  # the last of equal keys wins, as in the Java client
        message.event_time,
        sequence_id,
    )
