"""Small records: compacted entries, schemas, and acks in transactions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.wire.bookie import decode_reply
from readonly_engine.wire.compacted import decode_compacted
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.message import decode_metadata
from readonly_engine.wire.pending_ack import TxnAckRecord, decode_txn_acks
from readonly_engine.wire.pending_ack_pb2 import AckedEntry, Batch, Operation, Record
from readonly_engine.wire.pulsar_pb2 import MessageIdData
from readonly_engine.wire.schema_pb2 import SchemaEntry, SchemaIndexEntry, SchemaInfo, SchemaLocator, SchemaPosition
from readonly_engine.wire.schemas import (
    SchemaPlace,
    StoredSchema,
    decode_schema,
    decode_schema_locator,
    decode_schema_version,
)


def compacted(ledger_id, entry_id, payload):
    where = MessageIdData(ledger_id=ledger_id, entry_id=entry_id, partition=-1).SerializeToString()
    return len(where).to_bytes(4, "big") + where + len(payload).to_bytes(4, "big") + payload


def test_an_entry_of_a_real_compacted_ledger(golden):
    body = decode_reply(golden("bookie_read_compacted"))[1].body
    digest_bytes = 8  # compacted ledgers have CRC32 digests
    (_, entry_id), payload = decode_compacted(body[32 + digest_bytes :])
    assert entry_id >= 0
    assert decode_metadata(payload).producer_name


@given(st.integers(0, 1 << 62), st.integers(0, 1 << 62), st.binary(max_size=100))
def test_what_was_written_is_read(ledger_id, entry_id, payload):
    assert decode_compacted(compacted(ledger_id, entry_id, payload)) == ((ledger_id, entry_id), payload)


@pytest.mark.parametrize("cut", range(15))
def test_an_entry_that_is_cut_off_is_the_named_error(cut):
    whole = compacted(3, 4, b"abc")
    with pytest.raises(MalformedFrameError):
        decode_compacted(whole[:cut])


def place(version, ledger_id):
    return SchemaIndexEntry(version=version, position=SchemaPosition(ledger_id=ledger_id, entry_id=0))


def test_every_version_once_and_the_newest_last():
    locator = SchemaLocator(info=place(2, 30), index=[place(0, 10), place(2, 30), place(1, 20)])
    assert decode_schema_locator(locator.SerializeToString()) == [
        SchemaPlace(0, 10, 0),
        SchemaPlace(1, 20, 0),
        SchemaPlace(2, 30, 0),
    ]


def test_a_schema():
    info = SchemaInfo(type=SchemaInfo.AVRO, schema=b"{}")
    assert decode_schema(SchemaEntry(schema_data=info.SerializeToString()).SerializeToString()) == StoredSchema(
        "AVRO", b"{}"
    )


def test_the_version_of_a_message():
    assert decode_schema_version((7).to_bytes(8, "big")) == 7
    with pytest.raises(MalformedFrameError, match="a schema version of 3 bytes"):
        decode_schema_version(b"abc")


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
