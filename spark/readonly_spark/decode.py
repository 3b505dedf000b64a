"""From entries to columns: the one function that the speed of a task hangs on. Pure.

`decode_entries` takes entries as bookies and tiered storage give them and appends their messages to column buffers. It needs no
message objects, and nothing but its arguments: another implementation of it can take its place and is tested in the same way.
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from readonly_engine.wire.batch import Message, StoredEntry, decode_stored_entry, single_message, unpack
from readonly_engine.wire.compression import decompress
from readonly_engine.wire.errors import MalformedFrameError, WireError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_engine.wire.entry import Entry

    from readonly_spark.chunked import ChunkedMessages
    from readonly_spark.columns import MessageColumns

_SIZE: Final = struct.Struct(">i")
_SIZE_BYTES: Final = 4
_PAYLOAD_SIZE_TAG: Final = 0x18
_SEQUENCE_ID_TAG: Final = 0x40
_CONTINUES: Final = 0x7F
_MOST_INT64: Final = (1 << 63) - 1
_REQUIRED: Final = ("producer_name", "sequence_id", "publish_time")


class DamagedEntryError(Exception):
    """An entry that is a producer's and cannot be taken apart."""


@dataclass(slots=True)
class Decoder:
    """What decoding needs to know beside the entries.

    Attributes:
        chunked: joins the chunks of large messages.
        aborted: transactions whose messages are left out.
    """

    chunked: ChunkedMessages
    aborted: frozenset[tuple[int, int]] = field(default_factory=frozenset)


def decode_entries(
    entries: Sequence[Entry], start: int, decoder: Decoder, columns: MessageColumns, most_bytes: int
) -> int:
    """Append the messages of entries to columns: in order, until the columns are full or the entries are used up.

    Left out are markers, messages of aborted transactions, messages that compaction took out, and what no producer of Pulsar
    wrote (as the owner's dispatcher does). What is encrypted is passed on as it is, one row an entry.

    Args:
        entries: of one topic, in its order, without a gap.
        start: the index of the first one to decode.
        decoder: what else is known.
        columns: where messages go.
        most_bytes: stop behind the entry with which the columns reach this size.

    Returns:
        The index of the first entry that was not decoded.

    Raises:
        DamagedEntryError: an entry is damaged, or compressed in an unknown way.
    """
    for index in range(start, len(entries)):
        entry = entries[index]
        try:
            _decode(entry, decoder, columns)
        except WireError as error:
            raise DamagedEntryError(f"entry {entry.ledger_id}:{entry.entry_id}: {error}") from error
        if columns.bytes >= most_bytes:
            return index + 1
    return len(entries)


def _decode(entry: Entry, decoder: Decoder, columns: MessageColumns) -> None:
    try:
        stored = decode_stored_entry(entry.payload)
    except MalformedFrameError:
        return
    metadata = stored.metadata
    if metadata.HasField("marker_type") or not all(map(metadata.HasField, _REQUIRED)):
        return
    if (
        decoder.aborted
        and metadata.HasField("txnid_least_bits")
        and (metadata.txnid_most_bits, metadata.txnid_least_bits) in decoder.aborted
    ):
        return
    if metadata.encryption_keys:
        _append(_as_stored(stored), columns)
    elif stored.chunk:
        message = decoder.chunked.add(entry, stored)
        if message is not None:
            _append(message, columns)
    else:
        body = decompress(metadata.compression, stored.body, metadata.uncompressed_size)
        if not stored.batched:
            _append(single_message(metadata, body), columns)
        elif not _append_plain_batch(body, metadata.num_messages_in_batch, metadata.sequence_id, columns):
            _append_batch(stored, columns)
    columns.entry(entry.ledger_id, entry.entry_id, stored)


def _as_stored(stored: StoredEntry) -> Message:
    """An encrypted entry; its key and properties, where it has any, are in clear."""
    return single_message(stored.metadata, stored.body)


def _append(message: Message, columns: MessageColumns) -> None:
    if columns.with_values:
        columns.values.append(message.value)
    columns.batch_indexes.append(message.batch_index)
    columns.bytes += len(message.value or b"")
    if columns.with_keys:
        columns.keys.append(message.key)
        columns.ordering_keys.append(message.ordering_key)
        columns.bytes += len(message.key or b"")
    if columns.with_properties:
        columns.properties.append(message.properties)
        columns.bytes += sum(len(key) + len(value) for key, value in message.properties)
    if columns.with_times:
        columns.event_times.append(message.event_time)
    if columns.with_sequence:
        columns.sequence_ids.append(message.sequence_id)


def _append_batch(stored: StoredEntry, columns: MessageColumns) -> None:
    for message in unpack(stored):
        _append(message, columns)


def _append_plain_batch(body: bytes, count: int, first_sequence_id: int, columns: MessageColumns) -> bool:
    """Append a batch whose messages have nothing but a payload and perhaps a sequence id: the most frequent by far.

    Returns:
        False, and nothing is appended, where it is another one.
    """
    values: list[bytes | None] = []
    sequence_ids: list[int] = []
    append = values.append
    number = sequence_ids.append if columns.with_sequence else None
    size_at = _SIZE.unpack_from
    position = 0
    try:
        for index in range(count):
            (size,) = size_at(body, position)
            at = position + _SIZE_BYTES
            end = at + size
            if size < 2 or body[at] != _PAYLOAD_SIZE_TAG:
                return False
            length = body[at + 1]
            at += 2
            if length > _CONTINUES:
                length &= _CONTINUES
                shift = 7
                while True:
                    byte = body[at]
                    at += 1
                    length |= (byte & _CONTINUES) << shift
                    if byte <= _CONTINUES:
                        break
                    shift += 7
            sequence_id = first_sequence_id + index
            if at < end:
                if body[at] != _SEQUENCE_ID_TAG:
                    return False
                at += 1
                sequence_id = shift = 0
                while True:
                    byte = body[at]
                    at += 1
                    sequence_id |= (byte & _CONTINUES) << shift
                    if byte <= _CONTINUES:
                        break
                    shift += 7
            if at != end or sequence_id > _MOST_INT64:
                return False
            position = end + length
            append(body[end:position])
            if number is not None:
                number(sequence_id)
    except (IndexError, struct.error):
        return False  # damaged: the careful way says how
    if position > len(body):
        return False
    if columns.with_values:
        columns.values += values
    columns.batch_indexes.extend(array("i", range(count)))
    columns.bytes += len(body)
    columns.sequence_ids += sequence_ids
    if columns.with_keys:
        columns.keys += [None] * count
        columns.ordering_keys += [None] * count
    if columns.with_properties:
        columns.properties += [()] * count
    if columns.with_times:
        columns.event_times += [0] * count
    return True
