"""Ledgers of the filesystem offloader: Hadoop MapFiles, read by ranges."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from typing import TYPE_CHECKING

from readonly_engine.tiered.errors import ObjectMissingError
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.errors import FrameTooLargeError, MalformedFrameError
from readonly_engine.wire.offload import verify_payload
from readonly_engine.wire.sequence_file import (
    MAX_HEADER_BYTES,
    METADATA_KEY,
    check_ledger_data,
    decode_map_index,
    decode_sequence_header,
    scan_block,
    scan_records,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.tiered.objects import Objects
    from readonly_engine.tiered.ranged import RangedObject
    from readonly_engine.wire.sequence_file import RecordScan, SequenceHeader

MAX_MAP_INDEX_BYTES = 256 << 20
"""Limit of a compressed index, which has some bytes for every 128th entry."""

_ENDS_KEPT = 64
_BLOCKS_KEPT = 2
_NO_END = 1 << 62


class FileSystemLedger:
    """An offloaded ledger in a MapFile.

    Args:
        ledger_id: the ledger.
        header: header of the file `data`.
        places: keys, each with the offset of its record, from the file `index`.
        data: the file `data`.
    """

    def __init__(
        self, ledger_id: int, header: SequenceHeader, places: list[tuple[int, int]], data: RangedObject
    ) -> None:
        self._ledger_id = ledger_id
        self._header = header
        self._places = places or [(METADATA_KEY, header.end)]
        self._data = data
        self._ends: OrderedDict[int, int] = OrderedDict()
        self._blocks: OrderedDict[int, tuple[list[tuple[int, bytes]], int]] = OrderedDict()

    @classmethod
    async def open(cls, ledger_id: int, objects: Objects, folder: str, data: RangedObject) -> FileSystemLedger:
        """Read the index and the header.

        Raises:
            TieredStorageError: a file is missing or unreadable.
            WireError: a file has another form than the offloader writes.
        """
        index = bytes(await objects.read(f"{folder}/index", 0, MAX_MAP_INDEX_BYTES + 1))
        if len(index) > MAX_MAP_INDEX_BYTES:
            raise FrameTooLargeError(f"the index of ledger {ledger_id} is above {MAX_MAP_INDEX_BYTES} bytes")
        header = decode_sequence_header(bytes(await objects.read(data.key, 0, MAX_HEADER_BYTES)))
        check_ledger_data(header)
        return cls(ledger_id, header, decode_map_index(index), data)

    async def read(self, first: int, last: int, *, views: bool = False) -> list[Entry]:  # noqa: ARG002  all are copies
        """Return the entries from `first` to `last`, both included, in order; LAC and length as in JcloudLedger.

        Raises:
            TieredStorageError: the file system cannot be read.
            WireError: the file has other data than these entries.
        """
        position = offset = self._place(first)
        entries: list[Entry] = []
        while (wanted := first + len(entries)) <= last:
            position = offset
            if self._header.blocks:
                found, offset = await self._block(offset, wanted)
            else:
                found, offset = await self._records(offset, wanted, last)
            for key, payload in found:
                if not wanted <= key <= last:
                    continue
                if key != first + len(entries):
                    raise MalformedFrameError(f"{self._data.key} has {key} where entry {first + len(entries)} must be")
                verify_payload(payload, self._ledger_id, key)
                entries.append(Entry(self._ledger_id, key, key - 1, 0, payload))
            if first + len(entries) == wanted and found and found[-1][0] >= wanted:
                raise MalformedFrameError(f"{self._data.key} has no entry {wanted}")
        self._ends[last + 1] = position if self._header.blocks else offset
        self._ends.move_to_end(last + 1)
        if len(self._ends) > _ENDS_KEPT:
            self._ends.popitem(last=False)
        return entries

    async def _block(self, offset: int, wanted: int) -> tuple[list[tuple[int, bytes]], int]:
        """Return the block at an offset, and the offset of the next. The latest blocks are kept: a block exceeds most reads."""
        kept = self._blocks.get(offset)
        if kept is None:
            scan = await self._scan(offset, wanted, lambda data, at: scan_block(data, at, self._header))
            kept = self._blocks[offset] = scan.found, scan.position
            if len(self._blocks) > _BLOCKS_KEPT:
                self._blocks.popitem(last=False)
        return kept

    async def _records(self, offset: int, wanted: int, last: int) -> tuple[list[tuple[int, bytes]], int]:
        """Return records from an offset on, and the offset after them; none if all of them precede the wanted record."""
        scan = await self._scan(offset, wanted, lambda data, at: scan_records(data, at, self._header, wanted, last))
        if not scan.needed and not scan.found:
            raise MalformedFrameError(f"{self._data.key} has no entry {wanted}")
        return scan.found, scan.position

    async def _scan(self, offset: int, wanted: int, scan: Callable[[bytes, int], RecordScan]) -> RecordScan:
        """Scan a window; if it has no complete record, scan as many bytes as one needs. The position is an offset in the file."""
        data, base = await self._data.window(offset, _NO_END)
        found = scan(bytes(data), offset - base)
        asked = 0
        while found.needed and not found.found and base + found.position == offset:
            if found.needed <= asked:
                raise MalformedFrameError(f"{self._data.key} is damaged before entry {wanted}")
            asked = found.needed
            data, base = await self._data.read(offset, offset + asked), offset
            if len(data) < asked:
                raise ObjectMissingError(f"{self._data.key} ends before entry {wanted}")
            found = scan(bytes(data), 0)
        return found._replace(position=base + found.position)

    def _place(self, entry_id: int) -> int:
        end = self._ends.get(entry_id)
        if end is not None:
            return end
        return self._places[max(bisect_right(self._places, entry_id, key=lambda place: place[0]) - 1, 0)][1]
