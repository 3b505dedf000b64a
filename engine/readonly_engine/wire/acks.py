"""The most frequent ACK commands: ids of complete entries. They are decoded by hand, in C if the extension is built.

[int32 command size] 08 0a 52 [size] 08 [consumer id] 10 00, then for each entry 1a [size] 08 [ledger id] 10 [entry id]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from readonly_engine import native
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.framing import LENGTH_BYTES
from readonly_engine.wire.pulsar_pb2 import CommandAck
from readonly_engine.wire.varint import decode_varint, encode_varint

if TYPE_CHECKING:
    from collections.abc import Iterable

_ACK = b"\x08\x0a\x52"
_INDIVIDUAL = b"\x10\x00"
_REQUEST_ID = b"\x40"
_CONSUMER_ID, _LEDGER_ID, _ENTRY_ID, _MESSAGE_ID = 0x08, 0x08, 0x10, 0x1A
_ONE_BYTE = 0x80
_MAX_BYTES = 9
"""Limit of a number's bytes; one of ten bytes is negative, or not minimal."""


class PlainAck(NamedTuple):
    """An individual ack of complete entries, without a transaction or a receipt.

    Attributes:
        consumer_id: the consumer's id on its connection.
        entries: ledger and entry of each.
        ids: the same, encoded: the fields `message_id` of a CommandAck. The ids of several acks can be joined into one ack.
    """

    consumer_id: int
    entries: list[tuple[int, int]]
    ids: bytes


def encode_ack(consumer_id: int, ids: bytes, request_id: int) -> bytes:
    """Return an ACK of entries as a frame, with its length prefix.

    Args:
        consumer_id: the consumer's id on its connection.
        ids: fields `message_id` of a CommandAck.
        request_id: id of the request, for its response.
    """
    head = b"\x08" + encode_varint(consumer_id) + _INDIVIDUAL
    tail = _REQUEST_ID + encode_varint(request_id)
    start = _ACK + encode_varint(len(head) + len(ids) + len(tail))
    size = len(start) + len(head) + len(ids) + len(tail)
    sizes = (LENGTH_BYTES + size).to_bytes(LENGTH_BYTES, "big") + size.to_bytes(LENGTH_BYTES, "big")
    return b"".join((sizes, start, head, ids, tail))


def encode_ids(entries: Iterable[tuple[int, int]]) -> bytes:
    """Return fields `message_id` of a CommandAck for complete entries.

    Args:
        entries: ledger and entry of each.
    """
    ack = CommandAck()
    for ledger_id, entry_id in entries:
        ack.message_id.add(ledger_id=ledger_id, entry_id=entry_id)
    return ack.SerializePartialToString()


def split_ids(ids: bytes, most: int) -> list[bytes]:
    """Split fields `message_id` of a CommandAck into parts of complete fields.

    Args:
        ids: the fields.
        most: limit of a part, in bytes; a longer single field is not split.

    Raises:
        MalformedFrameError: not such fields.
    """
    parts, start, at = [], 0, 0
    while at < len(ids):
        if ids[at] != _MESSAGE_ID:
            raise MalformedFrameError("ACK: unexpected field among the message ids")
        size, begin = decode_varint(ids, at + 1)
        end = begin + size
        if end - start > most and at > start:
            parts.append(ids[start:at])
            start = at
        at = end
    parts.append(ids[start:])
    return parts


def split_ack(ack: CommandAck, most: int) -> list[CommandAck]:
    """Split an ack into several commands with the same effect.

    Args:
        ack: of any kind; a cumulative one has one entry, and is not split.
        most: limit of each, in bytes; one of a single entry may be longer.
    """
    if len(ack.message_id) <= 1 or ack.ack_type != CommandAck.Individual or ack.ByteSize() <= most:
        return [ack]
    parts = []
    for half in (ack.message_id[: len(ack.message_id) // 2], ack.message_id[len(ack.message_id) // 2 :]):
        part = CommandAck()
        part.CopyFrom(ack)
        del part.message_id[:]
        part.message_id.extend(half)
        parts += split_ack(part, most)
    return parts


_native = native.load("readonly_engine.wire._acks")


def decode_plain_ack(frame: bytes) -> PlainAck | None:
    """Decode a plain ack; return None for other acks, other commands and damaged frames."""
    if _native is None:
        return pure_decode_plain_ack(frame)
    ack: PlainAck | None = _native.decode_plain_ack(frame)
    return ack


def pure_decode_plain_ack(frame: bytes) -> PlainAck | None:
    """The same in Python."""
    if not frame.startswith(_ACK, LENGTH_BYTES):
        return None
    try:
        return _decode(frame)
    except (IndexError, MalformedFrameError):
        return None


def _decode(frame: bytes) -> PlainAck | None:
    end = len(frame)
    size, at = _number(frame, LENGTH_BYTES + len(_ACK))
    if at + size != end or int.from_bytes(frame[:LENGTH_BYTES], "big") + LENGTH_BYTES != end:
        return None
    if frame[at] != _CONSUMER_ID:
        return None
    consumer_id, at = _number(frame, at + 1)
    if not frame.startswith(_INDIVIDUAL, at):
        return None
    at = begin = at + len(_INDIVIDUAL)
    entries: list[tuple[int, int]] = []
    ledger_id, ledger = 0, b""  # encoded ledger id of the last entry: usually that of the next one, too
    while at < end:
        stop = at + 2 + frame[at + 1]
        if frame[at] != _MESSAGE_ID or stop > end:
            return None
        at += 2
        if not ledger or not frame.startswith(ledger, at):
            if frame[at] != _LEDGER_ID:
                return None
            ledger_id, behind = _number(frame, at + 1)
            if frame[behind] != _ENTRY_ID:
                return None
            ledger = frame[at : behind + 1]
        at += len(ledger)
        entry_id = frame[at]
        if entry_id < _ONE_BYTE:
            at += 1
        elif (second := frame[at + 1]) < _ONE_BYTE:
            entry_id += (second << 7) - _ONE_BYTE
            at += 2
        else:
            entry_id, at = _number(frame, at)
        if at != stop:
            return None
        entries.append((ledger_id, entry_id))
    return PlainAck(consumer_id, entries, frame[begin:]) if entries else None


def _number(frame: bytes, at: int) -> tuple[int, int]:
    number, end = decode_varint(frame, at)
    if end - at > _MAX_BYTES:
        raise MalformedFrameError("a number of ten bytes")
    return number, end
