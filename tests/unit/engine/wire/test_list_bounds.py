"""Bound of the lists in one command, which counts before they are decoded."""

import time
import timeit

import pytest
from readonly_engine.wire.commands import body_of
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.list_bounds import MAX_LIST_BYTES, find_long_lists
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandSeek,
    CommandSubscribe,
    KeyLongValue,
    KeyValue,
)
from readonly_engine.wire.varint import encode_varint

FULL_BYTES = 5 << 20


def frame(command, items=b""):
    """Encode a command, with items of a list at the end of its body."""
    body = body_of(command).SerializePartialToString() + items
    encoded = (
        b"\x08" + encode_varint(command.type) + encode_varint(command.type << 3 | 2) + encode_varint(len(body)) + body
    )
    return len(encoded).to_bytes(4, "big") + encoded


def subscribe(size=0):
    pair = CommandSubscribe(metadata=[KeyValue(key="", value="")]).SerializePartialToString()
    command = CommandSubscribe(topic="t" * 9000, request_id=7)
    return frame(BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=command), pair * (size // len(pair)))


def seek(size):
    command = BaseCommand(type=BaseCommand.SEEK, seek=CommandSeek(request_id=8))
    command.seek.message_id.ack_set.extend([1] * (size // 2))
    return frame(command)


def properties(size):
    pair = CommandAck(properties=[KeyLongValue(key="", value=0)]).SerializePartialToString()
    return frame(BaseCommand(type=BaseCommand.ACK, ack=CommandAck(consumer_id=1)), pair * (size // len(pair)))


def seconds(function, argument):
    return min(timeit.repeat(lambda: function(argument), timer=time.thread_time, number=1, repeat=5))


@pytest.mark.parametrize(("make", "request_id"), [(subscribe, 7), (seek, 8), (properties, None)])
def test_lists_count_to_the_byte_and_a_full_frame_takes_no_time(make, request_id):
    assert find_long_lists(make(MAX_LIST_BYTES - 16)) is None
    found = find_long_lists(make(MAX_LIST_BYTES + 16))
    assert (found.request_id, found.size > MAX_LIST_BYTES) == (request_id, True)
    encoded = make(FULL_BYTES)
    assert find_long_lists(encoded).request_id == request_id
    assert seconds(find_long_lists, encoded) < seconds(BaseCommand.FromString, encoded[4:]) / 2


def test_long_texts_and_payloads_are_no_lists():
    command = BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=CommandSubscribe(request_id=7))
    command.subscribe.schema.schema_data = b"s" * FULL_BYTES
    assert find_long_lists(frame(command)) is None
    assert find_long_lists(subscribe(1000) + b"p" * FULL_BYTES) is None


@pytest.mark.parametrize("encoded", [b"\xff", BaseCommand(type=BaseCommand.PING).SerializePartialToString()[:1]])
def test_what_is_no_command_is_refused(encoded):
    broken = encoded * (MAX_LIST_BYTES + 1)
    with pytest.raises(MalformedFrameError):
        find_long_lists(len(broken).to_bytes(4, "big") + broken)
