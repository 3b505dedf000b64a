"""Entries of compacted ledgers (RawMessageImpl, Pulsar 4.0.8): the original position, and the kept messages.

int32 size | MessageIdData | int32 size | checksum, metadata and payload: the original ones, or a batch in which superseded
messages are marked as compacted out; before them, if the owner exposed it to its compactor, its own metadata of the entry.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.pulsar_pb2 import MessageIdData

_SIZE_BYTES = 4


def decode_compacted(payload: bytes) -> tuple[tuple[int, int], bytes]:
    """Decode the entry's original position (ledger, entry), and its payload.

    Raises:
        MalformedFrameError: not an entry of a compacted ledger.
    """
    begin = _SIZE_BYTES + int.from_bytes(payload[:_SIZE_BYTES], "big", signed=True)
    start = begin + _SIZE_BYTES
    size = int.from_bytes(payload[begin:start], "big", signed=True)
    if begin < _SIZE_BYTES or len(payload) < start or size < 0 or len(payload) < start + size:
        raise MalformedFrameError("an entry of a compacted ledger that is cut off")
    try:
        where = MessageIdData.FromString(payload[_SIZE_BYTES:begin])
    except DecodeError as error:
        raise MalformedFrameError("an entry of a compacted ledger without its position in the topic") from error
    return (where.ledger_id, where.entry_id), payload[start : start + size]
