"""Hadoop's SequenceFile and MapFile, the format of the filesystem offloader (hadoop-common 3.4).

    header:  "SEQ" 6 | key class, value class | compressed, block-compressed: one byte each | codec class if compressed
             | properties | sync marker (16 bytes)
    record:  length i32 | key length i32 | key | value            the value compressed alone, depending on the header
    block:   -1 i32 | sync marker | records vint | four times: length vint, compressed bytes
             (key lengths, keys, value lengths, values)
    sync:    -1 i32 | sync marker                                 possible before any record

A MapFile is a folder with the files `data`, sorted by key, and `index`, block-compressed: every 128th key with the offset of its
record in `data`. The offloader's keys are entry ids, and -1 has the ledger's metadata (FileSystemManagedLedgerOffloader).
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from readonly_engine.wire.errors import FrameTooLargeError, MalformedFrameError, UnsupportedFormatError

MAX_HEADER_BYTES = 64 << 10
"""For class names and a few properties; typical headers have some hundred bytes."""

MAX_RECORD_BYTES = 128 << 20
"""Above any entry, compressed or not."""

METADATA_KEY = -1
"""The key of the ledger's own metadata."""

_VERSION = 6
_SYNC_BYTES = 16
_SYNC_ESCAPE = -1
_MAX_PROPERTIES = 1000
_MAX_VINT_BYTES = 9
_LONG = "org.apache.hadoop.io.LongWritable"
_BYTES = "org.apache.hadoop.io.BytesWritable"
_CODECS = {
    "org.apache.hadoop.io.compress.DefaultCodec": zlib.MAX_WBITS,
    "org.apache.hadoop.io.compress.DeflateCodec": zlib.MAX_WBITS,
    "org.apache.hadoop.io.compress.GzipCodec": zlib.MAX_WBITS | 16,
}
_INT = struct.Struct(">i")
_LONGS = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class SequenceHeader:
    """The head of a SequenceFile.

    Attributes:
        key_class: Java class of the keys.
        value_class: Java class of the values.
        codec: compression of the values, None for none.
        blocks: whether records are compressed in blocks.
        sync: the sync marker.
        end: offset of the first record.
    """

    key_class: str
    value_class: str
    codec: str | None
    blocks: bool
    sync: bytes
    end: int


class RecordScan(NamedTuple):
    """The result of a scan of records or of one block.

    Attributes:
        found: keys and values.
        position: offset of the record after the last one.
        needed: bytes from `position` on that the next record is known to need; 0 if the last requested one was found.
    """

    found: list[tuple[int, bytes]]
    position: int
    needed: int


def decode_vint(data: bytes, position: int) -> tuple[int, int]:
    """Decode a number of WritableUtils.writeVLong; return it and the offset after it.

    Raises:
        MalformedFrameError: the bytes end within the number.
    """
    if position >= len(data):
        raise MalformedFrameError("a SequenceFile ends within a number")
    first = data[position] - 256 if data[position] > 127 else data[position]
    if first >= -112:
        return first, position + 1
    size, negative = (-120 - first, True) if first < -120 else (-112 - first, False)
    end = position + 1 + size
    if end > len(data):
        raise MalformedFrameError("a SequenceFile ends within a number")
    value = int.from_bytes(data[position + 1 : end], "big")
    return (~value if negative else value), end


def decode_sequence_header(data: bytes) -> SequenceHeader:
    """Decode the header of a SequenceFile, from the file's first MAX_HEADER_BYTES or the complete file.

    Raises:
        WireError: not a SequenceFile, of another version, or damaged.
    """
    if data[:3] != b"SEQ":
        raise MalformedFrameError("a file of an offloaded ledger is no SequenceFile")
    if data[3:4] != bytes([_VERSION]):
        raise UnsupportedFormatError(f"a SequenceFile of version {data[3:4].hex()}; version {_VERSION} is understood")
    key_class, position = _text(data, 4)
    value_class, position = _text(data, position)
    flags = data[position : position + 2]
    position += 2
    codec = None
    if flags[:1] == b"\x01":
        codec, position = _text(data, position)
    count_end = position + _INT.size
    if len(data) < count_end:
        raise MalformedFrameError("a SequenceFile ends within its header")
    (count,) = _INT.unpack_from(data, position)
    if not 0 <= count <= _MAX_PROPERTIES:
        raise MalformedFrameError(f"a SequenceFile with {count} properties")
    position = count_end
    for _ in range(2 * count):
        _, position = _text(data, position)
    end = position + _SYNC_BYTES
    if len(data) < end:
        raise MalformedFrameError("a SequenceFile ends within its header")
    return SequenceHeader(key_class, value_class, codec, flags[1:2] == b"\x01", data[position:end], end)


