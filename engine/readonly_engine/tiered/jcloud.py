"""Ledgers of the jcloud offloaders: an index, read once, and data, read by ranges."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from typing import TYPE_CHECKING

from readonly_engine.wire.entry import Entry
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.offload import (
    INDEX_PREAMBLE_BYTES,
    OffloadIndex,
    decode_index,
    index_length,
    scan_entries,
    verify_payload,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_engine.tiered.objects import Objects
    from readonly_engine.tiered.ranged import RangedObject
    from readonly_engine.wire.offload import Block

_FIRST_INDEX_READ = 64 << 10
"""Enough for three thousand blocks: one request reads nearly every index."""

_ENDS_KEPT = 64
"""Readers of one ledger whose offset is kept; others scan from the last known offset before their entry."""

_ENTRY_HEADER = 12


async def read_index(objects: Objects, key: str, ledger_id: int) -> OffloadIndex:
    """Read a ledger's index object.

    Raises:
        TieredStorageError: the object cannot be read.
        WireError: the object is not an index of this ledger.
    """
    data = bytes(await objects.read(key, 0, _FIRST_INDEX_READ))
    length = index_length(data[:INDEX_PREAMBLE_BYTES])
    if length > len(data) == _FIRST_INDEX_READ:
        data += await objects.read(key, len(data), length)
    return decode_index(data, ledger_id)


class JcloudPart:
    """The entries of a ledger in one data object.

    An index has only the offsets of blocks. Reads add further offsets: one for each window of the object, and the ends of the
    latest reads.

    Args:
        index: the decoded index.
        data: the data object.
        spacing: least distance of two kept offsets, in bytes.
    """

    def __init__(self, index: OffloadIndex, data: RangedObject, spacing: int) -> None:
        self.index = index
        self._data = data
        self._spacing = spacing
        self._known = [(block.first_entry, block.start) for block in index.blocks]
        self._ends: OrderedDict[int, int] = OrderedDict()

    @property
    def first_entry(self) -> int:
        """First entry in this object."""
        return self.index.blocks[0].first_entry

    async def read(self, first: int, last: int, *, views: bool) -> list[tuple[int, bytes]]:
        """Return entry ids and payloads from `first` to `last`, or to the end of this object; at least one.

        Args:
            first: the first entry.
            last: the last entry.
            views: see OffloadedLedger.

        Raises:
            TieredStorageError: the store cannot be read.
            WireError: the object has other data than these entries.
        """
        found: list[tuple[int, bytes]] = []
        while (wanted := first + len(found)) <= last:
            block = self.index.blocks[self.index.block_of(wanted)]
            if found and wanted != block.first_entry:
                break  # the last block ended: the next entry is in another object
            piece = await self._read_block(block, wanted, last, views=views)
            if not piece:
                raise MalformedFrameError(f"{self._data.key} has no entry {wanted}, which its index would have")
            found += piece
        return found

    async def _read_block(self, block: Block, first: int, last: int, *, views: bool) -> list[tuple[int, bytes]]:
        entry_id, offset = self._place(first)
        found: list[tuple[int, bytes]] = []
        while entry_id <= last and offset < block.end:
            data, base = await self._data.window(offset, block.end)
            scan = scan_entries(data, offset - base, entry_id, first, last, views=views)
            found += scan.found
            offset, entry_id = base + scan.position, scan.next_entry
            if scan.ended or not scan.needed:
                break
            needed = scan.needed
            if needed == _ENTRY_HEADER:  # the window ends within the length and the id
                head = await self._data.read(offset, min(offset + needed, block.end))
                scan = scan_entries(head, 0, entry_id, first, entry_id)
                if scan.ended or len(head) < _ENTRY_HEADER:
                    break
                needed = scan.needed or _ENTRY_HEADER
            if offset + needed > block.end:
                raise MalformedFrameError(f"{self._data.key} ends within entry {entry_id}")
            if entry_id >= first:
                whole = await self._data.read(offset, offset + needed)
                scan = scan_entries(whole, 0, entry_id, first, entry_id)
                if not scan.found:
                    raise MalformedFrameError(f"{self._data.key} ends within entry {entry_id}")
                found += scan.found
            offset, entry_id = offset + needed, entry_id + 1
            self._learn(entry_id, offset)
        self._ends[entry_id] = offset
        self._ends.move_to_end(entry_id)
        if len(self._ends) > _ENDS_KEPT:
            self._ends.popitem(last=False)
        return found

    def _place(self, entry_id: int) -> tuple[int, int]:
        """Return the nearest known entry at or before an entry, with its offset."""
        known = self._known[max(bisect_right(self._known, entry_id, key=lambda place: place[0]) - 1, 0)]
        end = self._ends.get(entry_id)
        if end is not None and known[0] != entry_id:
            return entry_id, end
        return known

    def _learn(self, entry_id: int, offset: int) -> None:
        index = bisect_right(self._known, entry_id, key=lambda place: place[0])
        if offset - self._known[index - 1][1] >= self._spacing and (
            index == len(self._known) or self._known[index][0] > entry_id
        ):
            self._known.insert(index, (entry_id, offset))


class JcloudLedger:
    """An offloaded ledger in one data object, or, from the streaming offloader, in several.

    Args:
        ledger_id: the ledger.
        parts: its data objects.
    """

    def __init__(self, ledger_id: int, parts: Sequence[JcloudPart]) -> None:
        self._ledger_id = ledger_id
        self._parts = sorted(parts, key=lambda part: part.first_entry)

    async def read(self, first: int, last: int, *, views: bool = False) -> list[Entry]:
        """Return the entries from `first` to `last`, both included, in order; see OffloadedLedger.

        An offloaded entry has no digest, so each payload is verified by the checksum inside it. Only bookies know LAC and length;
        here they are lower bounds: the entry before, and 0.

        Raises:
            TieredStorageError: the store cannot be read.
            WireError: an object has other data than these entries.
        """
        entries: list[Entry] = []
        while (wanted := first + len(entries)) <= last:
            number = bisect_right(self._parts, wanted, key=lambda part: part.first_entry) - 1
            for entry_id, payload in await self._parts[max(number, 0)].read(wanted, last, views=views):
                verify_payload(payload, self._ledger_id, entry_id)
                entries.append(Entry(self._ledger_id, entry_id, entry_id - 1, 0, payload))
        return entries
