"""Chunked messages: each belongs to the range that holds its last chunk, wherever the other chunks are. Pure.

A task whose range starts between two chunks of a message looks back for the earlier ones. So every message is in exactly one
range, wherever the ranges are cut.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from readonly_engine.topic.position import Position
from readonly_engine.wire.chunks import ChunkJoiner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from readonly_engine.wire.batch import Message, StoredEntry
    from readonly_engine.wire.entry import Entry

MAX_REMEMBERED_MESSAGES: Final = 10_000
"""Messages with a chunk in this range that are remembered: far more than are ever incomplete together."""


class ChunkedMessages:
    """Join the chunks of one topic.

    Args:
        earlier: returns the chunks of a message that precede this task's first entry, in order, from its last first chunk on.
    """

    def __init__(self, earlier: Callable[[str], Iterable[StoredEntry]]) -> None:
        self._earlier = earlier
        self._joiner = ChunkJoiner()
        self._seen: OrderedDict[str, Position] = OrderedDict()

    def add(self, entry: Entry, stored: StoredEntry) -> Message | None:
        """Add a chunk; return the whole message after its last chunk, else None.

        Raises:
            WireError: the joined message is damaged.
        """
        metadata = stored.metadata
        uuid = str(metadata.uuid)
        if metadata.chunk_id and uuid not in self._seen:
            for chunk in self._earlier(uuid):
                self._joiner.add(chunk)
        self._seen[uuid] = Position(entry.ledger_id, entry.entry_id)
        self._seen.move_to_end(uuid)
        if len(self._seen) > MAX_REMEMBERED_MESSAGES:
            self._seen.popitem(last=False)
        return self._joiner.add(stored)
