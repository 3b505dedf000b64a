"""Chunked messages: each belongs to the range that holds its last chunk, wherever the other chunks are. Pure.

A task whose range starts between two chunks of a message looks back for the earlier ones. So every message is in exactly one
range, wherever the ranges are cut.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.topic.position import Position
from readonly_engine.wire.chunks import ChunkJoiner

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.wire.batch import Message, StoredEntry
    from readonly_engine.wire.entry import Entry

MAX_REMEMBERED_MESSAGES: Final = 10_000
"""Messages with a chunk in this range that are remembered: far more than are ever incomplete together."""

MAX_UNKNOWN: Final = 100
"""Positions that are kept for the log."""


class EarlierChunks(NamedTuple):
    """Chunks of a message before an entry.

    Attributes:
        chunks: in order, from the last first chunk on; without a first chunk, whatever was found.
        whole: whether all entries before were searched; False if there are, or were, more than a search reads.
    """

    chunks: list[StoredEntry]
    whole: bool = True


class ChunkedMessages:
    """Join the chunks of one topic.

    Messages whose chunks are far apart may exceed the memory for incomplete messages. So the chunks of a message that is not
    complete at its last chunk are read again.

    Args:
        earlier: returns the chunks of a message before an entry.

    Attributes:
        incomplete: number of messages without some of their chunks, which were trimmed or never published. They are no rows.
        unknown: last chunks of messages whose first chunk is further away than a search reads, or may have been trimmed since the
            query began. They are no rows either.
    """

    def __init__(self, earlier: Callable[[str, Position], EarlierChunks]) -> None:
        self._earlier = earlier
        self._joiner = ChunkJoiner()
        self._seen: OrderedDict[str, Position] = OrderedDict()
        self.incomplete = 0
        self.unknown: list[Position] = []

    def add(self, entry: Entry, stored: StoredEntry) -> Message | None:
        """Add a chunk; return the whole message after its last chunk, else None.

        Raises:
            WireError: the joined message is damaged.
        """
        metadata = stored.metadata
        uuid, here = str(metadata.uuid), Position(entry.ledger_id, entry.entry_id)
        if metadata.chunk_id and uuid not in self._seen:
            for chunk in self._earlier(uuid, here).chunks:
                self._joiner.add(chunk)
        self._seen[uuid] = here
        self._seen.move_to_end(uuid)
        if len(self._seen) > MAX_REMEMBERED_MESSAGES:
            self._seen.popitem(last=False)
        message = self._joiner.add(stored)
        if message is not None or metadata.chunk_id != metadata.num_chunks_from_msg - 1:
            return message
        return self._read_again(uuid, here, stored)

    def _read_again(self, uuid: str, here: Position, last: StoredEntry) -> Message | None:
        found = self._earlier(uuid, here)
        joiner = ChunkJoiner()
        for chunk in found.chunks:
            joiner.add(chunk)
        message = joiner.add(last)
        if message is None and found.whole:
            self.incomplete += 1
        elif message is None and len(self.unknown) < MAX_UNKNOWN:
            self.unknown.append(here)
        return message
