"""Digests of entries (DigestManager and its subclasses, BookKeeper 4.17)."""

from __future__ import annotations

import hashlib
import hmac
import zlib
from typing import TYPE_CHECKING, Final

import google_crc32c

from readonly_engine.wire.bookkeeper_pb2 import LedgerMetadataFormat
from readonly_engine.wire.errors import UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Callable

_Type = LedgerMetadataFormat


class Digest:
    """The digest algorithm of one ledger.

    Attributes:
        size: bytes of the digest in an entry.
        compute: from the covered header and the payload to the digest's bytes.
        crc32c: whether it is CRC-32C, for which there is an implementation in C.
    """

    __slots__ = ("compute", "crc32c", "size")

    def __init__(self, size: int, compute: Callable[[bytes, bytes], bytes]) -> None:
        self.size = size
        self.compute = compute
        self.crc32c = compute is _crc32c


def _crc32c(header: bytes, payload: bytes) -> bytes:
    checksum: int = google_crc32c.extend(google_crc32c.value(header), payload)
    return checksum.to_bytes(4, "big")


def _crc32(header: bytes, payload: bytes) -> bytes:
    return zlib.crc32(payload, zlib.crc32(header)).to_bytes(8, "big")


_SHARED: Final[dict[int, Digest]] = {
    _Type.CRC32C: Digest(4, _crc32c),
    _Type.CRC32: Digest(8, _crc32),
    _Type.DUMMY: Digest(0, lambda _header, _payload: b""),
}
"""Those that need no key; a broker has tens of thousands of open ledgers."""


def digest_for(digest_type: int, password: bytes = b"") -> Digest:
    """Return the digest for a DigestType in ledger metadata.

    Args:
        digest_type: LedgerMetadataFormat.DigestType; Pulsar's default for topics is CRC32C, for compacted ledgers CRC32.
        password: the ledger's password, needed for HMAC only; Pulsar's is empty (ManagedLedgerConfig).

    Raises:
        UnsupportedFormatError: a digest type that BookKeeper 4.17 does not have.
    """
    if (shared := _SHARED.get(digest_type)) is not None:
        return shared
    if digest_type == _Type.HMAC:
        key = hashlib.sha1(b"mac" + password, usedforsecurity=False).digest()
        return Digest(20, lambda header, payload: hmac.digest(key, header + payload, "sha1"))
    raise UnsupportedFormatError(
        f"ledger metadata names digest type {digest_type}; known are CRC32, HMAC, CRC32C and DUMMY"
    )
