import base64
import contextlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.wire import bookie
from readonly_engine.wire.batch import Message, decode_stored_entry, single_message, unpack
from readonly_engine.wire.chunks import ChunkJoiner
from readonly_engine.wire.errors import DigestMismatchError, FrameTooLargeError, MalformedFrameError, WireError
from readonly_engine.wire.message_pb2 import (
    TXN_COMMIT,
    ZLIB,
    BrokerEntryMetadata,
    MessageMetadata,
    SingleMessageMetadata,
)

from tests.support.stored_message import stored_message as stored

HEADER_AND_CRC32C = 36


def batch(*singles):
    out = b""
    for single, value in singles:
        single.payload_size = len(value)
        head = single.SerializeToString()
        out += len(head).to_bytes(4, "big") + head + value
    return out


def unpacked(payload, **options):
    return unpack(decode_stored_entry(payload), **options)


def golden_payload(golden, name):
    return bookie.decode_reply(golden(name))[1].body[HEADER_AND_CRC32C:]


def test_a_real_message(golden):
    entry = decode_stored_entry(golden_payload(golden, "bookie_read_0"))
    assert (entry.batched, entry.chunk, entry.encrypted, entry.marker) == (False, False, False, None)
    assert unpack(entry) == [Message(b"first", key=b"k", properties=(("colour", "blue"),))]


def test_a_real_batch(golden):
    entry = decode_stored_entry(golden_payload(golden, "bookie_read_2"))
    assert entry.batched
    assert [(message.batch_index, message.value, message.sequence_id) for message in unpack(entry)] == [
        (number, b"batched %d" % number, number) for number in range(3)
    ]


def test_what_the_broker_wrote_before_the_message():
    entry = decode_stored_entry(
        stored(MessageMetadata(), b"x", broker=BrokerEntryMetadata(broker_timestamp=5, index=41))
    )
    assert (entry.broker_timestamp, entry.index, entry.body) == (5, 41, b"x")
    assert decode_stored_entry(stored(MessageMetadata(), b"x")).index == -1


def test_an_entry_without_a_checksum():
    assert unpacked(stored(MessageMetadata(), b"x", checksum=False)) == [Message(b"x")]


def test_a_damaged_message_is_the_named_error():
    payload = bytearray(stored(MessageMetadata(producer_name="p"), b"xyz"))
    payload[-1] ^= 1
    with pytest.raises(DigestMismatchError, match="the producer's checksum"):
        decode_stored_entry(bytes(payload))


def test_keys_of_every_kind():
    encoded = base64.b64encode(b"\xff\x00").decode()
    assert (
        single_message(MessageMetadata(partition_key=encoded, partition_key_b64_encoded=True), b"").key == b"\xff\x00"
    )
    assert single_message(MessageMetadata(partition_key="k", null_partition_key=True), b"").key is None
    assert single_message(MessageMetadata(), b"").key is None
    assert single_message(MessageMetadata(partition_key=""), b"").key == b""
    assert single_message(MessageMetadata(ordering_key=b"o"), b"").ordering_key == b"o"
    with pytest.raises(MalformedFrameError, match="base64"):
        single_message(MessageMetadata(partition_key="!", partition_key_b64_encoded=True), b"")


def test_a_batch_and_what_compaction_left_of_it():
    body = batch(
        (SingleMessageMetadata(partition_key="a", event_time=9, sequence_id=70), b"one"),
        (SingleMessageMetadata(partition_key="a", compacted_out=True), b""),
        (SingleMessageMetadata(partition_key="b", null_value=True), b""),
    )
    metadata = MessageMetadata(
        num_messages_in_batch=3, sequence_id=5, compression=ZLIB, uncompressed_size=len(body)
    )  # fmt: skip
    assert unpacked(stored(metadata, zlib.compress(body))) == [
        Message(b"one", batch_index=0, key=b"a", event_time=9, sequence_id=70),
        Message(None, batch_index=2, key=b"b", sequence_id=7),
    ]


@pytest.mark.parametrize("count", [2, 1 << 30])
def test_a_batch_that_ends_too_early_is_the_named_error(count):
    body = batch((SingleMessageMetadata(), b"one"))
    with pytest.raises(MalformedFrameError, match="ends in message 1"):
        unpacked(stored(MessageMetadata(num_messages_in_batch=count), body))
    with pytest.raises(MalformedFrameError, match="ends in message 0"):
        unpacked(stored(MessageMetadata(num_messages_in_batch=1), body[:-1]))


