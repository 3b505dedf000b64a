"""ACK and REDELIVER_UNACKNOWLEDGED_MESSAGES with very many ids: one frame has room for 870,000, which take seconds."""

from __future__ import annotations

from typing import Final

from google.protobuf.message import DecodeError

from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.framing import LENGTH_BYTES
from readonly_engine.wire.pulsar_pb2 import CommandAck, CommandRedeliverUnacknowledgedMessages
from readonly_engine.wire.varint import decode_varint, encode_varint

LONG_BYTES: Final = 32 << 10
"""Length of a frame that may be split. Stock clients send 1,000 ids at once by default, in at most 20 KB."""

PART_IDS: Final = 500
"""Ids of a part: some 3 ms of the event loop."""

PART_BYTES: Final = 16 << 10
"""Bytes of the ids of a part with ack sets."""

_ACK: Final = b"\x08\x0a\x52"
"""Type and tag of an ACK, as encoders write them; the other command is longer."""

_REDELIVER: Final = b"\x08\x14\xa2\x01"
_ID_TAGS: Final = {_ACK: 0x1A, _REDELIVER: 0x12}
_VARINT, _LENGTH_DELIMITED = 0, 2


def split_long(frame: bytes) -> list[bytes]:
    """Split a frame with many ids into frames that have the same effect one after the other.

    It reads no ids, so that it takes a small part of their time. The last frame has the request id, so that the client gets one
    receipt. A cumulative ack stays whole: an owner accepts one id.

    Args:
        frame: a frame of more than LONG_BYTES, without its length prefix.

    Returns:
        The frames, without length prefixes; none if it is another command, is malformed, or cannot be split.
    """
    start = next((one for one in _ID_TAGS if frame.startswith(one, LENGTH_BYTES)), None)
    if start is None:
        return []
    try:
        size, begin = decode_varint(frame, LENGTH_BYTES + len(start))
        if begin + size != len(frame):
            return []
        head, ids = _split_fields(frame, begin, _ID_TAGS[start])
        last = b""
        if start == _ACK:
            ack = CommandAck.FromString(head)
            if ack.ack_type != CommandAck.Individual or not ack.HasField("ack_type"):
                return []
            if ack.HasField("request_id"):
                last = CommandAck(request_id=ack.request_id).SerializePartialToString()
                ack.ClearField("request_id")
            head = ack.SerializePartialToString()
        else:
            CommandRedeliverUnacknowledgedMessages.FromString(head)
    except (MalformedFrameError, DecodeError, IndexError):
        return []
    if len(ids) < 2:
        return []
    return [_frame(start, head + part + (last if part is ids[-1] else b"")) for part in ids]


def _split_fields(frame: bytes, at: int, tag: int) -> tuple[bytes, list[bytes]]:
    """Return the encoded fields of a body without its ids, and the ids in parts.

    Raises:
        MalformedFrameError: a field of another kind.
        IndexError: it ends within a field.
    """
    others, parts = [], []
    end, begin, count = len(frame), at, 0
    while at < end:
        if frame[at] == tag:
            size, following = (frame[at + 1], at + 2) if frame[at + 1] < 0x80 else decode_varint(frame, at + 1)
            at = following + size
            count += 1
            if count == PART_IDS or at - begin >= PART_BYTES:
                parts.append(frame[begin:at])
                begin, count = at, 0
            continue
        if count:
            parts.append(frame[begin:at])
        begin = at
        kind, at = decode_varint(frame, at)
        if kind & 7 == _VARINT:
            _, at = decode_varint(frame, at)
        elif kind & 7 == _LENGTH_DELIMITED:
            size, at = decode_varint(frame, at)
            at += size
        else:
            raise MalformedFrameError(f"a field of wire type {kind & 7}")
        others.append(frame[begin:at])
        begin, count = at, 0
    if at != end:
        raise MalformedFrameError("a field beyond the end")
    if count:
        parts.append(frame[begin:at])
    return b"".join(others), parts


def _frame(start: bytes, body: bytes) -> bytes:
    command = start + encode_varint(len(body)) + body
    return len(command).to_bytes(LENGTH_BYTES, "big") + command
