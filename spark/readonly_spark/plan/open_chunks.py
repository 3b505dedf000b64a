"""Chunked messages that are incomplete at the end of a micro-batch: a subscription must hold back their first chunks.

A producer publishes the chunks of a message one after the other, so the newest chunk of an incomplete message is among the last
entries, and only these are read. An abandoned message is forgotten when enough other entries follow it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.message import decode_metadata, without_entry_metadata

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from readonly_engine.wire.entry import Entry

    from readonly_spark.plan.topic_state import ReadableLedger, TopicState

    Read = Callable[[ReadableLedger, int, int], Awaitable[list[Entry]]]

MAX_ENTRIES: Final = 200
"""Entries before the end that are searched."""

MAX_BYTES: Final = 32 << 20
"""The search ends with the read that reaches this size: six chunks of 5 MiB, the default limit of an entry, and one more."""

STEP_BYTES: Final = 8 << 20
"""Approximate size of one read."""

FIRST_READ_ENTRIES: Final = 4
"""Entries of the first read: the average size of the ledger's entries may mislead."""


class Chunk(NamedTuple):
    """A part of a chunked message.

    Attributes:
        position: its entry.
        uuid: the id of its message.
        number: its number in the message, from 0 on.
        last: whether it is the last one.
    """

    position: Position
    uuid: str
    number: int
    last: bool


def chunk_of(entry: Entry) -> Chunk | None:
    """Return the chunk in an entry; None for any other entry, and for an encrypted chunk: that is a row of its own."""
    try:
        metadata = decode_metadata(without_entry_metadata(bytes(entry.payload)))
    except WireError:
        return None
    chunks, number = metadata.num_chunks_from_msg, metadata.chunk_id
    if chunks <= 1 or metadata.encryption_keys:
        return None
    return Chunk(Position(entry.ledger_id, entry.entry_id), metadata.uuid, number, number == chunks - 1)


def first_incomplete(chunks: Iterable[Chunk]) -> Position | None:
    """Return the first chunk of the messages that are incomplete after these chunks, which are in order; None if there is none.

    EARLIEST stands for a first chunk before them.
    """
    incomplete: dict[str, Position] = {}
    ended: set[str] = set()
    for chunk in chunks:
        if chunk.last:
            incomplete.pop(chunk.uuid, None)
            ended.add(chunk.uuid)
        elif chunk.number == 0:
            incomplete.setdefault(chunk.uuid, chunk.position)
        elif chunk.uuid not in ended:  # else the producer got no receipt, and has published the chunk again
            incomplete.setdefault(chunk.uuid, EARLIEST)
    return min(incomplete.values(), default=None)


async def hold_position(state: TopicState, end: Position, read: Read) -> Position | None:
    """Return the first entry to hold back when a stream has read a topic up to, not including, `end`.

    Args:
        state: the topic.
        end: the end of the last micro-batch.
        read: reads entries of a ledger, both ends included; returns none if they cannot be read now.

    Returns:
        `end`, or the first chunk of a message that is incomplete there; EARLIEST if this chunk is before the entries that are
        searched; None if they cannot be read now.
    """
    chunks: list[Chunk] = []
    count = size = 0
    for ledger in reversed(state.confirmed_to(end).ledgers):
        if ledger.ledger_id > end.ledger_id:
            continue
        last = min(ledger.last, end.entry_id - 1) if ledger.ledger_id == end.ledger_id else ledger.last
        while last >= 0 and count < MAX_ENTRIES and size < MAX_BYTES:
            each = size / count if count else ledger.entry_bytes
            most = MAX_ENTRIES - count if count else FIRST_READ_ENTRIES
            first = max(last + 1 - max(min(int(STEP_BYTES / max(each, 1.0)), most), 1), 0)
            found = await read(ledger, first, last)
            if not found:
                return None
            chunks[:0] = filter(None, map(chunk_of, found))
            count += len(found)
            size += sum(len(entry.payload) for entry in found)
            last = first - 1
    incomplete = first_incomplete(chunks)
    return end if incomplete is None else incomplete
