"""Large messages that were cut into chunks: one belongs where its last chunk is, wherever the others are. Pure.

A task that begins between two chunks of a message looks back for the earlier ones, so that it makes no difference where ranges
are cut: a message is in exactly one of them.
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

REMEMBERED: Final = 10_000
"""Messages of which it is known that a chunk was seen here: far more than are ever incomplete together."""


class ChunkedMessages:
    """Joins the chunks of one topic.

    Args:
        earlier: the chunks of a message that stand before the first entry of this task, in order, from its last first chunk on.
    """

    def __init__(self, earlier: Callable[[str], Iterable[StoredEntry]]) -> None:
        self._earlier = earlier
        self._joiner = ChunkJoiner()
        self._seen: OrderedDict[str, Position] = OrderedDict()

    def add(self, entry: Entry, stored: StoredEntry) -> Message | None:
        """Take a chunk; the whole message where it is the last one, None else.

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
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return self._joiner.add(stored)
