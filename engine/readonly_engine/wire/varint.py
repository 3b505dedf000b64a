"""Protocol Buffers' varints, for the few places where a whole message object would be too slow."""

from __future__ import annotations

from readonly_engine.wire.errors import MalformedFrameError

_MASK_64 = (1 << 64) - 1
_MAX_SHIFT = 63


def encode_varint(number: int) -> bytes:
    """A number as protobuf's int64 and uint64 put it on the wire; a negative one takes ten bytes."""
    number &= _MASK_64
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def decode_varint(data: bytes, start: int) -> tuple[int, int]:
    """The unsigned number at `start`, and where it ends.

    Raises:
        MalformedFrameError: the number does not end within the data or within ten bytes.
    """
    number = shift = 0
    position = start
    while position < len(data) and shift <= _MAX_SHIFT:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & _MASK_64, position
        shift += 7
    raise MalformedFrameError("a number that does not end")
