"""Java's BitSet in messages: words of 64 bits, the lowest first, as signed numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_ACK_SET_WORDS = 1 << 14
"""Words of an ack set that count: those of 2^20 messages. A batch of more has above 6 MiB, and no default allows that."""

_WORD_BYTES = 8
_WORD_MASK = (1 << 64) - 1


def bits_of(words: Iterable[int]) -> int:
    """Return words as one number, in which bit i is the bit with index i."""
    packed = b"".join((word & _WORD_MASK).to_bytes(_WORD_BYTES, "little") for word in words)
    return int.from_bytes(packed, "little")


def ack_set_bits(ack_set: Sequence[int]) -> int:
    """Return the ack set of a message id, which a client may make of any length, as one number; longer ones are cut."""
    return bits_of(ack_set[:MAX_ACK_SET_WORDS])


def words_of(bits: int) -> list[int]:
    """Return a number as words; none for 0."""
    count = -(-bits.bit_length() // (8 * _WORD_BYTES))
    packed = bits.to_bytes(count * _WORD_BYTES, "little")
    return [
        int.from_bytes(packed[begin : begin + _WORD_BYTES], "little", signed=True)
        for begin in range(0, len(packed), _WORD_BYTES)
    ]