def test_a_batch_above_the_limit_is_refused():
    metadata = MessageMetadata(compression=ZLIB, uncompressed_size=1000)
    with pytest.raises(FrameTooLargeError):
        unpacked(stored(metadata, zlib.compress(bytes(1000))), limit=999)


def test_markers_and_encrypted_entries_say_so():
    assert decode_stored_entry(stored(MessageMetadata(marker_type=TXN_COMMIT), b"")).marker == "TXN_COMMIT"
    assert decode_stored_entry(stored(MessageMetadata(marker_type=99), b"")).marker == "MARKER_99"
    metadata = MessageMetadata()
    metadata.encryption_keys.add(key="k", value=b"v")
    assert decode_stored_entry(stored(metadata, b"")).encrypted


@given(st.data())
def test_a_damaged_batch_is_a_batch_or_a_named_error(data):
    body = bytearray(batch(*((SingleMessageMetadata(partition_key="k" * n), b"v" * n) for n in range(4))))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError):
        unpacked(stored(MessageMetadata(num_messages_in_batch=4), bytes(body)))


# Chunks


def chunks(uuid, value, parts, compression=None):
    body = zlib.compress(value) if compression == ZLIB else value
    size = -(-len(body) // parts)
    for number in range(parts):
        metadata = MessageMetadata(
            uuid=uuid, chunk_id=number, num_chunks_from_msg=parts, total_chunk_msg_size=len(body),
            uncompressed_size=len(value), compression=compression,
        )  # fmt: skip
        yield decode_stored_entry(stored(metadata, body[number * size : (number + 1) * size]))


def test_chunks_of_several_messages_may_be_mixed():
    joiner = ChunkJoiner()
    mixed = [chunk for pair in zip(chunks("a", b"a" * 90, 3), chunks("b", b"b" * 90, 3), strict=True) for chunk in pair]
    assert [joiner.add(chunk) for chunk in mixed] == [None] * 4 + [Message(b"a" * 90), Message(b"b" * 90)]


def test_a_chunk_that_was_published_twice_counts_once():
    joiner = ChunkJoiner()
    first, second, third = chunks("u", b"x" * 90, 3)
    assert [joiner.add(chunk) for chunk in (first, second, second, third)] == [None, None, None, Message(b"x" * 90)]


@pytest.mark.parametrize("kept", [(0, 2), (1, 2), (2,)])
def test_a_message_with_a_missing_chunk_is_counted_as_dropped(kept):
    joiner = ChunkJoiner()
    parts = list(chunks("u", b"x" * 90, 3))
    assert [joiner.add(parts[index]) for index in kept] == [None] * len(kept)
    assert joiner.dropped == 1


def test_incomplete_messages_make_room():
    joiner = ChunkJoiner(max_bytes=100, max_open=2)
    for uuid in "abc":
        joiner.add(next(chunks(uuid, b"x" * 40, 2)))
    assert joiner.dropped == 1
    big = list(chunks("d", b"x" * 220, 2))
    assert [joiner.add(chunk) for chunk in big] == [None, None]
    assert joiner.dropped == 5


def test_chunks_that_are_not_as_long_as_they_say_are_the_named_error():
    joiner = ChunkJoiner()
    first, _ = chunks("u", b"x" * 90, 2)
    _, other = chunks("u", b"x" * 80, 2)
    joiner.add(first)
    with pytest.raises(MalformedFrameError, match="chunks of 85 bytes in total instead of 90"):
        joiner.add(other)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.integers(1, 60)), max_size=40))
def test_memory_is_bounded_in_whatever_order_chunks_come(order):
    joiner = ChunkJoiner(max_bytes=150, max_open=2)
    parts = {uuid: list(chunks(uuid, uuid.encode() * 120, 4)) for uuid in "abc"}
    for uuid, index, _ in order:
        message = joiner.add(parts[uuid][index])
        assert message is None or message.value == uuid.encode() * 120
        assert joiner._size == sum(one.size for one in joiner._open.values()) <= 150
        assert len(joiner._open) <= 2
