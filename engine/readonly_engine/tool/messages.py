"""Items of output from entries: an item for each message, marker, encrypted or damaged entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from readonly_engine.wire.batch import NOT_IN_BATCH, Message, decode_stored_entry, unpack
from readonly_engine.wire.chunks import ChunkJoiner
from readonly_engine.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.batch import StoredEntry


@dataclass(frozen=True, slots=True)
class Item:
    """One line of output.

    Attributes:
        position: the entry; for joined chunks the last one, whose id clients give to the message.
        partition: index of the partition; -1 without partitions.
        stored: the entry's metadata; None if it cannot be decoded.
        message: the message; None for any other item.
        note: description of an item that is not a message, or an addition to a message.
    """

    position: Position
    partition: int
    stored: StoredEntry | None = None
    message: Message | None = None
    note: str = ""

    @property
    def id(self) -> str:
        """Message id as text: LEDGER:ENTRY, with :INDEX in a batch."""
        if self.message is None or self.message.batch_index == NOT_IN_BATCH:
            return str(self.position)
        return f"{self.position}:{self.message.batch_index}"


class Unpacker:
    """Unpacks the entries of one topic or partition, in order.

    Args:
        partition: index of the partition; -1 without partitions.
        join: whether chunks are joined to messages; otherwise each chunk is an item.
    """

    def __init__(self, partition: int, *, join: bool) -> None:
        self._partition = partition
        self._joiner = ChunkJoiner() if join else None

    @property
    def incomplete(self) -> int:
        """Number of chunked messages with a missing chunk."""
        return 0 if self._joiner is None else self._joiner.dropped

    def items(self, entry: TopicEntry) -> Iterator[Item]:
        """Yield the items of an entry; none for a chunk of an incomplete message."""
        stored = None
        try:
            stored = decode_stored_entry(entry.stored)
            yield from self._items(entry.position, stored)
        except WireError as error:
            yield Item(entry.position, self._partition, stored, note=f"damaged: {error}")

    def _items(self, position: Position, stored: StoredEntry) -> Iterator[Item]:
        metadata = stored.metadata
        if stored.marker is not None:
            yield Item(position, self._partition, stored, note=f"marker {stored.marker}")
        elif stored.encrypted:
            keys = ", ".join(sorted({str(key.key) for key in metadata.encryption_keys}))
            chunk = f"chunk {metadata.chunk_id + 1} of {metadata.num_chunks_from_msg}, " if stored.chunk else ""
            count = f"{metadata.num_messages_in_batch} messages, " if stored.batched else ""
            yield Item(
                position, self._partition, stored, note=f"encrypted for {keys}: {chunk}{count}{len(stored.body)} bytes"
            )
        elif stored.chunk and self._joiner is None:
            what = f"chunk {metadata.chunk_id + 1} of {metadata.num_chunks_from_msg} of {metadata.uuid}"
            yield Item(position, self._partition, stored, note=f"{what}: {len(stored.body)} bytes")
        elif stored.chunk and self._joiner is not None:
            message = self._joiner.add(stored)
            if message is not None:
                note = f"{metadata.num_chunks_from_msg} chunks"
                yield Item(position, self._partition, stored, message, note)
        else:
            for message in unpack(stored):
                yield Item(position, self._partition, stored, message)
