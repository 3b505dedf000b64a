"""Acks of very many entries in one frame."""

import pytest
from readonly_engine.wire.commands import body_of, decode_command, encode_command
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.list_bounds import MAX_LIST_BYTES
from readonly_engine.wire.long_acks import LONG_BYTES, MAX_OTHERS, PART_BYTES, PART_IDS, split_long
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandFlow,
    CommandRedeliverUnacknowledgedMessages,
    KeyLongValue,
    MessageIdData,
)
from readonly_engine.wire.varint import encode_varint
from readonly_engine.wire.well_formed import check_command


def ack(ids, **fields):
    complete = {"consumer_id": 7, "ack_type": CommandAck.Individual, **fields}
    return BaseCommand(type=BaseCommand.ACK, ack=CommandAck(message_id=ids, **complete))


def redeliver(ids, **fields):
    request = CommandRedeliverUnacknowledgedMessages(consumer_id=7, message_id=ids, **fields)
    return BaseCommand(type=BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES, redeliver_unacknowledged_messages=request)


def ids(count, **fields):
    return [MessageIdData(ledger_id=number % 7, entry_id=number, **fields) for number in range(count)]


def parts_of(command):
    return [decode_command(part)[0] for part in split_long(encode_command(command)[4:]) or ()]


@pytest.mark.parametrize(
    "command",
    [
        ack(ids(2 * PART_IDS)),
        ack(ids(2 * PART_IDS + 1), request_id=5),
        ack(ids(3000), txnid_least_bits=1, txnid_most_bits=2, request_id=0),
        ack(ids(10, ack_set=[-1] * 500), request_id=5),
        ack([*ids(1, ack_set=[-1] * (1 << 14)), *ids(1)], request_id=5),
        redeliver(ids(3000), consumer_epoch=3),
    ],
)
def test_the_parts_are_the_whole(command):
    parts = parts_of(command)
    assert len(parts) > 1
    whole = body_of(parts[0]).__class__()
    for part in parts:
        check_command(part)
        body = body_of(part)
        assert 0 < len(body.message_id) <= PART_IDS, "an empty list would mean all messages"
        assert body.ByteSize() < PART_BYTES + max(one.ByteSize() for one in body.message_id) + 100
        whole.MergeFrom(body)
    assert whole == body_of(command)
    assert [body_of(part).HasField("request_id") for part in parts if part.type == BaseCommand.ACK] in (
        [],
        [False] * len(parts),
        [False] * (len(parts) - 1) + [True],
    )


@pytest.mark.parametrize(
    "command",
    [
        ack([]),
        ack(ids(1, ack_set=[-1] * (1 << 14))),
        ack(ids(PART_IDS)),
        ack(ids(3000), ack_type=CommandAck.Cumulative),
        redeliver([]),
        BaseCommand(type=BaseCommand.FLOW, flow=CommandFlow(consumer_id=1, message_permits=1)),
    ],
)
def test_other_commands_stay_whole(command):
    assert parts_of(command) == []


@pytest.mark.parametrize(("others", "within"), [(MAX_OTHERS, True), (MAX_OTHERS + 1, False)])
@pytest.mark.parametrize("first", [10, 1000])
def test_other_fields_between_the_ids_have_a_bound(others, within, first):
    pair = CommandAck(properties=[KeyLongValue(key="", value=0)]).SerializePartialToString()
    body = b"".join(ack(part).ack.SerializeToString() for part in (ids(first), ids(1000)))
    body = ack([]).ack.SerializeToString() + pair * (others - 4 - 2) + body
    command = b"\x08\x0a\x52" + encode_varint(len(body)) + body
    frame = len(command).to_bytes(4, "big") + command
    if within:
        found = [len(decode_command(part)[0].ack.message_id) for part in split_long(frame)]
        assert sum(found) == first + 1000
    else:
        with pytest.raises(MalformedFrameError, match="more than 2000 fields besides"):
            list(split_long(frame))


@pytest.mark.parametrize(("more", "within"), [(0, True), (1, False)])
@pytest.mark.parametrize("make", [ack, redeliver])
def test_the_ack_set_of_an_id_has_a_bound(make, more, within):
    words = [0] * (MAX_LIST_BYTES // 2 - 2)  # two bytes each, as the two other fields
    longest = MessageIdData(ledger_id=0, entry_id=128 if more else 0, ack_set=words)
    assert longest.ByteSize() == MAX_LIST_BYTES + more
    assert len(parts_of(make([longest, *ids(1)]))) == (2 if within else 0), "it is refused as a whole"
    late = make([*ids(2 * PART_IDS), longest])
    if within:
        assert len(parts_of(late)) == 3
    else:
        with pytest.raises(MalformedFrameError, match="an ack set of 524,289 bytes; send at most 524,288 bytes"):
            parts_of(late)


def test_what_stock_clients_send_by_default_is_never_looked_at():
    most = ack([MessageIdData(ledger_id=1 << 40, entry_id=1 << 20) for _ in range(1000)], request_id=1 << 20)
    assert len(encode_command(most)) < LONG_BYTES
