"""MESSAGEs of an owner, decoded in C and in Python: the same entries, or nothing for the usual way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine import native
from readonly_engine.wire.commands import encode_command, encode_message_frame
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.pulsar_pb2 import BaseCommand
from readonly_engine.wire.pushed import pure_decode_pushed

IN_C = native.load("readonly_engine.wire._entries")
built = pytest.mark.skipif(IN_C is None, reason="a C compiler is optional; CI has one")
WAYS = [
    pytest.param(pure_decode_pushed, id="Python"),
    pytest.param(None if IN_C is None else IN_C.decode_pushed, id="C", marks=built),
]
MESSAGE = encode_message_frame(7, 300, 5, -1, b"entry")
HANDLERS = {7: "seven", 300: "three hundred"}


def message(**fields):
    command = BaseCommand(type=BaseCommand.MESSAGE)
    command.message.consumer_id = 7
    where = command.message.message_id
    where.ledger_id, where.entry_id = 3, 4
    for name, value in fields.items():
        if name == "ack_set":
            command.message.ack_set.append(value)
        elif name in {"redelivery_count", "consumer_epoch"}:
            setattr(command.message, name, value)
        else:
            setattr(where, name, value)
    return command


@pytest.mark.parametrize("decode", WAYS)
@pytest.mark.parametrize("partition", [-1, 0, 12])
def test_a_plain_message_is_an_entry(decode, partition):
    data = encode_message_frame(7, 300, 5, partition, b"entry")
    assert decode(data, HANDLERS) == ([("seven", [Entry(300, 5, 5, 0, b"entry")])], len(data))


@pytest.mark.parametrize("decode", WAYS)
def test_messages_of_one_consumer_are_one_run(decode):
    frames = [
        encode_message_frame(consumer, 1, entry, -1, b"x" * entry) for entry, consumer in enumerate([7, 7, 300, 7])
    ]
    runs, end = decode(b"".join(frames) + frames[0][:9], HANDLERS)
    assert [(handler, [entry.entry_id for entry in entries]) for handler, entries in runs] == [
        ("seven", [0, 1]),
        ("three hundred", [2]),
        ("seven", [3]),
    ]
    assert end == sum(map(len, frames))


@pytest.mark.parametrize("decode", WAYS)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0",
        b"\0" * 8,
        b"\xff" * 16,
        MESSAGE[:-1],
        MESSAGE[:4] + b"\xff\xff\xff\xff" + MESSAGE[8:],
        encode_message_frame(8, 300, 5, -1, b"of an unknown consumer"),
        encode_command(BaseCommand(type=BaseCommand.PING)),
        encode_command(message(redelivery_count=1), b"x"),
        encode_command(message(ack_set=5), b"x"),
        encode_command(message(consumer_epoch=0), b"x"),
        encode_command(message(batch_index=0), b"x"),
        encode_command(message(entry_id=-1), b"x"),
        encode_command(message(ledger_id=-(1 << 63)), b"x"),
    ],
)
def test_anything_else_goes_the_usual_way(decode, data):
    assert decode(data, HANDLERS) == ([], 0)
    runs, end = decode(MESSAGE + data, HANDLERS)
    assert (len(runs), end) == (1, len(MESSAGE))


@built
@given(st.integers(0, len(MESSAGE) - 1), st.binary(max_size=60))
def test_damaged_frames_are_the_same_in_both_or_left_to_python(position, noise):
    framed = (4 + len(noise)).to_bytes(4, "big") + len(noise).to_bytes(4, "big") + noise
    for data in (MESSAGE[:position] + noise[:1] + MESSAGE[position + 1 :], framed, noise):
        in_c = IN_C.decode_pushed(data, HANDLERS)
        assert in_c in (([], 0), pure_decode_pushed(data, HANDLERS))


@built
def test_c_wants_bytes_and_a_dict():
    with pytest.raises(TypeError):
        IN_C.decode_pushed(bytearray(MESSAGE), HANDLERS)
    with pytest.raises(TypeError):
        IN_C.decode_pushed(MESSAGE, [])
