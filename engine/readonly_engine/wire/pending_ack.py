"""Entries of an owner's pending ack log (MLPendingAckStore, TxnLogBufferedWriter, Pulsar 4.0.8).

An entry has one record, or with transactionPendingAckBatchedWriteEnabled: 0x0e01 | int16 version | a batch of records.
"""

from __future__ import annotations

from typing import NamedTuple

from google.protobuf.message import DecodeError

from readonly_engine.wire.bit_set import bits_of
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.pending_ack_pb2 import Batch, Operation, Record

_BATCH_MAGIC = b"\x0e\x01"
_BATCH_HEADER = 4
_CUMULATIVE = 1


class TxnAckRecord(NamedTuple):
    """One record of the log.

    Attributes:
        operation: ACK, COMMIT or ABORT.
        txn: the transaction, most and least bits.
        cumulative: whether the ack, or the committed or aborted one, is cumulative.
        acked: of an ACK: entries (ledger, entry), each with the bits of its unacked messages; 0 for all acked.
    """

    operation: Operation
    txn: tuple[int, int]
    cumulative: bool
    acked: tuple[tuple[tuple[int, int], int], ...] = ()


def decode_txn_acks(payload: bytes) -> list[TxnAckRecord]:
    """Decode the records of an entry.

    Raises:
        MalformedFrameError: not an entry of such a log.
    """
    try:
        if payload.startswith(_BATCH_MAGIC):
            records = list(Batch.FromString(payload[_BATCH_HEADER:]).records)
        else:
            records = [Record.FromString(payload)]
    except DecodeError as error:
        raise MalformedFrameError("an entry of a pending ack log without a record") from error
    return [
        TxnAckRecord(
            record.operation,
            (record.txnid_most_bits, record.txnid_least_bits),
            record.ack_type == _CUMULATIVE,
            tuple(((entry.ledger_id, entry.entry_id), bits_of(entry.unacked_words)) for entry in record.acked),
        )
        for record in records
    ]
