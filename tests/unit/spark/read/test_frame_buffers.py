"""Buffers are used again when nobody looks at them any more, and not before."""

from readonly_engine.bookkeeper.session_v2 import IDLE_BUFFER_BYTES, KEPT_BUFFER_BYTES
from readonly_spark.read.frame_buffers import MAX_KEPT, FrameBuffers


def test_a_buffer_with_a_view_is_not_given_out():
    buffers = FrameBuffers()
    first = buffers.take()
    assert len(first) == IDLE_BUFFER_BYTES
    first[:3] = b"abc"
    part = memoryview(first)[:3]
    buffers.keep(first)
    assert buffers.take() is not first
    assert bytes(part) == b"abc"
    part.release()
    assert buffers.take() is first
    assert len(first) == IDLE_BUFFER_BYTES
    assert buffers.take() is not first


def test_a_view_of_a_view_counts():
    buffers = FrameBuffers()
    buffer = bytearray(b"x" * IDLE_BUFFER_BYTES)
    part = memoryview(buffer)[5:50][1:3]
    buffers.keep(buffer)
    buffers.keep(buffer)
    assert buffers.take() is not buffer
    del part
    assert buffers.take() is buffer
    assert buffers.take() is not buffer


def test_neither_very_many_nor_very_large_ones_are_kept():
    buffers = FrameBuffers()
    huge = bytearray(KEPT_BUFFER_BYTES + 1)
    buffers.keep(huge)
    assert buffers.take() is not huge
    many = [bytearray(IDLE_BUFFER_BYTES) for _ in range(MAX_KEPT + 3)]
    for one in many:
        buffers.keep(one)
    again = [buffers.take() for _ in many]
    assert sum(any(one is other for other in many) for one in again) == MAX_KEPT
