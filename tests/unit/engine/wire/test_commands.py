import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.wire.bookie import decode_reply
from readonly_engine.wire.commands import (
    NO_EPOCH,
    body_of,
    command_name,
    decode_command,
    encode_command,
    encode_message_frame,
    has_request_id,
)
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandLookupTopic, CommandMessage

FRAMES = sorted(
    path.stem for path in (Path(__file__).parents[1] / "golden").glob("*.txt") if path.stem.startswith(("bro", "cli"))
)


def command_in(frame):
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return decode_command(frame[4:])


@pytest.mark.parametrize("name", FRAMES)
def test_stock_frames_are_read_whole_and_written_to_the_same_bytes(golden, name):
    """A relayed command keeps all its fields, also unknown and unset ones."""
    frame = golden(name)
    command, end = command_in(frame)
    assert command_name(command).lower() in name
    assert encode_command(command, frame[4 + end :]) == frame


@pytest.mark.parametrize(
    ("frame", "entry_id", "consumer_id", "redeliveries"),
    [
        ("broker_message", 0, 0, 0),
        ("broker_message_batch", 2, 1, 0),
        ("broker_message_redelivered", 0, 1, 1),
    ],
)
def test_a_message_frame_is_the_stock_brokers_to_the_byte(golden, frame, entry_id, consumer_id, redeliveries):
    """The oracle: the entry as a bookie returned it, and the frame that the owner made of the same entry."""
    _, reply = decode_reply(golden(f"bookie_read_{entry_id}"))
    ledger_id = int.from_bytes(reply.body[:8], "big")
    made = encode_message_frame(consumer_id, ledger_id, entry_id, -1, reply.body[36:], redeliveries)
    assert made == golden(frame)


UINT63 = st.integers(0, (1 << 63) - 1)


@given(
    UINT63,
    UINT63,
    UINT63,
    st.integers(-1, 5000),
    st.binary(max_size=40),
    st.integers(0, 300),
    st.integers(-1, 300),
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=3),
)
def test_a_message_frame_is_what_protobuf_would_write(
    consumer, ledger, entry, partition, payload, redeliveries, epoch, ack_set
):
    message = CommandMessage(consumer_id=consumer)
    message.message_id.ledger_id = ledger
    message.message_id.entry_id = entry
    message.message_id.partition = partition
    message.ack_set.extend(ack_set)
    if redeliveries:
        message.redelivery_count = redeliveries
    if epoch != NO_EPOCH:
        message.consumer_epoch = epoch
    expected = encode_command(BaseCommand(type=BaseCommand.MESSAGE, message=message), payload)
    made = encode_message_frame(consumer, ledger, entry, partition, payload, redeliveries, epoch, ack_set)
    assert made == expected


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (b"", "shorter"),
        (b"\x00\x00", "shorter"),
        (b"\x00\x00\x00\x05abc", "shorter"),
        (b"\xff\xff\xff\xffabc", "shorter"),
        (b"\x00\x00\x00\x02\x08\xff", "not a Pulsar command"),
        (b"\x00\x00\x00\x03\x08\x09\x07", "not a Pulsar command"),
    ],
)
def test_a_frame_that_holds_no_command_is_the_named_error(frame, says):
    with pytest.raises(MalformedFrameError, match=says):
        decode_command(frame)


@given(st.one_of(st.binary(max_size=60), st.binary(max_size=60).map(lambda b: len(b).to_bytes(4, "big") + b)))
def test_any_bytes_are_a_command_or_the_named_error(frame):
    with contextlib.suppress(MalformedFrameError):
        command, end = decode_command(frame)
        assert 4 <= end <= len(frame)
        assert command_name(command)
        body_of(command)


@given(st.data())
def test_a_command_with_a_damaged_byte_is_a_command_or_the_named_error(golden, data):
    frame = bytearray(golden(data.draw(st.sampled_from(FRAMES)))[4:])
    frame[data.draw(st.integers(0, len(frame) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(MalformedFrameError):
        command, _ = decode_command(bytes(frame))
        body_of(command)


def test_which_commands_have_request_ids():
    with_ids = ["SUBSCRIBE", "ACK", "ACK_RESPONSE", "ERROR", "SUCCESS", "LOOKUP_RESPONSE", "PRODUCER_SUCCESS", "SEEK"]
    without = ["CONNECT", "MESSAGE", "FLOW", "PING", "PONG", "SEND", "SEND_RECEIPT", "ACTIVE_CONSUMER_CHANGE"]
    for name in with_ids + without:
        assert has_request_id(BaseCommand(type=BaseCommand.Type.Value(name))) == (name in with_ids), name


def test_a_command_of_a_newer_client_keeps_its_number():
    command, _ = decode_command(encode_command(BaseCommand(type=96))[4:])
    assert (command.type, command_name(command)) == (96, "command 96")


def test_a_topic_that_is_no_text_is_the_named_error():
    lookup = BaseCommand(type=BaseCommand.LOOKUP, lookup_topic=CommandLookupTopic(topic="abcd", request_id=1))
    frame = encode_command(lookup)[4:].replace(b"abcd", b"\xff\xfe\xff\xfe")
    with pytest.raises(MalformedFrameError):
        decode_command(frame)
