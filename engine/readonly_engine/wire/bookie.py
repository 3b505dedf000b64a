"""Requests to a bookie and its replies, in BookKeeper's v3 protocol (protobuf frames, matched by transaction id)."""

from __future__ import annotations

from typing import NamedTuple

from google.protobuf.message import DecodeError

from readonly_engine.wire.bookkeeper_pb2 import (
    EOK,
    READ_ENTRY,
    READ_LAC,
    START_TLS,
    OperationType,
    PacketHeader,
    ReadLacRequest,
    ReadRequest,
    Request,
    Response,
    StartTlsRequest,
)
from readonly_engine.wire.entry import LAST_ENTRY
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.framing import LENGTH_BYTES

_VERSION_THREE = 3

_NO_ENTRY = 2**62
"""The id of an entry that no ledger has."""


class ReadReply(NamedTuple):
    """A bookie's reply to a read, a long poll or a READ_LAC.

    Attributes:
        status: a StatusCode; EOK alone does not imply a body (a long poll without a new entry has none).
        body: the entry's bytes; for READ_LAC the last entry's.
        max_lac: the bookie's own LAC, not protected by a digest; -1 for none.
        lac_body: for READ_LAC: the explicit LAC's bytes, empty for none.
    """

    status: int
    body: bytes = b""
    max_lac: int = -1
    lac_body: bytes = b""

    @property
    def ok(self) -> bool:
        """Whether the status is EOK."""
        return self.status == EOK


def _frame(operation: OperationType, txn_id: int, **body: ReadRequest | ReadLacRequest | StartTlsRequest) -> bytes:
    header = PacketHeader(version=_VERSION_THREE, operation=operation, txn_id=txn_id)
    frame = Request(header=header, **body).SerializeToString()  # type: ignore[arg-type]
    return len(frame).to_bytes(LENGTH_BYTES, "big") + frame


def encode_read(txn_id: int, ledger_id: int, entry_id: int) -> bytes:
    """Read one entry. The bookie returns entries beyond the LAC too, so the caller checks the LAC."""
    return _frame(READ_ENTRY, txn_id, read_request=ReadRequest(ledger_id=ledger_id, entry_id=entry_id))


def encode_long_poll(txn_id: int, ledger_id: int, previous_lac: int, timeout_ms: int) -> bytes:
    """Wait on the bookie until its LAC is above `previous_lac`, then return it with entry previous_lac + 1 if the bookie has it.

    Closing the ledger does not end the wait (measured on DbLedgerStorage): watch the ledger's metadata as well.
    With a timeout of 0 the bookie does not wait at all.
    """
    request = ReadRequest(
        ledger_id=ledger_id,
        entry_id=LAST_ENTRY,
        previous_lac=previous_lac,
        time_out=timeout_ms or None,  # a timer of 0 ms would wait for a tick
        flag=ReadRequest.ENTRY_PIGGYBACK,
    )
    return _frame(READ_ENTRY, txn_id, read_request=request)


def encode_long_poll_lac(txn_id: int, ledger_id: int, previous_lac: int, timeout_ms: int) -> bytes:
    """Wait on the bookie until its LAC is above `previous_lac`, or until the timeout; the reply is ENOENTRY in both cases.

    This is a long poll for an entry that no ledger has, so the bookie reads nothing (LongPollReadEntryProcessorV3).
    """
    request = ReadRequest(ledger_id=ledger_id, entry_id=_NO_ENTRY, previous_lac=previous_lac, time_out=timeout_ms)
    return _frame(READ_ENTRY, txn_id, read_request=request)


def encode_read_lac(txn_id: int, ledger_id: int) -> bytes:
    """Read the explicit LAC and the bookie's last entry of a ledger."""
    return _frame(READ_LAC, txn_id, read_lac_request=ReadLacRequest(ledger_id=ledger_id))


def encode_start_tls(txn_id: int) -> bytes:
    """Request TLS on this connection, in clear; the handshake follows a reply of EOK (BookieRequestProcessor)."""
    return _frame(START_TLS, txn_id, start_tls_request=StartTlsRequest())


def decode_reply(frame: bytes) -> tuple[int, ReadReply]:
    """Decode a reply; return the transaction id of its request, and the reply.

    Raises:
        MalformedFrameError: not a v3 response.
    """
    response = Response()
    try:
        response.ParseFromString(frame)
    except DecodeError as error:
        raise MalformedFrameError("a bookie sent a frame that is not a v3 response") from error
    if response.HasField("read_response"):
        read = response.read_response
        lac = read.max_lac if read.HasField("max_lac") else -1
        return response.header.txn_id, ReadReply(read.status or response.status, read.body, lac)
    if response.HasField("read_lac_response"):
        answer = response.read_lac_response
        return response.header.txn_id, ReadReply(
            answer.status or response.status, answer.last_entry_body, lac_body=answer.lac_body
        )
    return response.header.txn_id, ReadReply(response.status)
