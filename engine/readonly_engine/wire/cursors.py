"""Cursors of subscriptions in ZooKeeper and in cursor ledgers (ManagedCursorImpl, Pulsar 4.0.8).

A cleanly closed cursor is in its znode. Otherwise the znode has the id of a ledger, whose last entry is the cursor. The owner
writes both rarely (managedLedgerDefaultMarkDeleteRateLimit), so they are somewhat outdated while the owner serves the topic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from readonly_engine.wire.bit_set import bits_of
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.ledgers import decompress_node
from readonly_engine.wire.managed_ledger_pb2 import CursorEntry, CursorInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from readonly_engine.wire.managed_ledger_pb2 import BatchAck, NamedLong, PositionRange

NO_LEDGER = -1


@dataclass(frozen=True, slots=True)
class CursorState:
    """A subscription's cursor. Positions are (ledger id, entry id).

    Attributes:
        mark_delete: everything up to here is acknowledged.
        holes: acknowledged entries after it, as ascending ranges (lower, upper] that may span ledgers.
        batches: unacknowledged indexes of partly acknowledged batches: bit i of the number is index i.
        properties: of the cursor's position, for example `CompactedTopicLedger` of the compaction's cursor.
        cursor_properties: the application's properties of the subscription.
        cursor_ledger: ledger with the actual state, NO_LEDGER if the state is here.
        last_active: ms since the epoch, 0 if unknown.
    """

    mark_delete: tuple[int, int]
    holes: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = ()
    batches: tuple[tuple[tuple[int, int], int], ...] = ()
    properties: tuple[tuple[str, int], ...] = ()
    cursor_properties: tuple[tuple[str, str], ...] = ()
    cursor_ledger: int = NO_LEDGER
    last_active: int = 0


def decode_cursor(value: bytes) -> CursorState:
    """Decode a subscription's znode. If it has a cursor ledger, only that ledger has the position.

    Raises:
        MalformedFrameError: not a cursor.
        UnsupportedFormatError: compressed by an unknown codec.
        FrameTooLargeError: compressed, and too large.
    """
    try:
        info = CursorInfo.FromString(decompress_node(value))
    except DecodeError as error:
        raise MalformedFrameError("a subscription's znode does not hold a cursor") from error
    return CursorState(
        mark_delete=(info.mark_delete_ledger_id, info.mark_delete_entry_id),
        holes=_ranges(info.individually_deleted),
        batches=_batches(info.batch_acks),
        properties=_numbers(info.properties),
        cursor_properties=tuple((_text(pair.name), _text(pair.value)) for pair in info.cursor_properties),
        cursor_ledger=info.cursor_ledger_id if info.HasField("cursor_ledger_id") else NO_LEDGER,
        last_active=info.last_active,
    )


def decode_cursor_entry(payload: bytes) -> CursorState:
    """Decode an entry of a cursor ledger.

    Raises:
        MalformedFrameError: not a cursor.
    """
    try:
        entry = CursorEntry.FromString(payload)
    except DecodeError as error:
        raise MalformedFrameError("an entry of a cursor ledger does not hold a cursor") from error
    holes = _ranges(entry.individually_deleted)
    if not holes:
        # managedLedgerPersistIndividualAckAsLongArray: for each ledger the bits of acknowledged entries.
        holes = tuple(
            ((ledger.ledger_id, first - 1), (ledger.ledger_id, last))
            for ledger in sorted(entry.deleted_bits, key=lambda ledger: ledger.ledger_id)
            for first, last in _runs(bits_of(ledger.words))
        )
    return CursorState(
        mark_delete=(entry.ledger_id, entry.entry_id),
        holes=holes,
        batches=_batches(entry.batch_acks),
        properties=_numbers(entry.properties),
    )


def _ranges(ranges: Iterable[PositionRange]) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
    found = []
    for one in ranges:
        lower, upper = (one.lower.ledger_id, one.lower.entry_id), (one.upper.ledger_id, one.upper.entry_id)
        if lower >= upper:
            raise MalformedFrameError(f"a cursor with a range of acknowledged entries from {lower} to {upper}")
        found.append((lower, upper))
    return tuple(sorted(found))


def _batches(batches: Iterable[BatchAck]) -> tuple[tuple[tuple[int, int], int], ...]:
    return tuple(
        sorted(((batch.position.ledger_id, batch.position.entry_id), bits_of(batch.unacked)) for batch in batches)
    )


def _numbers(pairs: Iterable[NamedLong]) -> tuple[tuple[str, int], ...]:
    return tuple((_text(pair.name), pair.value) for pair in pairs)


def _text(value: str | bytes) -> str:
    """Return a text as str; protobuf returns bytes for a text that is not UTF-8."""
    return value if isinstance(value, str) else value.decode(errors="replace")


def _runs(bits: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last index of each run of set bits."""
    text = f"{bits:b}"[::-1] if bits else ""
    begin = text.find("1")
    while begin >= 0:
        end = text.find("0", begin)
        if end < 0:
            yield begin, len(text) - 1
            return
        yield begin, end - 1
        begin = text.find("1", end)
