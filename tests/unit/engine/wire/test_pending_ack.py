import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.pending_ack import TxnAckRecord, decode_txn_acks
from readonly_engine.wire.pending_ack_pb2 import AckedEntry, Batch, Operation, Record

ACK = Record(
    operation=Operation.ACK,
    ack_type=0,
    txnid_most_bits=1,
    txnid_least_bits=2,
    acked=[
        AckedEntry(ledger_id=3, entry_id=4),
        AckedEntry(ledger_id=3, entry_id=5, unacked_words=[5, 1], batch_size=70),
    ],
)
COMMIT = Record(operation=Operation.COMMIT, ack_type=1, txnid_most_bits=1, txnid_least_bits=2)

RECORDS = [
    TxnAckRecord(Operation.ACK, (1, 2), cumulative=False, acked=(((3, 4), 0), ((3, 5), 5 | 1 << 64))),
    TxnAckRecord(Operation.COMMIT, (1, 2), cumulative=True),
]


def test_an_entry_with_a_batch_of_records():
    batch = b"\x0e\x01\x00\x01" + Batch(records=[ACK, COMMIT]).SerializeToString()
    assert decode_txn_acks(batch) == RECORDS


@pytest.mark.parametrize("payload", [b"\xff", b"\x0e\x01\x00\x01\xff"])
def test_what_is_no_such_entry_is_the_named_error(payload):
    with pytest.raises(MalformedFrameError):
        decode_txn_acks(payload)


@given(st.binary(max_size=80))
def test_any_bytes_are_records_or_the_named_error(payload):
    with contextlib.suppress(MalformedFrameError):
        decode_txn_acks(payload)
