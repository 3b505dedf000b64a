"""MESSAGEs of an owner, decoded in C and in Python: the same entries, or nothing for the usual way."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine import native
from readonly_engine.wire.commands import encode_command, encode_message_frame
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.entry_view import EntryView, encode_views
from readonly_engine.wire.message_pb2 import MessageMetadata
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
    assert decode(data, HANDLERS) == (None, [("seven", [Entry(300, 5, 5, 0, b"entry")])], len(data))


@pytest.mark.parametrize("decode", WAYS)
def test_messages_of_one_consumer_are_one_run(decode):
    frames = [
        encode_message_frame(consumer, 1, entry, -1, b"x" * entry) for entry, consumer in enumerate([7, 7, 300, 7])
    ]
    _, runs, end = decode(b"".join(frames) + frames[0][:9], HANDLERS)
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
    assert decode(data, HANDLERS) == (None, [], 0)
    _, runs, end = decode(MESSAGE + data, HANDLERS)
    assert (len(runs), end) == (1, len(MESSAGE))


@built
@given(st.integers(0, len(MESSAGE) - 1), st.binary(max_size=60))
def test_damaged_frames_are_the_same_in_both_or_left_to_python(position, noise):
    framed = (4 + len(noise)).to_bytes(4, "big") + len(noise).to_bytes(4, "big") + noise
    for data in (MESSAGE[:position] + noise[:1] + MESSAGE[position + 1 :], framed, noise):
        in_c = IN_C.decode_pushed(data, HANDLERS)
        assert in_c in ((None, [], 0), pure_decode_pushed(data, HANDLERS))


PLAIN = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1).SerializeToString()
STORED = len(PLAIN).to_bytes(4, "big") + PLAIN + b"body"
PUSHED = encode_message_frame(7, 300, 5, -1, STORED)


@built
@given(st.integers(0, len(PUSHED) - 1), st.binary(max_size=1))
def test_a_splice_delivers_what_is_next_and_plain_and_nothing_else(position, noise):
    fallback, ledger = object(), SimpleNamespace(last_readable=4)
    splice = IN_C.Splice(fallback)
    splice.start("writer", ledger, 300, 4, 9, -1, -1, False, 1, len(STORED))
    data = PUSHED[:position] + noise + PUSHED[position + 1 :]
    spliced, runs, end = IN_C.decode_pushed(data, {7: splice})
    _, usual, usual_end = pure_decode_pushed(data, {7: fallback})
    if end != usual_end:
        assert (spliced, runs, end) == (None, [], 0)  # left to Python
        return
    if spliced is None:
        assert (runs, splice.take()) == (usual, ([], 0, 0))
        assert ledger.last_readable == 4
        return
    ((_, (entry,)),) = usual
    view = EntryView(entry)
    assert (entry.ledger_id, entry.entry_id, view.marker, view.txn, view.messages) == (300, 5, False, None, 1)
    frame = encode_views([view], 9, -1, -1)
    assert spliced == ({"writer": [frame]}, splice)
    assert (runs, splice.take()) == ([], ([entry.payload], 1, len(frame)))
    assert (ledger.last_readable, splice.entry_id) == (5, 5)


@built
@pytest.mark.parametrize(
    ("last", "messages", "size", "delivered"),
    [(4, 1, len(STORED), 1), (4, 0, 1 << 20, 0), (4, 9, len(STORED) - 1, 0), (3, 9, 1 << 20, 0), (5, 9, 1 << 20, 0)],
)
def test_a_splice_ends_at_its_limits_and_lets_nothing_overtake(last, messages, size, delivered):
    splice = IN_C.Splice("fallback")
    splice.start("writer", SimpleNamespace(last_readable=last), 300, last, 9, -1, -1, False, messages, size)
    later = encode_message_frame(7, 300, last + 1 + delivered, -1, STORED)
    spliced, runs, _ = IN_C.decode_pushed(PUSHED + later, {7: splice})
    assert (spliced is not None) == bool(delivered)
    assert sum(len(entries) for _, entries in runs) == 2 - delivered
    assert splice.running == (not runs)
    splice.stop()
    assert IN_C.decode_pushed(later, {7: splice})[0] is None


@built
def test_c_wants_bytes_and_a_dict():
    with pytest.raises(TypeError):
        IN_C.decode_pushed(bytearray(MESSAGE), HANDLERS)
    with pytest.raises(TypeError):
        IN_C.decode_pushed(MESSAGE, [])