def decode_map_index(data: bytes) -> list[tuple[int, int]]:
    """Decode a MapFile's index: keys, ascending, with the offsets of their records in the file `data`.

    Raises:
        WireError: damaged, or of other classes or codecs than the offloader's.
    """
    header = decode_sequence_header(data)
    if (header.key_class, header.value_class) != (_LONG, _LONG):
        raise UnsupportedFormatError(f"a MapFile's index from {header.key_class} to {header.value_class}")
    pairs: list[tuple[int, int]] = []
    position = header.end
    while position < len(data):
        if header.blocks:
            keys, values, position = _decode_block(data, position, header)
        else:
            key, value, position = _decode_record(data, position, header)
            keys, values = ([], []) if key is None else ([key], [value])
        pairs += [(_long(key), _long(value)) for key, value in zip(keys, values, strict=True)]
    if any(one >= other for (one, _), (other, _) in pairwise(pairs)):
        raise MalformedFrameError("a MapFile's index whose keys do not ascend")
    return pairs


def check_ledger_data(header: SequenceHeader) -> None:
    """Check that the header of a MapFile's `data` is one of the offloader.

    Raises:
        UnsupportedFormatError: it is not.
    """
    if (header.key_class, header.value_class) != (_LONG, _BYTES):
        raise UnsupportedFormatError(f"an offloaded ledger from {header.key_class} to {header.value_class}")
    if header.codec is not None and header.codec not in _CODECS:
        raise UnsupportedFormatError(
            f"an offloaded ledger compressed by {header.codec}; known are {', '.join(_CODECS)}"
        )


def scan_records(data: bytes, position: int, header: SequenceHeader, first: int, last: int) -> RecordScan:
    """Step through the records of a ledger's `data`.

    Args:
        data: bytes of the file.
        position: offset of a record, or of a sync before one.
        header: the file's header.
        first: the first requested key.
        last: the last requested key.

    Raises:
        WireError: damaged, or a record above MAX_RECORD_BYTES.
    """
    found: list[tuple[int, bytes]] = []
    end = len(data)
    while True:
        if position + 4 > end:
            return RecordScan(found, position, 4)
        (length,) = _INT.unpack_from(data, position)
        if length == _SYNC_ESCAPE:
            if position + 4 + _SYNC_BYTES > end:
                return RecordScan(found, position, 4 + _SYNC_BYTES)
            _check_sync(data, position + 4, header)
            position += 4 + _SYNC_BYTES
            continue
        _check_record(length)
        if position + 16 > end:
            return RecordScan(found, position, 16)
        key_length, key = struct.unpack_from(">iq", data, position + 4)
        if key_length != _LONGS.size or length < key_length:
            raise MalformedFrameError(f"a record of an offloaded ledger whose key has {key_length} bytes")
        following = position + 8 + length
        if first <= key <= last:
            if following > end:
                return RecordScan(found, position, 8 + length)
            found.append((key, _bytes_writable(_inflate(data[position + 16 : following], header))))
        elif following > end and key < first:
            return RecordScan(found, position, 8 + length)
        position = following
        if key >= last:
            return RecordScan(found, position, 0)


def scan_block(data: bytes, position: int, header: SequenceHeader) -> RecordScan:
    """Decode the block at `position`: all its keys and values, or the number of bytes that it is known to need.

    Raises:
        WireError: damaged, or a block above MAX_RECORD_BYTES.
    """
    start = position
    position += 4 + _SYNC_BYTES
    if position + 1 > len(data):
        return RecordScan([], start, position + 1 - start)
    for number in range(5):  # the number of records, then four buffers
        if position + _MAX_VINT_BYTES > len(data) and not _vint_ends(data, position):
            return RecordScan([], start, position + _MAX_VINT_BYTES - start)
        size, position = decode_vint(data, position)
        if number:
            _check_record(size)
            position += size
    if position > len(data):
        return RecordScan([], start, position - start)
    _check_record(position - start)
    keys, values, end = _decode_block(data, start, header)
    return RecordScan([(_long(key), _bytes_writable(value)) for key, value in zip(keys, values, strict=True)], end, 0)


