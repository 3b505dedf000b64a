import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.wire import bookie
from readonly_engine.wire.bookkeeper_pb2 import ENOENTRY, EOK, Request, Response
from readonly_engine.wire.errors import MalformedFrameError


def test_a_read_request_is_what_the_protocol_says_to_the_byte():
    """Taken from the field numbers of BookkeeperProtocol, not from our schema."""
    header = b"\x08\x03" + b"\x10\x01" + b"\x18\x07"  # version 3, READ_ENTRY, txnId 7
    body = b"\x08\xac\x02" + b"\x10\x05"  # ledgerId 300, entryId 5
    frame = b"\x0a\x06" + header + b"\xa2\x06\x05" + body  # fields 1 and 100
    assert bookie.encode_read(7, 300, 5) == len(frame).to_bytes(4, "big") + frame


def test_a_poll_that_is_not_to_wait_has_no_timeout():
    header = b"\x08\x03" + b"\x10\x01" + b"\x18\x08"
    body = b"\x08\x2f" + b"\x10" + b"\xff" * 9 + b"\x01" + b"\x20\x02" + b"\xa0\x06\x02"
    frame = b"\x0a\x06" + header + b"\xa2\x06" + bytes([len(body)]) + body
    assert bookie.encode_long_poll(8, 47, 2, 0) == len(frame).to_bytes(4, "big") + frame


def test_a_long_poll_without_an_entry_asks_for_one_that_no_ledger_has():
    header = b"\x08\x03" + b"\x10\x01" + b"\x18\x08"
    body = b"\x08\x2f" + b"\x10" + b"\x80" * 8 + b"\x40" + b"\x20\x02" + b"\x28\xe8\x07"  # entryId 2 ** 62, no flag
    frame = b"\x0a\x06" + header + b"\xa2\x06" + bytes([len(body)]) + body
    assert bookie.encode_long_poll_lac(8, 47, 2, 1000) == len(frame).to_bytes(4, "big") + frame


def test_a_lac_request_is_what_the_protocol_says_to_the_byte():
    frame = b"\x0a\x06" + b"\x08\x03\x10\x07\x18\x09" + b"\xc2\x06\x02" + b"\x08\x2f"  # READ_LAC, field 104
    assert bookie.encode_read_lac(9, 47) == len(frame).to_bytes(4, "big") + frame


def test_a_request_for_tls_is_what_the_protocol_says_to_the_byte():
    frame = b"\x0a\x06" + b"\x08\x03\x10\x09\x18\x01" + b"\xd2\x06\x00"  # START_TLS, field 106, empty
    assert bookie.encode_start_tls(1) == len(frame).to_bytes(4, "big") + frame


@given(st.integers(0, 1 << 62), st.integers(-1, 1 << 62), st.integers(0, 1 << 31))
def test_no_request_of_ours_can_fence(ledger_id, entry_id, number):
    for frame in (
        bookie.encode_read(number, ledger_id, entry_id),
        bookie.encode_long_poll(number, ledger_id, entry_id, number),
    ):
        request = Request.FromString(frame[4:])
        assert request.read_request.flag in {0, 2}  # FENCE_LEDGER is 1
        assert b"\x1a" not in frame[5:7]


@pytest.mark.parametrize("entry_id", [0, 1, 2])
def test_the_reply_of_a_bookie_to_a_read(golden, entry_id):
    txn_id, reply = bookie.decode_reply(golden(f"bookie_read_{entry_id}"))
    assert (txn_id, reply.status, reply.ok, reply.max_lac) == (11 + entry_id, EOK, True, 2)
    assert int.from_bytes(reply.body[8:16], "big") == entry_id
    assert reply.lac_body == b""


def test_the_reply_to_a_read_lac_has_the_explicit_lac_and_the_last_entry(golden):
    txn_id, reply = bookie.decode_reply(golden("bookie_read_lac"))
    assert txn_id == 31
    assert int.from_bytes(reply.lac_body[8:16], "big") == 2
    assert int.from_bytes(reply.body[8:16], "big") == 2
    assert int.from_bytes(reply.body[16:24], "big") == 1, "the entry itself proves one less"


def test_a_long_poll_that_ended_by_its_time_has_no_body(golden):
    txn_id, reply = bookie.decode_reply(golden("bookie_long_poll_timeout"))
    assert (txn_id, reply.ok, reply.body, reply.max_lac) == (42, True, b"", 2)


def test_a_status_beside_the_body_counts_where_the_body_has_none():
    response = Response(status=ENOENTRY)
    response.header.txn_id = 5
    response.read_response.ledger_id = 1
    assert bookie.decode_reply(response.SerializeToString()) == (5, bookie.ReadReply(ENOENTRY))
    response.ClearField("read_response")
    assert bookie.decode_reply(response.SerializeToString()) == (5, bookie.ReadReply(ENOENTRY))


@given(st.binary(max_size=80))
def test_any_bytes_are_a_reply_or_the_named_error(frame):
    with contextlib.suppress(MalformedFrameError):
        txn_id, reply = bookie.decode_reply(frame)
        assert isinstance(txn_id, int)
        assert isinstance(reply.body, bytes)


@pytest.mark.parametrize("name", ["bookie_read_0", "bookie_read_lac", "bookie_long_poll_timeout"])
def test_a_reply_that_is_cut_off_is_the_named_error(golden, name):
    with pytest.raises(MalformedFrameError):
        bookie.decode_reply(golden(name)[:-1])
