"""BATCH_READ: many entries in one request, in BookKeeper's v2 protocol (BookieProtoEncoding, since BookKeeper 4.17).

    request:  header i32 | ledgerId i64 | firstEntry i64 | requestId i64 | maxCount i32 | maxSize i64
    reply:    header i32 | rc i32 | ledgerId i64 | firstEntry i64 | requestId i64 | { size i32 | entry }*
    header:   version << 24 | operation << 16 | flags

A bookie returns its entries from `firstEntry` on without a gap, up to either limit or its own (maxBatchReadSize, 5 MiB). It
returns at least one entry of any size. Single reads are not here: v2 matches them by entry and not by request, and they are no
cheaper than v3's.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING, Final, NamedTuple

import google_crc32c

from readonly_engine import native
from readonly_engine.wire.bookkeeper_pb2 import (
    EBADREQ,
    EBADVERSION,
    EFENCED,
    EIO,
    ENOENTRY,
    ENOLEDGER,
    EOK,
    EREADONLY,
    ETOOMANYREQUESTS,
    EUA,
    EUNKNOWNLEDGERSTATE,
)
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.errors import DigestMismatchError, MalformedFrameError
from readonly_engine.wire.framing import LENGTH_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.wire.digest import Digest

    _ParsedEntry = tuple[bytes, int | bytes, bytes]

_VERSION_TWO: Final = 2
_BATCH_READ: Final = 7
_HEADER: Final = _VERSION_TWO << 24 | _BATCH_READ << 16
_REQUEST: Final = struct.Struct(">iiqqqiq")
_REPLY: Final = struct.Struct(">iiqqq")
_SIZE: Final = struct.Struct(">i")
_ENTRY_HEADER: Final = struct.Struct(">qqqq")
_HEADER_FIELDS: Final = 4
_CRC32C_BYTES: Final = 4

_native = native.load("readonly_engine.wire._entries")

REPLY_HEADER_BYTES: Final = _REPLY.size

_STATUS: Final[dict[int, int]] = {
    0: EOK,
    1: ENOLEDGER,
    2: ENOENTRY,
    100: EBADREQ,
    101: EIO,
    102: EUA,
    103: EBADVERSION,
    104: EFENCED,
    105: EREADONLY,
    106: ETOOMANYREQUESTS,
    107: EUNKNOWNLEDGERSTATE,
}
"""v2's codes (BookieProtocol) as v3's, so that readers use one set."""


class BatchHeader(NamedTuple):
    """The header of a reply.

    Attributes:
        request_id: id of the request.
        status: a StatusCode, as in v3.
        ledger_id: the ledger.
        first: the first requested entry, which is the first one of the reply.
    """

    request_id: int
    status: int
    ledger_id: int
    first: int


def encode_batch_read(request_id: int, ledger_id: int, first: int, max_count: int, max_bytes: int) -> bytes:
    """Read entries from `first` on: at most `max_count`, and no more once the sum of their sizes reaches `max_bytes`."""
    frame_bytes = _REQUEST.size - LENGTH_BYTES
    return _REQUEST.pack(frame_bytes, _HEADER, ledger_id, first, request_id, max_count, max_bytes)


def decode_batch_header(frame: memoryview | bytes) -> BatchHeader:
    """Decode the header of a reply.

    Raises:
        MalformedFrameError: not a reply to BATCH_READ.
    """
    if len(frame) < _REPLY.size:
        raise MalformedFrameError(
            f"a bookie answered a batch read with {len(frame)} bytes; {_REPLY.size} are the least"
        )
    header, code, ledger_id, first, request_id = _REPLY.unpack_from(frame)
    if header & ~0xFFFF != _HEADER:
        raise MalformedFrameError(f"a bookie answered a batch read with a frame of type {header:#010x}")
    return BatchHeader(request_id, _STATUS.get(code, EIO), ledger_id, first)


@lru_cache(maxsize=4096)
def _unpacker(size: int, digest_bytes: int) -> Callable[[memoryview | bytes, int], _ParsedEntry]:
    """Return a function that splits an entry of this size into covered header, digest (CRC32C: as a number) and payload."""
    digest = "I" if digest_bytes == _CRC32C_BYTES else f"{digest_bytes}s"
    layout = struct.Struct(f">{_ENTRY_HEADER.size}s{digest}{size - _ENTRY_HEADER.size - digest_bytes}s")
    return layout.unpack_from


def decode_batch(
    frame: memoryview | bytes, digest: Digest, ledger_id: int, first: int, *, views: bool = False
) -> tuple[list[Entry], DigestMismatchError | None]:
    """Verify and decode the entries of a reply whose status is EOK.

    Args:
        frame: the complete reply.
        digest: the ledger's digest.
        ledger_id: the requested ledger.
        first: the first requested entry; the others are consecutive.
        views: whether payloads of some KB may be views of the frame, which must not change then; if False, all are bytes.

    Returns:
        The entries up to the first damaged one, and the error of that one; None if all are sound.

    Raises:
        MalformedFrameError: the reply ends within an entry.
    """
    if _native is not None and digest.crc32c:
        view = memoryview(frame) if views else None
        entries: list[Entry] | None = _native.decode_entries(frame, _REPLY.size, ledger_id, first, view)
        if entries is not None:
            return entries, None
    return pure_decode_batch(frame, digest, ledger_id, first)


def pure_decode_batch(
    frame: memoryview | bytes, digest: Digest, ledger_id: int, first: int
) -> tuple[list[Entry], DigestMismatchError | None]:
    """The same in Python.

    All entries are split first, then verified and assembled by columns. Each step is one call into C for all of them, in half the
    time of a loop over the entries.
    """
    pieces, damage = _cut(frame, digest.size, ledger_id, first)
    if not pieces:
        return [], damage
    headers, stored, payloads = zip(*pieces, strict=True)
    count = len(headers)
    computed = tuple(
        map(google_crc32c.extend, map(google_crc32c.value, headers), payloads)
        if digest.crc32c
        else map(digest.compute, headers, payloads)
    )
    fields = struct.unpack(f">{_HEADER_FIELDS * count}q", b"".join(headers))
    ledger_ids, entry_ids, lacs, lengths = (fields[column::_HEADER_FIELDS] for column in range(_HEADER_FIELDS))
    if computed != stored or ledger_ids.count(ledger_id) != count or entry_ids != tuple(range(first, first + count)):
        for index in range(count):
            entry_id = first + index
            if computed[index] != stored[index]:
                what = f"the digest of entry {ledger_id}:{entry_id} does not match its bytes"
            elif (ledger_ids[index], entry_ids[index]) != (ledger_id, entry_id):
                what = f"asked for entry {ledger_id}:{entry_id}, got {ledger_ids[index]}:{entry_ids[index]}"
            else:
                continue
            count, damage = index, DigestMismatchError(what)
            break
    rows = zip(ledger_ids[:count], entry_ids, lacs, lengths, payloads, strict=False)
    # tuple.__new__ by way of map: Entry(...) itself takes four times as long.
    return list(map(tuple.__new__, repeat(Entry), rows)), damage


def _cut(
    frame: memoryview | bytes, digest_bytes: int, ledger_id: int, first: int
) -> tuple[list[_ParsedEntry], DigestMismatchError | None]:
    """Split entries into covered header, digest and payload, up to one that is too short, and return the error of that one."""
    pieces: list[_ParsedEntry] = []
    append, size_at = pieces.append, _SIZE.unpack_from
    least = _ENTRY_HEADER.size + digest_bytes
    position, end = _REPLY.size, len(frame)
    last_size, unpack = -1, None
    while position < end:
        if end - position < _SIZE.size:
            raise MalformedFrameError("a batch reply ends within the size of an entry")
        (size,) = size_at(frame, position)
        position += _SIZE.size
        if size != last_size or unpack is None:
            if size < least and 0 <= size <= end - position:
                return pieces, DigestMismatchError(
                    f"entry {ledger_id}:{first + len(pieces)} has {size} bytes, its header alone has {least}"
                )
            if not 0 <= size <= end - position:
                raise _too_long(size, end - position)
            unpack, last_size = _unpacker(size, digest_bytes), size
        elif size > end - position:
            raise _too_long(size, end - position)
        append(unpack(frame, position))
        position += size
    return pieces, None


def _too_long(size: int, left: int) -> MalformedFrameError:
    return MalformedFrameError(f"a batch reply announces an entry of {size} bytes and has {left} left")
