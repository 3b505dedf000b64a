"""The sticky key of a message for Key_Shared, and its hash (Commands.resolveStickyKey, Murmur3_32Hash)."""

from __future__ import annotations

import base64
import binascii
from functools import lru_cache
from typing import TYPE_CHECKING

from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.message import decode_metadata, without_entry_metadata

if TYPE_CHECKING:
    from readonly_engine.wire.message_pb2 import MessageMetadata

_MASK = 0xFFFFFFFF
_WORD = 4
NO_KEY = b"NONE_KEY"
"""The sticky key of an entry with neither a key nor a producer."""


def sticky_key(metadata: MessageMetadata) -> bytes:
    """Return the sticky key of an entry. A batch has one key, which a key-based batcher uses for all its messages."""
    if metadata.HasField("ordering_key"):
        return metadata.ordering_key
    if metadata.HasField("partition_key"):
        key: str | bytes = metadata.partition_key
        if metadata.partition_key_b64_encoded:
            try:
                return base64.b64decode(key, validate=True)
            except (binascii.Error, ValueError):
                return NO_KEY
        return key.encode() if isinstance(key, str) else key
    if metadata.HasField("producer_name") and metadata.HasField("sequence_id"):
        name: str | bytes = metadata.producer_name
        return (name.encode() if isinstance(name, str) else name) + b"-%d" % metadata.sequence_id
    return NO_KEY


def murmur3_32(data: bytes) -> int:
    """Return MurmurHash3 of 32 bits with seed 0."""
    whole = len(data) & -_WORD
    hash_ = 0
    for begin in range(0, whole, _WORD):
        hash_ ^= _mix(int.from_bytes(data[begin : begin + _WORD], "little"))
        hash_ = (hash_ << 13 | hash_ >> 19) & _MASK
        hash_ = (hash_ * 5 + 0xE6546B64) & _MASK
    hash_ ^= _mix(int.from_bytes(data[whole:], "little"))
    hash_ ^= len(data)
    hash_ = (hash_ ^ hash_ >> 16) * 0x85EBCA6B & _MASK
    hash_ = (hash_ ^ hash_ >> 13) * 0xC2B2AE35 & _MASK
    return hash_ ^ hash_ >> 16


@lru_cache(maxsize=1 << 16)
def key_hash(key: bytes) -> int:
    """Return Pulsar's hash of a key, 31 bits."""
    return murmur3_32(key) & 0x7FFFFFFF


def stored_hash(stored: bytes) -> int:
    """Return the hash of the key of a stored entry, 31 bits; that of NO_KEY if no Pulsar producer wrote the entry."""
    try:
        return key_hash(sticky_key(decode_metadata(without_entry_metadata(stored))))
    except MalformedFrameError:
        return key_hash(NO_KEY)


def _mix(word: int) -> int:
    word = word * 0xCC9E2D51 & _MASK
    word = (word << 15 | word >> 17) & _MASK
    return word * 0x1B873593 & _MASK
