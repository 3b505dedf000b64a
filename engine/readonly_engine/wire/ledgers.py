"""Decode ZooKeeper's nodes of topics, ledgers and bookies.

Sources: LedgerMetadataSerDe and BookieServiceInfoSerde (BookKeeper 4.17), MetaStoreImpl (Pulsar 4.0.8).
"""

from __future__ import annotations

import re
import warnings
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from readonly_engine.wire.bookkeeper_pb2 import BookieServiceInfoFormat, LedgerMetadataFormat
from readonly_engine.wire.compression import decompress
from readonly_engine.wire.errors import MalformedFrameError, UnsupportedFormatError
from readonly_engine.wire.managed_ledger_pb2 import CompressedInfo, ManagedLedgerInfo
from readonly_engine.wire.varint import decode_varint

_LEDGER_PREAMBLE = b"BookieMetadataFormatVersion\t"
_COMPRESSED_MAGIC = b"\x47\x78"

MAX_NODE = 64 << 20
"""Limit of a znode's value once decompressed, in bytes; ZooKeeper itself accepts 1 MiB unless jute.maxbuffer is raised."""

MAX_SHARED: Final = 1024
"""Open ledgers of different metadata, of which others with the same share the object: they differ in their bookies only."""

_STATES = {LedgerMetadataFormat.IN_RECOVERY: "IN_RECOVERY", LedgerMetadataFormat.CLOSED: "CLOSED"}
_V1_IN_RECOVERY = -102
_TEXT_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|(?P<name>\b[a-z]\w*)')
_HUMP = re.compile("[A-Z]")


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    """One ledger: the bookies of its entries, and its end.

    Attributes:
        ensembles: (first entry id, bookie ids), ascending: from that entry on these bookies have the ledger.
        write_quorum: number of bookies for each entry.
        ack_quorum: number of bookies that must have an entry before the writer confirms it.
        closed: whether the ledger is final.
        last_entry_id: of a closed ledger, -1 if it is empty; of an open one, always -1.
        digest_type: LedgerMetadataFormat.DigestType.
        password: empty in Pulsar.
        state: OPEN, IN_RECOVERY or CLOSED.
        length: the sum of all payloads of a closed ledger, in bytes; 0 if unknown.
    """

    ensembles: tuple[tuple[int, tuple[str, ...]], ...]
    write_quorum: int
    ack_quorum: int
    closed: bool
    last_entry_id: int
    digest_type: int
    password: bytes = b""
    state: str = "OPEN"
    length: int = 0

    def ensemble_at(self, entry_id: int) -> tuple[str, ...]:
        """Return the ensemble of an entry."""
        index = bisect_right(self.ensembles, entry_id, key=lambda ensemble: ensemble[0])
        return self.ensembles[max(index - 1, 0)][1]

    def replicas_of(self, entry_id: int) -> tuple[str, ...]:
        """Return the bookies that have the entry, in RoundRobinDistributionSchedule's order."""
        ensemble = self.ensemble_at(entry_id)
        return tuple(ensemble[(entry_id + i) % len(ensemble)] for i in range(self.write_quorum))


def decode_ledger_metadata(value: bytes) -> LedgerMetadata:
    """Decode a ledger's znode, of any format version: 3 is BookKeeper's default since 4.10, older clusters have 1 and 2.

    Raises:
        MalformedFrameError: not ledger metadata.
        UnsupportedFormatError: a version that BookKeeper 4.17 does not have.
    """
    if not value.startswith(_LEDGER_PREAMBLE):
        raise MalformedFrameError("a ledger's znode does not start with its format version")
    version, _, rest = value[len(_LEDGER_PREAMBLE) :].partition(b"\n")
    if version == b"1":
        return _decode_version_1(rest)
    if version == b"2":
        return _ledger(_decode_version_2(rest))
    if version != b"3":
        raise UnsupportedFormatError(f"ledger metadata of format version {version!r}; versions 1 to 3 are understood")
    size, start = decode_varint(rest, 0)
    message = LedgerMetadataFormat()
    try:
        message.ParseFromString(rest[start : start + size])
    except DecodeError as error:
        raise MalformedFrameError("a ledger's znode holds damaged metadata") from error
    return _ledger(message)


def _ledger(message: LedgerMetadataFormat) -> LedgerMetadata:
    if not message.segment or not all(segment.ensemble_member for segment in message.segment):
        raise MalformedFrameError("a ledger's znode names no ensemble, or an empty one")
    # protobuf returns bytes for a text that is not UTF-8.
    if not all(isinstance(bookie, str) for segment in message.segment for bookie in segment.ensemble_member):
        raise MalformedFrameError("invalid bookie id in the metadata of a ledger: it is not UTF-8")
    _check_quorum(message.quorum_size, [len(segment.ensemble_member) for segment in message.segment])
    closed = message.state == LedgerMetadataFormat.CLOSED
    metadata = LedgerMetadata(
        ensembles=tuple((segment.first_entry_id, tuple(segment.ensemble_member)) for segment in message.segment),
        write_quorum=message.quorum_size,
        ack_quorum=message.ack_quorum_size or message.quorum_size,
        closed=closed,
        last_entry_id=message.last_entry_id if closed else -1,
        # Without a password no digest type is stored; Pulsar's default is CRC32C (managedLedgerDigestType).
        digest_type=message.digest_type or LedgerMetadataFormat.CRC32C,
        password=message.password,
        state=_STATES.get(message.state, "OPEN"),
        length=message.length if closed else 0,
    )
    return metadata if closed else _shared(metadata)


