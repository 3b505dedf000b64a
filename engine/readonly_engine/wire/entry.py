"""Stored entries of bookies, and the body of an explicit LAC (DigestManager, BookKeeper 4.17).

    entry:  ledgerId i64 | entryId i64 | lastAddConfirmed i64 | length i64 | digest | payload
    LAC:    ledgerId i64 | lac i64 | digest

The digest covers the header before it and the payload after it. `lastAddConfirmed` is the writer's LAC when it sent the entry,
so entry N carries at most N-1. `length` is the sum of all payloads of the ledger up to and including this one.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from readonly_engine import native
from readonly_engine.wire.errors import DigestMismatchError

if TYPE_CHECKING:
    from readonly_engine.wire.digest import Digest

_HEADER = struct.Struct(">qqqq")
_LAC = struct.Struct(">qq")

LAST_ENTRY = -1
"""As the entry id of a read: the bookie's last entry."""


class Entry(NamedTuple):
    """One verified entry of a ledger."""

    ledger_id: int
    entry_id: int
    last_add_confirmed: int
    length: int
    payload: bytes


_native = native.load("readonly_engine.wire._entries")


def decode_entry(body: bytes, digest: Digest, ledger_id: int, entry_id: int = LAST_ENTRY) -> Entry:
    """Verify and decode an entry from a bookie's reply.

    Args:
        body: the entry's bytes.
        digest: the ledger's digest.
        ledger_id: the requested ledger.
        entry_id: the requested entry, or LAST_ENTRY for the bookie's last one.

    Raises:
        DigestMismatchError: too short, damaged, or not the requested entry.
    """
    if _native is not None and digest.crc32c and entry_id != LAST_ENTRY:
        entry: Entry | None = _native.decode_entry(body, ledger_id, entry_id)
        if entry is not None:
            return entry
    return pure_decode_entry(body, digest, ledger_id, entry_id)


def pure_decode_entry(body: bytes, digest: Digest, ledger_id: int, entry_id: int = LAST_ENTRY) -> Entry:
    """The same in Python."""
    start = _HEADER.size + digest.size
    if len(body) < start:
        raise DigestMismatchError(f"entry {ledger_id}:{entry_id} has {len(body)} bytes, its header alone has {start}")
    payload = body[start:]
    if digest.compute(body[: _HEADER.size], payload) != body[_HEADER.size : start]:
        raise DigestMismatchError(f"the digest of entry {ledger_id}:{entry_id} does not match its bytes")
    found_ledger, found_entry, lac, length = _HEADER.unpack_from(body)
    if found_ledger != ledger_id or entry_id not in (LAST_ENTRY, found_entry):
        raise DigestMismatchError(f"asked for entry {ledger_id}:{entry_id}, got {found_ledger}:{found_entry}")
    return Entry(found_ledger, found_entry, lac, length, payload)


def decode_lac(body: bytes, digest: Digest, ledger_id: int) -> int:
    """Verify and decode the body of an explicit LAC.

    Raises:
        DigestMismatchError: too short, damaged, or of another ledger.
    """
    if len(body) != _LAC.size + digest.size or digest.compute(body[: _LAC.size], b"") != body[_LAC.size :]:
        raise DigestMismatchError(f"the explicit LAC of ledger {ledger_id} does not match its digest")
    found_ledger, lac = _LAC.unpack_from(body)
    if found_ledger != ledger_id:
        raise DigestMismatchError(f"asked for the LAC of ledger {ledger_id}, got that of {found_ledger}")
    return int(lac)
