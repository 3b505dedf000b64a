"""Acks above an owner's limit are split."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.wire.acks import split_ack, split_ids
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.pulsar_pb2 import CommandAck

ENTRIES = st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)), min_size=1, max_size=40)


def ack_of(entries, **fields):
    ack = CommandAck(consumer_id=3, ack_type=CommandAck.Individual, **fields)
    for ledger_id, entry_id in entries:
        ack.message_id.add(ledger_id=ledger_id, entry_id=entry_id)
    return ack


def ids_of(entries):
    ack = CommandAck()
    for ledger_id, entry_id in entries:
        ack.message_id.add(ledger_id=ledger_id, entry_id=entry_id)
    return ack.SerializeToString()


@given(ENTRIES, st.integers(1, 200))
def test_the_parts_of_encoded_ids_are_the_ids_and_none_is_too_long(entries, most):
    ids = ids_of(entries)
    parts = split_ids(ids, most)
    assert b"".join(parts) == ids
    for part in parts:
        alone = len(CommandAck.FromString(part).message_id) == 1
        assert alone or len(part) <= most


@given(ENTRIES, st.integers(1, 200))
def test_the_parts_of_an_ack_ack_the_same_and_none_is_too_long(entries, most):
    ack = ack_of(entries, request_id=7, txnid_least_bits=1, txnid_most_bits=2)
    parts = split_ack(ack, most)
    assert [(m.ledger_id, m.entry_id) for part in parts for m in part.message_id] == entries
    for part in parts:
        assert (part.consumer_id, part.request_id, part.txnid_least_bits, part.txnid_most_bits) == (3, 7, 1, 2)
        assert len(part.message_id) == 1 or part.ByteSize() <= most


def test_what_is_no_list_of_ids_is_an_error():
    with pytest.raises(MalformedFrameError):
        split_ids(b"\x08\x01", 1)


def test_a_cumulative_ack_stays_whole():
    ack = ack_of([(1, 1), (1, 2)])
    ack.ack_type = CommandAck.Cumulative
    assert split_ack(ack, 1) == [ack]
