from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.wire.errors import FrameTooLargeError, MalformedFrameError
from readonly_engine.wire.framing import FrameSplitter

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


def test_one_byte_at_a_time_a_frame_comes_with_its_last_byte(golden):
    stream = golden("broker_connected") + golden("broker_message")
    splitter = FrameSplitter()
    arrivals = [(at, frame) for at, byte in enumerate(stream) for frame in splitter.receive_data(bytes([byte]))]
    first = len(golden("broker_connected"))
    assert arrivals == [(first - 1, stream[4:first]), (len(stream) - 1, stream[first + 4 :])]


def test_what_is_left_of_a_stream_is_known():
    splitter = FrameSplitter()
    assert splitter.receive_data(b"\x00\x00\x00\x05abc") == []
    assert splitter.buffered_bytes == 7
    assert splitter.receive_data(b"de\x00") == [b"abcde"]
    assert splitter.buffered_bytes == 1


def test_a_frame_of_exactly_the_limit_passes_and_one_byte_more_does_not():
    assert FrameSplitter(5).receive_data(framed([b"12345"])) == [b"12345"]
    with pytest.raises(FrameTooLargeError, match="6 bytes was announced; the limit is 5"):
        FrameSplitter(5).receive_data((6).to_bytes(4, "big"))


def test_the_limit_counts_before_the_frame_has_come():
    """A peer that is none (here: an HTTP request) is found out by its first four bytes."""
    with pytest.raises(FrameTooLargeError):
        FrameSplitter().receive_data(b"GET / HTTP/1.1\r\n")


def test_a_negative_length_is_an_error():
    with pytest.raises(MalformedFrameError, match="-1 bytes"):
        FrameSplitter().receive_data(b"\xff\xff\xff\xff")
