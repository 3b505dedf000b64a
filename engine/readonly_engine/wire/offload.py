"""Offloaded ledgers of the jcloud offloaders: an index object and a data object (tiered-storage-jcloud, Pulsar 4.0.8).

    index 1:  magic i32 | index length i32 | data length i64 | block header length i64 | blocks i32 | metadata length i32
              | LedgerMetadataFormat | { first entry i64, part i32, offset i64 } for each block
    index 2:  magic i32 | index length i32 | data length i64 | block header length i64
              | { ledger i64, blocks i32, metadata length i32, LedgerInfo, blocks as above } for each ledger
    block:    header | { payload length i32, entry id i64, payload } for each entry | padding, which reads as a negative length

A payload is the entry without BookKeeper's header and digest. The index has blocks only (64 MiB each by default). An entry
within a block is found by stepping from one length to the next. Version 2 is of the streaming offloader, whose objects have
several ledgers.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final, NamedTuple

import google_crc32c
from google.protobuf.message import DecodeError

from readonly_engine import native
from readonly_engine.wire.bookkeeper_pb2 import LedgerMetadataFormat
from readonly_engine.wire.errors import (
    DigestMismatchError,
    FrameTooLargeError,
    MalformedFrameError,
    UnsupportedFormatError,
)
from readonly_engine.wire.managed_ledger_pb2 import LedgerInfo

_native: Final = native.load("readonly_engine.wire._entries")

INDEX_MAGIC = 0xDE47DE47
INDEX_V2_MAGIC = 0x3D1FB0BC

INDEX_PREAMBLE_BYTES = 8
"""Bytes at the beginning of an index that include its length."""

MAX_INDEX_BYTES = 64 << 20
"""20 bytes a block: three million blocks."""

MAX_ENTRY_BYTES = 128 << 20
"""As for frames: a broker's maxMessageSize is 5 MiB by default."""

_PREAMBLE = struct.Struct(">Ii")
_LENGTHS = struct.Struct(">qq")
_V1_COUNTS = struct.Struct(">ii")
_V2_COUNTS = struct.Struct(">qii")
_BLOCK = struct.Struct(">qiq")
_ENTRY = struct.Struct(">iq")

_VIEWED: Final = 4096
"""A view of fewer bytes costs more than a copy."""

_BROKER_METADATA_MAGIC = b"\x0e\x02"
_CHECKSUM_MAGIC = b"\x0e\x01"


class Block(NamedTuple):
    """Location of a block's entries in the data object, without `end`; the first one is `first_entry`."""

    first_entry: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class OffloadIndex:
    """The index of one ledger.

    Attributes:
        ledger_id: the ledger.
        last_entry_id: its last entry, or the last one in this object.
        blocks: its blocks, ascending.
    """

    ledger_id: int
    last_entry_id: int
    blocks: tuple[Block, ...]

    def block_of(self, entry_id: int) -> int:
        """Return the number of the block that has the entry."""
        return max(bisect_right(self.blocks, entry_id, key=lambda block: block.first_entry) - 1, 0)


class Scan(NamedTuple):
    """The result of a scan.

    Attributes:
        found: entry ids and payloads.
        position: offset of the next entry in the scanned bytes.
        next_entry: that entry's id.
        needed: bytes from `position` on that the next entry is known to need; 0 if the scan is complete.
        ended: whether the block has no further entry.
    """

    found: list[tuple[int, bytes]]
    position: int
    next_entry: int
    needed: int
    ended: bool


def index_length(start: bytes) -> int:
    """Return the length of an index, from its first INDEX_PREAMBLE_BYTES.

    Raises:
        MalformedFrameError: not an index.
        FrameTooLargeError: above MAX_INDEX_BYTES.
    """
    if len(start) < INDEX_PREAMBLE_BYTES:
        raise MalformedFrameError(f"the index of an offloaded ledger has only {len(start)} bytes")
    magic, length = _PREAMBLE.unpack_from(start)
    if magic not in {INDEX_MAGIC, INDEX_V2_MAGIC}:
        raise MalformedFrameError(f"the index of an offloaded ledger begins with {magic:#010x}, which is no index")
    if length < INDEX_PREAMBLE_BYTES + _LENGTHS.size:
        raise MalformedFrameError(f"the index of an offloaded ledger has a length of {length} bytes")
    if length > MAX_INDEX_BYTES:
        raise FrameTooLargeError(f"an index of {length} bytes; at most {MAX_INDEX_BYTES} are read")
    return int(length)


def decode_index(data: bytes, ledger_id: int) -> OffloadIndex:
    """Decode a ledger's part of an index, of either version.

    Raises:
        WireError: damaged, too large, or without this ledger.
    """
    length = index_length(data)
    if len(data) < length:
        raise MalformedFrameError(f"an index of {length} bytes ends after {len(data)}")
    data = data[:length]
    magic, _ = _PREAMBLE.unpack_from(data)
    object_length, header_length = _LENGTHS.unpack_from(data, _PREAMBLE.size)
    if not 0 <= header_length <= object_length:
        raise MalformedFrameError("an index whose block headers are longer than its data")
    rest = _PREAMBLE.size + _LENGTHS.size
    try:
        if magic == INDEX_MAGIC:
            found, offsets = _decode_v1(data, rest)
        else:
            found, offsets = _decode_v2(data, rest, ledger_id)
    except (struct.error, DecodeError) as error:
        raise MalformedFrameError("the index of an offloaded ledger is damaged") from error
    last_entry_id, entries = found
    ends = sorted({*offsets, object_length})
    blocks = []
    for first_entry, offset in sorted(entries):
        end = ends[bisect_right(ends, offset)] if offset < object_length else 0
        if offset < 0 or offset + header_length > end or first_entry < 0:
            raise MalformedFrameError(f"an index that places a block at {offset} of {object_length} bytes")
        blocks.append(Block(first_entry, offset + header_length, end))
    if not blocks:
        raise MalformedFrameError("an index without a block")
    return OffloadIndex(ledger_id, last_entry_id, tuple(blocks))


