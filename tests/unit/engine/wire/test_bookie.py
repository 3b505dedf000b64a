import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.wire import bookie
from readonly_engine.wire.bookkeeper_pb2 import ENOENTRY, EOK, Request, Response
from readonly_engine.wire.errors import MalformedFrameError


@pytest.mark.parametrize(
    ("made", "frame"),
    [
        (bookie.encode_read(7, 300, 5), "0a06 080310011807 a20605 08ac02 1005"),  # READ_ENTRY 300:5 in field 100
        (bookie.encode_long_poll(8, 47, 2, 0), "0a06 080310011808 a20612 082f 10ffffffffffffffffff01 2002 a00602"),
        # Without an entry: 2 ** 62, which no ledger has, and no flag.
        (bookie.encode_long_poll_lac(8, 47, 2, 1000), "0a06 080310011808 a20611 082f 10808080808080808040 2002 28e807"),
        (bookie.encode_read_lac(9, 47), "0a06 080310071809 c20602 082f"),  # READ_LAC, field 104
        (bookie.encode_start_tls(1), "0a06 080310091801 d20600"),  # START_TLS, field 106, empty
    ],
)
def test_a_request_is_what_the_protocol_says_to_the_byte(made, frame):
    """Taken from the field numbers of BookkeeperProtocol, not from our schema: a header of version 3, operation and txnId."""
    body = bytes.fromhex(frame)
    assert made == len(body).to_bytes(4, "big") + body


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


@pytest.mark.parametrize("name", ["bookie_read_0", "bookie_read_lac", "bookie_long_poll_timeout"])
def test_a_reply_that_is_cut_off_is_the_named_error(golden, name):
    with pytest.raises(MalformedFrameError):
        bookie.decode_reply(golden(name)[:-1])
