"""Java's BitSet in messages: words of 64 bits, the lowest first, as signed numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_WORD_BYTES = 8
_WORD_MASK = (1 << 64) - 1


def bits_of(words: Iterable[int]) -> int:
    """Return words as one number, in which bit i is the bit with index i."""
    packed = b"".join((word & _WORD_MASK).to_bytes(_WORD_BYTES, "little") for word in words)
    return int.from_bytes(packed, "little")


def words_of(bits: int) -> list[int]:
    """Return a number as words; none for 0."""
    count = -(-bits.bit_length() // (8 * _WORD_BYTES))
    packed = bits.to_bytes(count * _WORD_BYTES, "little")
    return [
        int.from_bytes(packed[begin : begin + _WORD_BYTES], "little", signed=True)
        for begin in range(0, len(packed), _WORD_BYTES)
    ]
