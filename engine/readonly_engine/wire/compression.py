"""Decompression as in Pulsar's clients and brokers: one block of known size, with one of four codecs.

LZ4 and SNAPPY are bare blocks without a frame, ZLIB and ZSTD have their own (CompressionCodecProvider, Pulsar 4.0.8). The
uncompressed size is always stored beside the data, and bounds the memory for any data.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import cramjam
import lz4.block
import zstandard

from readonly_engine.wire.errors import FrameTooLargeError, MalformedFrameError, UnsupportedFormatError
from readonly_engine.wire.message_pb2 import LZ4, NONE, SNAPPY, ZLIB, ZSTD, CompressionType

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_UNCOMPRESSED = 128 << 20
"""Bytes. A message has 5 MiB by default (maxMessageSize); joined chunks and batches that compress well are larger."""


def decompress(kind: int, data: bytes, size: int, limit: int = MAX_UNCOMPRESSED) -> bytes:
    """Decompress one block.

    Args:
        kind: CompressionType.
        data: the compressed bytes.
        size: the uncompressed size in bytes; ignored for NONE.
        limit: refuse a larger size.

    Raises:
        FrameTooLargeError: the size is above the limit.
        MalformedFrameError: the data is damaged, or is of another size.
        UnsupportedFormatError: a codec that Pulsar 4.0 does not have.
    """
    if kind == NONE:
        return data
    if kind not in _CODECS:
        raise UnsupportedFormatError(f"compressed with codec {kind}; known are {', '.join(CompressionType.keys())}")
    name = CompressionType.keys()[CompressionType.values().index(kind)]
    if size < 0:
        raise MalformedFrameError(f"data compressed with {name} has an uncompressed size of {size} bytes")
    if size > limit:
        raise FrameTooLargeError(
            f"data compressed with {name} has an uncompressed size of {size} bytes; the limit is {limit}"
        )
    try:
        plain = _CODECS[kind](data, size)
    except (
        ValueError,
        MemoryError,
        zlib.error,
        lz4.block.LZ4BlockError,
        zstandard.ZstdError,
        cramjam.DecompressionError,
    ) as error:
        raise MalformedFrameError(f"data compressed with {name} is damaged: {error}") from error
    if len(plain) != size:
        raise MalformedFrameError(f"data compressed with {name} is not of the stated size of {size} bytes")
    return plain


def _lz4(data: bytes, size: int) -> bytes:
    # An empty block is one zero byte; to the library, a size of 0 is an unknown one.
    return bytes(lz4.block.decompress(data, uncompressed_size=size)) if size else b""


def _zlib(data: bytes, size: int) -> bytes:
    # The Java codec flushes its stream and never ends it (CompressionCodecZLib: SYNC_FLUSH), so do not check for the end.
    return zlib.decompressobj().decompress(data, size + 1)


def _zstd(data: bytes, size: int) -> bytes:
    size_in_frame = zstandard.frame_content_size(data)
    if size_in_frame not in (-1, size):
        raise ValueError(f"the frame is of {size_in_frame} bytes")
    return zstandard.ZstdDecompressor().decompress(data, max_output_size=max(size, 1))


def _snappy(data: bytes, size: int) -> bytes:
    size_in_frame = cramjam.snappy.decompress_raw_len(data)
    if size_in_frame != size:
        raise ValueError(f"the block is of {size_in_frame} bytes")
    return bytes(cramjam.snappy.decompress_raw(data))


_CODECS: dict[int, Callable[[bytes, int], bytes]] = {LZ4: _lz4, ZLIB: _zlib, ZSTD: _zstd, SNAPPY: _snappy}