def _vint_ends(data: bytes, position: int) -> bool:
    try:
        decode_vint(data, position)
    except MalformedFrameError:
        return False
    return True


def _check_record(length: int) -> None:
    if length < 0:
        raise MalformedFrameError(f"a SequenceFile with a record of {length} bytes")
    if length > MAX_RECORD_BYTES:
        raise FrameTooLargeError(f"a SequenceFile with a record of {length} bytes; at most {MAX_RECORD_BYTES} are read")


def _check_sync(data: bytes, position: int, header: SequenceHeader) -> None:
    if data[position : position + _SYNC_BYTES] != header.sync:
        raise MalformedFrameError("a SequenceFile whose sync marker is not the header's")


def _decode_record(data: bytes, position: int, header: SequenceHeader) -> tuple[bytes | None, bytes, int]:
    """Decode one record of a file without blocks; the key of a sync marker is None."""
    length, position = _int(data, position)
    if length == _SYNC_ESCAPE:
        _check_sync(data, position, header)
        return None, b"", position + _SYNC_BYTES
    _check_record(length)
    key_length, position = _int(data, position)
    end = position + length
    if not 0 <= key_length <= length or end > len(data):
        raise MalformedFrameError("a SequenceFile with a record that is longer than itself")
    return data[position : position + key_length], _inflate(data[position + key_length : end], header), end


def _decode_block(data: bytes, position: int, header: SequenceHeader) -> tuple[list[bytes], list[bytes], int]:
    escape, position = _int(data, position)
    if escape != _SYNC_ESCAPE:
        raise MalformedFrameError("a SequenceFile with a block that does not begin with the sync marker")
    _check_sync(data, position, header)
    count, position = decode_vint(data, position + _SYNC_BYTES)
    buffers = []
    for _ in range(4):
        size, position = decode_vint(data, position)
        if not 0 <= size <= len(data) - position:
            raise MalformedFrameError("a SequenceFile with a block that is longer than itself")
        buffers.append(_inflate(data[position : position + size], header))
        position += size
    key_lengths, keys, value_lengths, values = buffers
    return _cut(keys, key_lengths, count), _cut(values, value_lengths, count), position


def _cut(data: bytes, lengths: bytes, count: int) -> list[bytes]:
    pieces = []
    start = position = 0
    if not 0 <= count <= len(lengths):
        raise MalformedFrameError(f"a SequenceFile with a block of {count} records")
    for _ in range(count):
        length, position = decode_vint(lengths, position)
        if not 0 <= length <= len(data) - start:
            raise MalformedFrameError("a SequenceFile with a record that is longer than its block")
        pieces.append(data[start : start + length])
        start += length
    return pieces


def _inflate(data: bytes, header: SequenceHeader) -> bytes:
    if header.codec is None:
        return data
    window = _CODECS.get(header.codec)
    if window is None:
        raise UnsupportedFormatError(f"a SequenceFile compressed by {header.codec}; known are {', '.join(_CODECS)}")
    inflater = zlib.decompressobj(window)
    try:
        inflated = inflater.decompress(data, MAX_RECORD_BYTES)
    except zlib.error as error:
        raise MalformedFrameError(f"a SequenceFile with a record that cannot be decompressed: {error}") from error
    if inflater.unconsumed_tail:
        raise FrameTooLargeError(f"a record of a SequenceFile above {MAX_RECORD_BYTES} bytes")
    return inflated


def _bytes_writable(data: bytes) -> bytes:
    length, start = _int(data, 0)
    if length != len(data) - start:
        raise MalformedFrameError(f"a record of {len(data)} bytes whose value would have {length}")
    return data[start:]


def _int(data: bytes, position: int) -> tuple[int, int]:
    end = position + _INT.size
    if end > len(data):
        raise MalformedFrameError("a SequenceFile ends within a record")
    return _INT.unpack_from(data, position)[0], end


def _long(data: bytes) -> int:
    if len(data) != _LONGS.size:
        raise MalformedFrameError(f"a key or value of {len(data)} bytes in a MapFile's index")
    return int(_LONGS.unpack(data)[0])


def _text(data: bytes, position: int) -> tuple[str, int]:
    length, start = decode_vint(data, position)
    if not 0 <= length <= len(data) - start:
        raise MalformedFrameError("a SequenceFile ends within a text of its header")
    try:
        return data[start : start + length].decode(), start + length
    except UnicodeDecodeError as error:
        raise MalformedFrameError("a SequenceFile whose header holds no text") from error