@lru_cache(MAX_SHARED)
def _shared(metadata: LedgerMetadata) -> LedgerMetadata:
    """Return the object that was decoded first of those that are equal."""
    return metadata


def _check_quorum(write_quorum: int, sizes: list[int]) -> None:
    if not 1 <= write_quorum <= min(sizes):
        raise MalformedFrameError(f"a ledger's znode has write quorum {write_quorum}, and ensembles of {min(sizes)}")


def _decode_version_2(rest: bytes) -> LedgerMetadataFormat:
    """Decode protobuf's text format, with the camelCase field names of BookKeeper's own schema."""
    message = LedgerMetadataFormat()
    try:
        text = _TEXT_TOKEN.sub(_snake_case, rest.decode())
        with warnings.catch_warnings():
            # A damaged escape in a string is an error of the data, not of this program.
            warnings.simplefilter("ignore", DeprecationWarning)
            text_format.Parse(text, message, allow_unknown_field=True)
    except (UnicodeDecodeError, text_format.ParseError, RecursionError) as error:
        raise MalformedFrameError("a ledger's znode of version 2 holds damaged metadata") from error
    return message


def _snake_case(token: re.Match[str]) -> str:
    if token["name"] is None:
        return token[0]
    return _HUMP.sub(lambda hump: f"_{hump[0].lower()}", token["name"])


def _decode_version_1(rest: bytes) -> LedgerMetadata:
    """Decode lines: write quorum, ensemble size, length; FIRST-ENTRY TAB BOOKIE TAB ...; at the end LAST-ENTRY TAB CLOSED."""
    ensembles: list[tuple[int, tuple[str, ...]]] = []
    state, last_entry_id = "OPEN", -1
    try:
        quorum, _, _, *lines = rest.decode().splitlines()
        write_quorum = int(quorum)
        for line in lines:
            number, *words = line.split("\t")
            if words == ["CLOSED"]:
                last_entry_id = int(number)
                state = "IN_RECOVERY" if last_entry_id == _V1_IN_RECOVERY else "CLOSED"
            elif line:
                ensembles.append((int(number), tuple(words)))
    except ValueError as error:
        raise MalformedFrameError("a ledger's znode of version 1 holds damaged metadata") from error
    if not ensembles or not all(bookies for _, bookies in ensembles):
        raise MalformedFrameError("a ledger's znode names no ensemble, or an empty one")
    _check_quorum(write_quorum, [len(bookies) for _, bookies in ensembles])
    closed = state == "CLOSED"
    return LedgerMetadata(
        ensembles=tuple(ensembles),
        write_quorum=write_quorum,
        ack_quorum=write_quorum,
        closed=closed,
        last_entry_id=last_entry_id if closed else -1,
        digest_type=LedgerMetadataFormat.CRC32C,
        state=state,
    )


def decode_managed_ledger(value: bytes) -> ManagedLedgerInfo:
    """Decode a topic's znode: its ledgers in order. An empty value is a topic that was just created.

    Raises:
        MalformedFrameError: not a managed ledger.
        UnsupportedFormatError: compressed by an unknown codec.
        FrameTooLargeError: compressed, and too large for a topic's list of ledgers.
    """
    try:
        return ManagedLedgerInfo.FromString(decompress_node(value))
    except DecodeError as error:
        raise MalformedFrameError("a topic's znode does not hold a managed ledger") from error


def decompress_node(value: bytes) -> bytes:
    """Return the value of a managed ledger's or a cursor's znode, decompressed if it is compressed (MetaStoreImpl).

    Raises:
        MalformedFrameError: damaged.
        UnsupportedFormatError: an unknown codec.
        FrameTooLargeError: larger than MAX_NODE once decompressed.
    """
    if not value.startswith(_COMPRESSED_MAGIC):
        return value
    start = 6 + int.from_bytes(value[2:6], "big")
    if len(value) < start:
        raise MalformedFrameError("a compressed znode that ends within its header")
    try:
        header = CompressedInfo.FromString(value[6:start])
    except DecodeError as error:
        raise MalformedFrameError("a compressed znode with a damaged header") from error
    return decompress(header.compression_type, value[start:], header.uncompressed_size, MAX_NODE)


def decode_bookie_address(value: bytes) -> tuple[str, int] | None:
    """Return host and port of a registered bookie for BookKeeper's protocol; None if its registration has none."""
    try:
        info = BookieServiceInfoFormat.FromString(value)
    except DecodeError as error:
        raise MalformedFrameError("a bookie's registration is damaged") from error
    for endpoint in info.endpoints:
        if endpoint.protocol == "bookie-rpc":
            return endpoint.host, endpoint.port
    return None
