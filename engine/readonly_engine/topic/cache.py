"""The cache of entries: bounded in bytes, shared by all topics and subscriptions of a broker."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, cast

from readonly_engine.wire.entry_view import summarize

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.position import Position

_BITS: Final = 7
BLOCK: Final = 1 << _BITS
"""Entries with adjacent ids that share one lookup."""


class _Block:
    """Adjacent entries of one ledger, each at its index. Some may be missing; the list ends at the last one put."""

    __slots__ = ("count", "entries", "size")

    def __init__(self) -> None:
        self.entries: list[TopicEntry | None] = []
        self.count = 0
        self.size = 0

    def put(self, place: int, entries: list[TopicEntry]) -> list[TopicEntry]:
        """Put entries at their indexes, but keep present ones; return the entries that are kept."""
        places = self.entries
        if place > len(places):
            places += [None] * (place - len(places))
        there = [entry for entry in places[place : place + len(entries)] if entry is not None]
        if there:
            places += [None] * (place + len(entries) - len(places))
            old = places[place : place + len(entries)]
            entries = [one if one is not None else new for one, new in zip(old, entries, strict=True)]
        places[place : place + len(entries)] = entries
        self.count += len(entries) - len(there)
        self.size += summarize(entries)[1] - (summarize(there)[1] if there else 0)
        return entries

    def drop_first(self, size: int, spared: range) -> None:
        """Drop entries from the first one on until `size` bytes are freed, except those at spared indexes."""
        for place, entry in enumerate(self.entries):
            if size <= 0:
                return
            if entry is not None and place not in spared:
                self.entries[place] = None
                self.count -= 1
                self.size -= entry.size
                size -= entry.size


class EntryCache:
    """LRU cache of entries. Ledger ids are unique in a cluster, so all topics share it.

    Entries are kept in blocks: backlog reads take hundreds at a time, and one lookup for each would dominate their cost.
    The least recently used block is evicted first, from its first entry on, because readers go forward.

    Args:
        max_bytes: limit of the sum of payloads; the frames of entries in delivery come on top.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._blocks: OrderedDict[tuple[int, int], _Block] = OrderedDict()
        self._count = 0
        self.size = 0
        self.hits = 0
        self.misses = 0

    @property
    def max_bytes(self) -> int:
        """The limit of the payloads."""
        return self._max

    def get(self, position: Position) -> TopicEntry | None:
        """Return an entry; None if it is not (any more) in the cache."""
        found = self.run(position.ledger_id, position.entry_id, position.entry_id)
        return found[0] if found else None

    def run(self, ledger_id: int, first: int, last: int) -> list[TopicEntry]:
        """Return the entries of a ledger from `first` to `last`, up to the first one that is not in the cache."""
        found: list[TopicEntry] = []
        for number, begin, end in _pieces(first, last):
            key = (ledger_id, number)
            block = self._blocks.get(key)
            if block is None:
                break
            self._blocks.move_to_end(key)
            piece = block.entries[begin:end]
            if block.count < len(block.entries) and None in piece:
                piece = piece[: piece.index(None)]
            found += cast("list[TopicEntry]", piece)
            if len(piece) < end - begin:
                break
        self.hits += len(found)
        if len(found) <= last - first:
            self.misses += 1
        return found

    def missing(self, ledger_id: int, first: int, last: int) -> int:
        """Return the number of entries from `first` to `last` before the first cached one."""
        for number, begin, end in _pieces(first, last):
            block = self._blocks.get((ledger_id, number))
            for place, entry in enumerate(() if block is None else block.entries[begin:end], begin):
                if entry is not None:
                    return (number << _BITS) + place - first
        return last + 1 - first

    def put(self, entry: TopicEntry) -> TopicEntry:
        """Cache an entry; return the cached one, which is another object if the entry was cached already."""
        ledger_id, entry_id, size = entry.ledger_id, entry.entry_id, entry.size
        key = (ledger_id, entry_id >> _BITS)
        block = self._blocks.get(key)
        if block is None or len(block.entries) != entry_id & (BLOCK - 1) or size > self._max:
            return self.put_all((entry,))[0]
        # The next one of a block, as at the tail of a topic.
        self._blocks.move_to_end(key)
        block.entries.append(entry)
        block.count += 1
        block.size += size
        self._count += 1
        self.size += size
        if self.size > self._max:
            self._make_room(ledger_id, entry_id, entry_id)
        return entry

    def put_all(self, entries: Sequence[TopicEntry]) -> list[TopicEntry]:
        """Cache consecutive entries of one ledger, at least one; evict others.

        Entries of one call do not evict each other. If they exceed the cache, it keeps the first ones, which a caller awaits.

        Returns:
            The same entries; already cached ones are the cached objects.
        """
        ledger_id, first = entries[0].ledger_id, entries[0].entry_id
        last = first + self._fitting(entries) - 1
        kept: list[TopicEntry] = []
        for number, begin, end in _pieces(first, last):
            key = (ledger_id, number)
            block = self._blocks.get(key)
            if block is None:
                block = self._blocks[key] = _Block()
            else:
                self._blocks.move_to_end(key)
            count, size = block.count, block.size
            kept += block.put(begin, list(entries[len(kept) : len(kept) + end - begin]))
            self._count += block.count - count
            self.size += block.size - size
        self._make_room(ledger_id, first, last)
        kept += entries[len(kept) :]
        return kept

    def clear(self) -> None:
        """Remove all entries."""
        self._blocks.clear()
        self._count = self.size = 0

    def __contains__(self, position: Position) -> bool:
        return self.missing(position.ledger_id, position.entry_id, position.entry_id) == 0

    def __len__(self) -> int:
        return self._count

    def _fitting(self, entries: Sequence[TopicEntry]) -> int:
        """Return how many of the entries fit into the cache, at least one."""
        if summarize(entries)[1] <= self._max:
            return len(entries)
        size = 0
        for count, entry in enumerate(entries):
            size += entry.size
            if size > self._max:
                return max(count, 1)
        return len(entries)

    def _make_room(self, ledger_id: int, first: int, last: int) -> None:
        """Evict the least recently used entries, except these, which were put last."""
        emptied = []
        for key, block in self._blocks.items():
            if self.size <= self._max:
                break
            start = key[1] << _BITS
            spared = range(first - start, last + 1 - start) if key[0] == ledger_id else range(0)
            count, size = block.count, block.size
            block.drop_first(self.size - self._max, spared)
            self._count += block.count - count
            self.size += block.size - size
            if not block.count:
                emptied.append(key)
        for key in emptied:
            del self._blocks[key]


def _pieces(first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """Yield the blocks of these entries: number, index of the first entry, and the index after the last."""
    for number in range(first >> _BITS, (last >> _BITS) + 1):
        start = number << _BITS
        yield number, max(first - start, 0), min(last + 1 - start, BLOCK)
