"""The cache of entries: bounded in bytes, shared by all topics and subscriptions of a broker."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.position import Position


class EntryCache:
    """Keeps the entries that were used last. Ledger ids are unique in a cluster, so positions of all topics share it.

    Args:
        max_bytes: sum of the entries' payloads; the frames of an entry that is being delivered come on top.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._entries: OrderedDict[Position, TopicEntry] = OrderedDict()
        self.size = 0
        self.hits = 0
        self.misses = 0

    def get(self, position: Position) -> TopicEntry | None:
        """An entry, None where it is not (any more) in the cache."""
        entry = self._entries.get(position)
        if entry is None:
            self.misses += 1
            return None
        self.hits += 1
        self._entries.move_to_end(position)
        return entry

    def put(self, entry: TopicEntry) -> None:
        """Keep an entry; the ones used longest ago make room."""
        if self._entries.setdefault(entry.position, entry) is not entry:
            return
        self.size += entry.size
        while self.size > self._max and len(self._entries) > 1:
            _, oldest = self._entries.popitem(last=False)
            self.size -= oldest.size

    def __contains__(self, position: Position) -> bool:
        return position in self._entries

    def __len__(self) -> int:
        return len(self._entries)