_Found = tuple[int, list[tuple[int, int]]]


def _decode_v1(data: bytes, position: int) -> tuple[_Found, list[int]]:
    count, metadata_length = _V1_COUNTS.unpack_from(data, position)
    position += _V1_COUNTS.size
    metadata = LedgerMetadataFormat.FromString(_slice(data, position, metadata_length))
    entries = _blocks(data, position + metadata_length, count)
    return (metadata.last_entry_id, entries), [offset for _, offset in entries]


def _decode_v2(data: bytes, position: int, wanted: int) -> tuple[_Found, list[int]]:
    found: _Found | None = None
    offsets: list[int] = []
    while position < len(data):
        ledger_id, count, metadata_length = _V2_COUNTS.unpack_from(data, position)
        position += _V2_COUNTS.size
        info = LedgerInfo.FromString(_slice(data, position, metadata_length))
        position += metadata_length
        entries = _blocks(data, position, count)
        position += count * _BLOCK.size
        offsets += [offset for _, offset in entries]
        if ledger_id == wanted:
            found = info.entries - 1, entries
    if found is None:
        raise UnsupportedFormatError(f"an index without ledger {wanted}")
    return found, offsets


def _slice(data: bytes, start: int, length: int) -> bytes:
    if not 0 <= length <= len(data) - start:
        raise MalformedFrameError("an index whose metadata is longer than itself")
    return data[start : start + length]


def _blocks(data: bytes, start: int, count: int) -> list[tuple[int, int]]:
    if not 0 <= count * _BLOCK.size <= len(data) - start:
        raise MalformedFrameError(f"an index of {len(data)} bytes that would have {count} blocks")
    return [(first, offset) for first, _, offset in _BLOCK.iter_unpack(data[start : start + count * _BLOCK.size])]


def scan_entries(
    data: bytes | memoryview, position: int, entry_id: int, first: int, last: int, *, views: bool = False
) -> Scan:
    """Step through the entries of one block.

    Args:
        data: bytes of the block, complete or not.
        position: offset of the entry `entry_id` in them.
        entry_id: that entry.
        first: the first requested entry; entries before it are skipped.
        last: the last requested entry.
        views: whether payloads of some KB may be views of the data; if False, all are bytes.

    Raises:
        MalformedFrameError: another entry is in the place of the expected one.
        FrameTooLargeError: an entry above MAX_ENTRY_BYTES.
    """
    found: list[tuple[int, bytes]] = []
    end = len(data)
    viewed = views and _native is not None  # what decodes them in Python expects bytes
    unpack = _ENTRY.unpack_from
    while entry_id <= last:
        body = position + _ENTRY.size
        if body > end:
            if end - position >= 4 and data[position] & 0x80:
                return Scan(found, position, entry_id, 0, ended=True)
            return Scan(found, position, entry_id, _ENTRY.size, ended=False)
        length, found_id = unpack(data, position)
        if length < 0:
            return Scan(found, position, entry_id, 0, ended=True)
        if found_id != entry_id:
            raise MalformedFrameError(f"an offloaded ledger has {found_id} where entry {entry_id} must be")
        if length > MAX_ENTRY_BYTES:
            raise FrameTooLargeError(f"an offloaded entry of {length} bytes; at most {MAX_ENTRY_BYTES} are read")
        following = body + length
        if following > end:
            return Scan(found, position, entry_id, _ENTRY.size + length, ended=False)
        if entry_id >= first:
            payload = data[body:following]
            found.append((entry_id, payload if viewed and length >= _VIEWED else bytes(payload)))  # type: ignore[arg-type]
        position = following
        entry_id += 1
    return Scan(found, position, entry_id, 0, ended=False)


def _checksum(data: bytes | memoryview, start: int) -> int:
    """Return the CRC-32C of the bytes from `start` on."""
    if _native is None:
        return int(google_crc32c.value(bytes(data[start:])))
    return int(_native.checksum(data, start))


def verify_payload(payload: bytes | memoryview, ledger_id: int, entry_id: int) -> None:
    """Compare a payload with the checksum in it; most have one (Commands.serializeMetadataAndPayload).

    An offloaded entry has no digest of BookKeeper any more, so this is the only check for damage.

    Raises:
        DigestMismatchError: they differ.
    """
    start = 0
    if payload[:2] == _BROKER_METADATA_MAGIC:
        start = 6 + int.from_bytes(payload[2:6], "big")
    if payload[start : start + 2] != _CHECKSUM_MAGIC:
        return
    stored = int.from_bytes(payload[start + 2 : start + 6], "big")
    if len(payload) < start + 6 or _checksum(payload, start + 6) != stored:
        raise DigestMismatchError(
            f"the checksum in the offloaded entry {ledger_id}:{entry_id} does not match its bytes"
        )
