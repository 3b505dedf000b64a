"""Plain acks are decoded by hand as by protobuf; all others are left to protobuf."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from readonly_engine import native
from readonly_engine.wire.acks import PlainAck, encode_ack, pure_decode_plain_ack, split_ack, split_ids
from readonly_engine.wire.commands import decode_command, encode_command
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.framing import LENGTH_BYTES
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck

IN_C = native.load("readonly_engine.wire._acks")
NEEDS_C = pytest.mark.skipif(IN_C is None, reason="not built, or PULSAR_READONLY_PURE is set")
BOTH = pytest.mark.parametrize(
    "decode_plain_ack",
    [pure_decode_plain_ack, pytest.param(getattr(IN_C, "decode_plain_ack", None), marks=NEEDS_C)],
    ids=["python", "c"],
)
LONG = st.one_of(st.integers(0, 300), st.integers(0, 2**63 - 1))
ENTRIES = st.lists(st.tuples(st.one_of(st.integers(1, 3), LONG), LONG), min_size=1, max_size=30)


def framed(ack):
    """An ACK as it comes out of the splitter."""
    return encode_command(BaseCommand(type=BaseCommand.ACK, ack=ack))[LENGTH_BYTES:]


def plain(consumer_id, entries):
    ack = CommandAck(consumer_id=consumer_id, ack_type=CommandAck.Individual)
    for ledger_id, entry_id in entries:
        ack.message_id.add(ledger_id=ledger_id, entry_id=entry_id)
    return ack


@BOTH
@given(consumer_id=LONG, entries=ENTRIES)
@example(consumer_id=0, entries=[(5, 127), (5, 128), (5, 16383), (5, 16384), (6, 0)])
def test_a_plain_ack_is_what_protobuf_says(decode_plain_ack, consumer_id, entries):
    ack = decode_plain_ack(framed(plain(consumer_id, entries)))
    assert (ack.consumer_id, ack.entries) == (consumer_id, entries)
    again = CommandAck(consumer_id=consumer_id, ack_type=CommandAck.Individual)
    again.MergeFromString(ack.ids + ack.ids)
    assert again == plain(consumer_id, entries + entries)


@BOTH
def test_acks_that_say_more_and_other_commands_are_left_to_protobuf(decode_plain_ack):
    def with_(change, **fields):
        ack = plain(1, [(3, 4)])
        for field, value in fields.items():
            setattr(ack, field, value)
        change(ack)
        return framed(ack)

    def nothing(ack):
        del ack

    assert decode_plain_ack(with_(nothing)) == PlainAck(1, [(3, 4)], b"\x1a\x04\x08\x03\x10\x04")
    others = [
        with_(nothing, request_id=0),
        with_(nothing, txnid_least_bits=1, txnid_most_bits=2),
        with_(nothing, ack_type=CommandAck.Cumulative),
        with_(nothing, validation_error=CommandAck.ChecksumMismatch),
        with_(lambda ack: ack.properties.add(key="k", value=1)),
        with_(lambda ack: ack.message_id[0].ack_set.append(1)),
        with_(lambda ack: ack.message_id.add(ledger_id=3, entry_id=5, batch_index=0)),
        with_(lambda ack: ack.message_id.add(ledger_id=3, entry_id=5, partition=1)),
        with_(lambda ack: ack.message_id.add(ledger_id=3)),
        framed(plain(1, [])),
        framed(plain(1, [(-1, -1)])),
        framed(plain(1, [(1, -1)])),
        framed(CommandAck(ack_type=CommandAck.Individual, message_id=[{"ledger_id": 1, "entry_id": 1}])),
        encode_command(BaseCommand(type=BaseCommand.PING, ping={}))[LENGTH_BYTES:],
    ]
    for other in others:
        assert decode_plain_ack(other) is None


@BOTH
@given(
    entries=ENTRIES,
    changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3),
    cut=st.integers(0, 400),
)
def test_what_is_damaged_is_read_as_protobuf_reads_it_or_not_at_all(decode_plain_ack, entries, changes, cut):
    frame = bytearray(framed(plain(7, entries)))
    for at, byte in changes:
        if at < len(frame):
            frame[at] = byte
    data = bytes(frame[:-cut] if cut < len(frame) // 2 and cut else frame)
    ack = decode_plain_ack(data)
    if ack is not None:
        command, end = decode_command(data)
        assert end == len(data)
        assert command.type == BaseCommand.ACK
        ids = [(one.ledger_id % 2**64, one.entry_id % 2**64) for one in command.ack.message_id]
        assert (command.ack.consumer_id % 2**64, ids) == (ack.consumer_id, ack.entries)
        assert command.ack.ack_type == CommandAck.Individual
        assert not command.ack.HasField("request_id")


@NEEDS_C
@given(
    entries=ENTRIES,
    changes=st.lists(
        st.tuples(st.integers(0, 60), st.sampled_from([0, 1, 8, 16, 0x1A, 0x52, 0x7F, 0x80, 0xFF])), max_size=4
    ),
    cut=st.integers(0, 40),
)
def test_both_ways_say_the_same(entries, changes, cut):
    frame = bytearray(framed(plain(7, entries)))
    for at, byte in changes:
        if at < len(frame):
            frame[at] = byte
    data = bytes(frame[: len(frame) - cut])
    assert IN_C.decode_plain_ack(data) == pure_decode_plain_ack(data)


@BOTH
def test_a_field_without_a_number_is_no_ledger(decode_plain_ack):
    frame = framed(plain(1, [(3, 4)]))
    assert decode_plain_ack(frame.replace(b"\x08\x03\x10\x04", b"\x00\x10\x04\x00")) is None
    assert decode_plain_ack(frame.replace(b"\x1a\x04\x08\x03\x10\x04", b"\x1a\x04\x00\x04\x00\x04")) is None


@NEEDS_C
def test_what_is_no_frame_is_an_error():
    with pytest.raises(TypeError, match="frame: must be bytes"):
        IN_C.decode_plain_ack(bytearray(framed(plain(1, [(3, 4)]))))


@given(consumer_id=LONG, entries=ENTRIES, request_id=LONG)
def test_an_ack_is_written_as_protobuf_writes_it(consumer_id, entries, request_id):
    ack = plain(consumer_id, entries)
    ids = b"".join(CommandAck(message_id=[one]).SerializeToString() for one in ack.message_id)
    ack.request_id = request_id
    assert encode_ack(consumer_id, ids, request_id) == encode_command(BaseCommand(type=BaseCommand.ACK, ack=ack))
    command, _ = decode_command(encode_ack(consumer_id, ids, request_id)[LENGTH_BYTES:])
    assert command.ack == ack


@given(ENTRIES, st.integers(1, 200))
def test_the_parts_of_encoded_ids_are_the_ids_and_none_is_too_long(entries, most):
    ids = CommandAck(message_id=plain(3, entries).message_id).SerializePartialToString()
    parts = split_ids(ids, most)
    assert b"".join(parts) == ids
    for part in parts:
        alone = len(CommandAck.FromString(part).message_id) == 1
        assert alone or len(part) <= most


@given(ENTRIES, st.integers(1, 200))
def test_the_parts_of_an_ack_ack_the_same_and_none_is_too_long(entries, most):
    ack = plain(3, entries)
    ack.request_id, ack.txnid_least_bits, ack.txnid_most_bits = 7, 1, 2
    parts = split_ack(ack, most)
    assert [(m.ledger_id, m.entry_id) for part in parts for m in part.message_id] == entries
    for part in parts:
        assert (part.consumer_id, part.request_id, part.txnid_least_bits, part.txnid_most_bits) == (3, 7, 1, 2)
        assert len(part.message_id) == 1 or part.ByteSize() <= most


def test_what_is_no_list_of_ids_is_an_error():
    with pytest.raises(MalformedFrameError):
        split_ids(b"\x08\x01", 1)


def test_a_cumulative_ack_stays_whole():
    ack = plain(3, [(1, 1), (1, 2)])
    ack.ack_type = CommandAck.Cumulative
    assert split_ack(ack, 1) == [ack]
