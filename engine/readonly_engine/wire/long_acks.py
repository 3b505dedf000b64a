"""ACK and REDELIVER_UNACKNOWLEDGED_MESSAGES with very many ids: one frame has room for 870,000, which take seconds."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final

from readonly_engine.wire.commands import body_of
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.framing import LENGTH_BYTES
from readonly_engine.wire.list_bounds import MAX_LIST_BYTES, decode_without_lists
from readonly_engine.wire.pulsar_pb2 import CommandAck
from readonly_engine.wire.varint import decode_varint, encode_varint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LONG_BYTES: Final = 32 << 10
"""Length of a frame that may be split. Stock clients send 1,000 ids at once by default, in at most 20 KB."""

PART_IDS: Final = 500
"""Ids of a part: some 3 ms of the event loop."""

PART_BYTES: Final = 16 << 10
"""Bytes of the ids of a part with ack sets."""

MAX_OTHERS: Final = 2000
"""Fields besides the ids, such as properties."""

_ACK: Final = b"\x08\x0a\x52"
"""Type and tag of an ACK, as encoders write them; the other command is longer."""

_REDELIVER: Final = b"\x08\x14\xa2\x01"
_ID_TAGS: Final = {_ACK: 0x1A, _REDELIVER: 0x12}
_LENGTH_DELIMITED: Final = 2


class _LongIdError(MalformedFrameError):
    """An id of more than MAX_LIST_BYTES."""


def split_long(frame: bytes) -> Iterator[bytes] | None:
    """Split a frame with many ids into frames that have the same effect one after the other.

    It decodes no ids, and reads those of a part when that part is asked for. The last frame has the request id, so that the
    client gets one receipt. A cumulative ack stays whole: an owner accepts one id.

    Args:
        frame: a frame of more than LONG_BYTES, without its length prefix.

    Returns:
        The frames, without length prefixes; None if it is another command, is malformed, or cannot be split. The bound of lists
        refuses one that begins with an id beyond it (list_bounds.py), with its request id.

    Raises:
        MalformedFrameError: more than MAX_OTHERS fields besides the ids; the iterator raises it too, and for a later id of more
            than MAX_LIST_BYTES.
    """
    start = next((one for one in _ID_TAGS if frame.startswith(one, LENGTH_BYTES)), None)
    if start is None:
        return None
    try:
        size, begin = decode_varint(frame, LENGTH_BYTES + len(start))
        if begin + size != len(frame):
            return None
        command = decode_without_lists(frame[LENGTH_BYTES:])
    except (MalformedFrameError, IndexError):
        return None
    body = body_of(command)
    last = b""
    if start == _ACK:
        if body.ack_type != CommandAck.Individual or not body.HasField("ack_type"):
            return None
        if body.HasField("request_id"):
            last = CommandAck(request_id=body.request_id).SerializePartialToString()
            body.ClearField("request_id")
    head = body.SerializePartialToString()
    parts = _ids_in_parts(frame, begin, _ID_TAGS[start])
    try:
        first, second = next(parts, None), next(parts, None)
    except _LongIdError:
        return None
    if first is None or second is None:
        return None
    return _frames(start, head, chain((first, second), parts), last)


def _frames(start: bytes, head: bytes, parts: Iterable[bytes], last: bytes) -> Iterator[bytes]:
    for part, following in pairwise(chain(parts, (None,))):
        if part is not None:
            yield _frame(start, head + part + (last if following is None else b""))


def _ids_in_parts(frame: bytes, at: int, tag: int) -> Iterator[bytes]:
    """Yield the encoded ids of a body in parts. Protobuf has read it, so that its fields end within it.

    Raises:
        MalformedFrameError: more than MAX_OTHERS other fields, or an id of more than MAX_LIST_BYTES.
    """
    end, begin, count, others = len(frame), at, 0, 0
    while at < end:
        if frame[at] == tag:
            size, following = (frame[at + 1], at + 2) if frame[at + 1] < 0x80 else decode_varint(frame, at + 1)
            if size > MAX_LIST_BYTES:
                raise _LongIdError(f"an ack set of {size:,} bytes; send at most {MAX_LIST_BYTES:,} bytes")
            at = following + size
            count += 1
            if count == PART_IDS or at - begin >= PART_BYTES:
                yield frame[begin:at]
                begin, count = at, 0
            continue
        if count:
            yield frame[begin:at]
        others += 1
        if others > MAX_OTHERS:
            raise MalformedFrameError(f"more than {MAX_OTHERS} fields besides the message ids")
        kind, at = decode_varint(frame, at)
        size, at = decode_varint(frame, at)
        if kind & 7 == _LENGTH_DELIMITED:
            at += size
        begin, count = at, 0
    if count:
        yield frame[begin:at]


def _frame(start: bytes, body: bytes) -> bytes:
    command = start + encode_varint(len(body)) + body
    return len(command).to_bytes(LENGTH_BYTES, "big") + command
