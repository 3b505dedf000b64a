import contextlib
import tracemalloc
import zlib

import cramjam
import lz4.block
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.wire.compression import decompress
from readonly_engine.wire.errors import FrameTooLargeError, MalformedFrameError, UnsupportedFormatError, WireError
from readonly_engine.wire.message_pb2 import LZ4, NONE, SNAPPY, ZLIB, ZSTD

COMPRESS = {
    LZ4: lambda value: lz4.block.compress(value, store_size=False),
    ZLIB: zlib.compress,
    ZSTD: zstandard.compress,
    SNAPPY: lambda value: bytes(cramjam.snappy.compress_raw(value)),
}
KINDS = list(COMPRESS)


@given(st.sampled_from(KINDS), st.binary(max_size=2000), st.integers(1, 30))
def test_what_was_compressed_comes_back(kind, block, times):
    value = block * times
    assert decompress(kind, COMPRESS[kind](value), len(value)) == value


def test_uncompressed_bytes_are_what_they_are():
    assert decompress(NONE, b"abc", 17) == b"abc"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", [-1, 1, 100])
def test_another_size_than_told_is_the_named_error(kind, wrong):
    value = b"a value of some length " * 10
    with pytest.raises(MalformedFrameError):
        decompress(kind, COMPRESS[kind](value), len(value) + wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_what_would_be_too_large_is_not_decompressed(kind):
    with pytest.raises(FrameTooLargeError, match="size of 101 bytes; the limit is 100"):
        decompress(kind, COMPRESS[kind](b"x" * 101), 101, limit=100)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bomb_takes_no_more_memory_than_it_says(kind):
    bomb = COMPRESS[kind](bytes(64 << 20))
    tracemalloc.start()
    with pytest.raises(MalformedFrameError):
        decompress(kind, bomb, 1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def test_a_negative_size_and_an_unknown_codec_are_named():
    with pytest.raises(MalformedFrameError, match="ZSTD has an uncompressed size of -1 bytes"):
        decompress(ZSTD, b"", -1)
    with pytest.raises(UnsupportedFormatError, match="codec 7; known are NONE, LZ4, ZLIB, ZSTD, SNAPPY"):
        decompress(7, b"", 1)


@given(st.sampled_from(KINDS), st.binary(max_size=200), st.integers(0, 1000))
def test_any_bytes_are_decompressed_or_a_named_error(kind, data, size):
    with contextlib.suppress(WireError):
        assert len(decompress(kind, data, size)) == size


@given(st.sampled_from(KINDS), st.data())
def test_damaged_bytes_are_decompressed_or_a_named_error(kind, data):
    value = data.draw(st.binary(min_size=1, max_size=300)) * 3
    damaged = bytearray(COMPRESS[kind](value))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError):
        assert len(decompress(kind, bytes(damaged), len(value))) == len(value)
