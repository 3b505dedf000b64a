"""From entries to columns: the one function that the speed of a task hangs on. Pure.

`decode_entries` takes entries as bookies and tiered storage give them and appends their messages to rows. Usual entries are taken
whole where rows are kept in C; all others go the careful way, one by one, in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from readonly_engine.wire.batch import Message, decode_stored_entry, single_message, unpack
from readonly_engine.wire.compression import decompress
from readonly_engine.wire.errors import MalformedFrameError, WireError

from readonly_spark.rows.columns import facts_of

if TYPE_CHECKING:
    from readonly_engine.wire.entry import Entry

    from readonly_spark.rows.builder import Rows
    from readonly_spark.rows.chunks import ChunkedMessages

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


def decode_entries(entries: list[Entry], start: int, decoder: Decoder, rows: Rows, most_bytes: int) -> int:
    """Append the messages of entries to rows: in order, until the rows are full or the entries are used up.

    Left out are markers, messages of aborted transactions, messages that compaction took out, and what no producer of Pulsar
    wrote (as the owner's dispatcher does). What is encrypted is passed on as it is, one row an entry.

    Args:
        entries: of one topic, in its order, without a gap.
        start: the index of the first one to decode.
        decoder: what else is known.
        rows: where messages go.
        most_bytes: stop behind the entry with which the rows reach this size.

    Returns:
        The index of the first entry that was not decoded.

    Raises:
        DamagedEntryError: an entry is damaged, or compressed in an unknown way.
    """
    index = start
    refuse_transactions = bool(decoder.aborted)
    while index < len(entries):
        usual = rows.decode(entries, index, most_bytes, refuse_transactions)
        if usual > index:
            index = usual
            if rows.size >= most_bytes:
                break
            continue
        entry = entries[index]
        try:
            _decode(entry, decoder, rows)
        except WireError as error:
            raise DamagedEntryError(f"entry {entry.ledger_id}:{entry.entry_id}: {error}") from error
        index += 1
        if rows.size >= most_bytes:
            break
    return index


def _decode(entry: Entry, decoder: Decoder, rows: Rows) -> None:
    try:
        stored = decode_stored_entry(bytes(entry.payload))
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
        # Its key and properties, where it has any, are in clear.
        _append(single_message(metadata, stored.body), rows)
    elif stored.chunk:
        message = decoder.chunked.add(entry, stored)
        if message is not None:
            _append(message, rows)
    else:
        body = decompress(metadata.compression, stored.body, metadata.uncompressed_size)
        if not stored.batched:
            _append(single_message(metadata, body), rows)
        elif not rows.batch(body, metadata.num_messages_in_batch, metadata.sequence_id):
            for message in unpack(stored):
                _append(message, rows)
    rows.entry(facts_of(entry.ledger_id, entry.entry_id, stored))


def _append(message: Message, rows: Rows) -> None:
    # A number that producers have counted beyond the last wraps, as in Java.
    sequence_id = message.sequence_id if message.sequence_id <= _MOST_INT64 else message.sequence_id - (1 << 64)
    rows.append(
        message.value,
        message.batch_index,
        message.key,
        message.ordering_key,
        dict(message.properties),  # of equal keys the last counts, as in the Java client
        message.event_time,
        sequence_id,
    )
