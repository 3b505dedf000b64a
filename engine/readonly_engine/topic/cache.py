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

LARGE_ENTRY: Final = 16 << 10
"""Mean size of entries from which on a first read of a backlog does not fill the cache: the kernel's pages for them would cost as
much as the reads. Smaller entries cost more to read than to keep."""

MAX_ONCE: Final = 64 << 20
"""Bytes of large entries that were read once, at most half of the cache: for readers that follow closely."""

MAX_ONCE_EVICTED: Final = 10_000
"""Blocks of large entries that are remembered as read once, after their eviction."""


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

    One reader that streams through a backlog of large entries neither fills it nor evicts what others read: it holds only the
    last MAX_ONCE bytes of such entries. It keeps those that are read again later (2Q, Johnson and Shasha 1994).

    Args:
        max_bytes: limit of the sum of payloads; the frames of entries in delivery come on top.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._blocks: OrderedDict[tuple[int, int], _Block] = OrderedDict()
        self._once: OrderedDict[tuple[int, int], _Block] = OrderedDict()  # those of _blocks that were read once
        self._once_size = 0
        self._once_evicted: OrderedDict[tuple[int, int], None] = OrderedDict()  # those that were, and are gone
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
        self._resized(key, size)
        if self.size > self._max:
            self._make_room(ledger_id, entry_id, entry_id)
        return entry

    def put_all(self, entries: Sequence[TopicEntry], *, backlog: bool = False) -> list[TopicEntry]:
        """Cache consecutive entries of one ledger, at least one; evict others.

        Entries of one call do not evict each other. If they exceed the cache, it keeps the first ones, which a caller awaits.

        Args:
            entries: the entries.
            backlog: whether they come from a read of a backlog. Then large ones stay for a short time, until they are read again.

        Returns:
            The same entries; already cached ones are the cached objects.
        """
        ledger_id, first = entries[0].ledger_id, entries[0].entry_id
        last = first + self._fitting(entries) - 1
        kept: list[TopicEntry] = []
        once = backlog and summarize(entries)[1] >= LARGE_ENTRY * len(entries)
        for number, begin, end in _pieces(first, last):
            key = (ledger_id, number)
            block = self._blocks.get(key)
            if block is None:
                block = self._blocks[key] = _Block()
                if once and key not in self._once_evicted:
                    self._once[key] = block
                self._once_evicted.pop(key, None)
            else:
                self._blocks.move_to_end(key)
            count, size = block.count, block.size
            kept += block.put(begin, list(entries[len(kept) : len(kept) + end - begin]))
            self._count += block.count - count
            self._resized(key, block.size - size)
        self._make_room(ledger_id, first, last)
        kept += entries[len(kept) :]
        return kept

    def clear(self) -> None:
        """Remove all entries."""
        for blocks in (self._blocks, self._once, self._once_evicted):
            blocks.clear()
        self._count = self.size = self._once_size = 0

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

    def _resized(self, key: tuple[int, int], more: int) -> None:
        self.size += more
        if key in self._once:
            self._once_size += more

    def _make_room(self, ledger_id: int, first: int, last: int) -> None:
        """Evict the least recently used entries, except these, which were put last."""
        self._evict(self._once, self._once_size - min(MAX_ONCE, self._max // 2), ledger_id, first, last)
        self._evict(self._blocks, self.size - self._max, ledger_id, first, last)

    def _evict(
        self, blocks: OrderedDict[tuple[int, int], _Block], excess: int, ledger_id: int, first: int, last: int
    ) -> None:
        if excess <= 0:
            return
        emptied = []
        for key, block in blocks.items():
            if excess <= 0:
                break
            start = key[1] << _BITS
            spared = range(first - start, last + 1 - start) if key[0] == ledger_id else range(0)
            count, size = block.count, block.size
            block.drop_first(excess, spared)
            excess -= size - block.size
            self._count += block.count - count
            self._resized(key, block.size - size)
            if not block.count:
                emptied.append(key)
        for key in emptied:
            del self._blocks[key]
            if self._once.pop(key, None) is not None:
                self._once_evicted[key] = None
                if len(self._once_evicted) > MAX_ONCE_EVICTED:
                    self._once_evicted.popitem(last=False)


def _pieces(first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """Yield the blocks of these entries: number, index of the first entry, and the index after the last."""
    for number in range(first >> _BITS, (last >> _BITS) + 1):
        start = number << _BITS
        yield number, max(first - start, 0), min(last + 1 - start, BLOCK)
