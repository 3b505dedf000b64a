import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.wire.bookkeeper_pb2 import ReadLacRequest
from readonly_engine.wire.errors import FrameTooLargeError, MalformedFrameError
from readonly_engine.wire.framing import (
    ENVELOPE_BYTES,
    FRAME_BYTES,
    HEAD_BYTES,
    FrameSplitter,
    StoredFrameLimit,
    frame_limit,
)
from readonly_engine.wire.varint import decode_varint, encode_varint

FRAMES = st.lists(st.binary(max_size=40), max_size=6)


def framed(frames):
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


@given(FRAMES, st.data())
def test_frames_come_out_whole_however_the_stream_is_cut(frames, data):
    stream = framed(frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    splitter = FrameSplitter()
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += splitter.receive_data(stream[start:end])
    assert found == frames
    assert splitter.buffered_bytes == 0


def test_a_frame_of_exactly_the_limit_passes_and_one_byte_more_does_not():
    assert FrameSplitter(5).receive_data(framed([b"12345"])) == [b"12345"]
    with pytest.raises(FrameTooLargeError, match="6 bytes was announced; the limit is 5"):
        FrameSplitter(5).receive_data((6).to_bytes(4, "big"))


def test_a_negative_length_is_an_error():
    with pytest.raises(MalformedFrameError, match="-1 bytes"):
        FrameSplitter().receive_data(b"\xff\xff\xff\xff")


def test_a_long_frame_in_small_pieces_takes_time_in_proportion():
    """Copied anew with each piece, these 32 MiB would be 512 GiB of copying."""
    size, piece = 32 << 20, bytes(1 << 10)
    splitter = FrameSplitter(size)
    splitter.receive_data(size.to_bytes(4, "big"))
    begin = time.process_time()
    for _ in range(size // len(piece) - 1):
        assert splitter.receive_data(piece) == []
    (frame,) = splitter.receive_data(piece)
    assert time.process_time() - begin < 5
    assert len(frame) == size
    assert splitter.buffered_bytes == 0


def test_memory_grows_with_what_arrives_and_not_with_what_is_announced():
    tracemalloc.start()
    try:
        splitter = FrameSplitter(1 << 30)
        splitter.receive_data((1 << 30).to_bytes(4, "big") + bytes(1000))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@given(st.lists(st.binary(max_size=200), max_size=8), st.data())
def test_frames_over_the_limit_are_skipped_and_their_heads_kept_however_the_stream_is_cut(frames, data):
    stream = framed(frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    splitter = FrameSplitter(70)
    splitter.skip = True
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += splitter.receive_data(stream[start:end])
        assert splitter.buffered_bytes <= 4 + 70
    assert found == [frame for frame in frames if len(frame) <= 70]
    assert splitter.skipped == [frame[:HEAD_BYTES] for frame in frames if len(frame) > 70]


def test_the_limit_of_a_peer_is_its_message_size_and_the_padding():
    assert frame_limit(0) == frame_limit(5 * 1024 * 1024) == FRAME_BYTES == 5 * 1024 * 1024 + 10 * 1024
    assert frame_limit(1000) == 1000 + 10 * 1024


def test_the_limit_of_bookies_follows_the_largest_that_a_broker_has_named():
    limit = StoredFrameLimit()
    start = limit.bytes
    limit.learn(1000)
    assert limit.bytes == start
    limit.learn(64 << 20)
    assert limit.bytes == frame_limit(64 << 20) + ENVELOPE_BYTES


INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@given(INT64)
def test_numbers_are_encoded_as_protobuf_does(number):
    assert b"\x08" + encode_varint(number) == ReadLacRequest(ledger_id=number).SerializeToString()


@given(INT64, st.binary(max_size=3), st.binary(max_size=3))
def test_a_number_is_read_back_from_where_it_stands(number, before, after):
    encoded = encode_varint(number)
    assert decode_varint(before + encoded + after, len(before)) == (number % (1 << 64), len(before) + len(encoded))


@given(INT64, st.data())
def test_a_number_that_is_cut_off_is_an_error(number, data):
    encoded = encode_varint(number)
    with pytest.raises(MalformedFrameError):
        decode_varint(encoded[: data.draw(st.integers(0, len(encoded) - 1))], 0)
