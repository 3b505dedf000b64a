"""Protocol Buffers' varints, for the few places where a message object would be too slow."""

from __future__ import annotations

from readonly_engine.wire.errors import MalformedFrameError

_MASK_64 = (1 << 64) - 1
_MAX_SHIFT = 63

_ONE_BYTE = [bytes((number,)) for number in range(0x80)]


def encode_varint(number: int) -> bytes:
    """Encode a number as protobuf's int64 or uint64; a negative one takes ten bytes."""
    if 0 <= number <= 0x7F:
        return _ONE_BYTE[number]
    if 0 <= number <= 0x1FFFFF:  # usually ids of entries; unrolled, because one is encoded for each entry
        if number <= 0x3FFF:
            return bytes((number & 0x7F | 0x80, number >> 7))
        return bytes((number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80, number >> 14))
    number &= _MASK_64
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def decode_varint(data: bytes, start: int) -> tuple[int, int]:
    """Decode the unsigned number at `start`; return it and the offset after it.

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
