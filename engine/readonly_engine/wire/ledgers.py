"""What ZooKeeper holds of topics, ledgers and bookies, taken apart.

Sources: LedgerMetadataSerDe and BookieServiceInfoSerde (BookKeeper 4.17), MetaStoreImpl (Pulsar 4.0.8).
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from readonly_engine.wire.bookkeeper_pb2 import BookieServiceInfoFormat, LedgerMetadataFormat
from readonly_engine.wire.errors import MalformedFrameError, UnsupportedFormatError
from readonly_engine.wire.managed_ledger_pb2 import CompressedInfo, ManagedLedgerInfo
from readonly_engine.wire.message_pb2 import NONE, ZLIB, CompressionType
from readonly_engine.wire.varint import decode_varint

_LEDGER_PREAMBLE = b"BookieMetadataFormatVersion\t"
_COMPRESSED_MAGIC = b"\x47\x78"


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    """One ledger: where its entries are and how far it goes.

    Attributes:
        ensembles: (first entry id, bookie ids), ascending: from that entry on these bookies hold the ledger.
        write_quorum: on how many of them each entry is.
        ack_quorum: how many of them must have it before the writer calls it confirmed.
        closed: whether nothing will be added any more.
        last_entry_id: of a closed ledger, -1 where it is empty; of an open one, always -1.
        digest_type: LedgerMetadataFormat.DigestType.
        password: empty in Pulsar.
    """

    ensembles: tuple[tuple[int, tuple[str, ...]], ...]
    write_quorum: int
    ack_quorum: int
    closed: bool
    last_entry_id: int
    digest_type: int
    password: bytes = b""

    def ensemble_at(self, entry_id: int) -> tuple[str, ...]:
        """The bookies over which the entry's replicas are spread."""
        index = bisect_right(self.ensembles, entry_id, key=lambda ensemble: ensemble[0])
        return self.ensembles[max(index - 1, 0)][1]

    def replicas_of(self, entry_id: int) -> tuple[str, ...]:
        """The bookies that hold the entry, in RoundRobinDistributionSchedule's order."""
        ensemble = self.ensemble_at(entry_id)
        return tuple(ensemble[(entry_id + i) % len(ensemble)] for i in range(self.write_quorum))


def decode_ledger_metadata(value: bytes) -> LedgerMetadata:
    """A ledger's znode, in version 3 of the format (BookKeeper's default since 4.10).

    Raises:
        MalformedFrameError: not ledger metadata.
        UnsupportedFormatError: version 1 or 2 of the format.
    """
    if not value.startswith(_LEDGER_PREAMBLE):
        raise MalformedFrameError("a ledger's znode does not start with its format version")
    version, _, rest = value[len(_LEDGER_PREAMBLE) :].partition(b"\n")
    if version != b"3":
        raise UnsupportedFormatError(f"ledger metadata of format version {version!r}; version 3 is understood")
    size, start = decode_varint(rest, 0)
    message = LedgerMetadataFormat()
    try:
        message.ParseFromString(rest[start : start + size])
    except DecodeError as error:
        raise MalformedFrameError("a ledger's znode holds damaged metadata") from error
    if not message.segment or not all(segment.ensemble_member for segment in message.segment):
        raise MalformedFrameError("a ledger's znode names no ensemble, or an empty one")
    # protobuf hands out a text that is not UTF-8 as bytes.
    if not all(isinstance(bookie, str) for segment in message.segment for bookie in segment.ensemble_member):
        raise MalformedFrameError("a ledger's znode names a bookie that is no text")
    closed = message.state == LedgerMetadataFormat.CLOSED
    return LedgerMetadata(
        ensembles=tuple((segment.first_entry_id, tuple(segment.ensemble_member)) for segment in message.segment),
        write_quorum=message.quorum_size,
        ack_quorum=message.ack_quorum_size or message.quorum_size,
        closed=closed,
        last_entry_id=message.last_entry_id if closed else -1,
        # Without a password no digest type is stored; Pulsar's default is CRC32C (managedLedgerDigestType).
        digest_type=message.digest_type or LedgerMetadataFormat.CRC32C,
        password=message.password,
    )


def decode_managed_ledger(value: bytes) -> ManagedLedgerInfo:
    """A topic's znode: its ledgers in order. An empty value is a topic that was just created.

    Raises:
        MalformedFrameError: not a managed ledger.
        UnsupportedFormatError: compressed by a codec other than ZLIB.
    """
    if value.startswith(_COMPRESSED_MAGIC):
        value = _decompress(value)
    try:
        return ManagedLedgerInfo.FromString(value)
    except DecodeError as error:
        raise MalformedFrameError("a topic's znode does not hold a managed ledger") from error


def _decompress(value: bytes) -> bytes:
    start = 6 + int.from_bytes(value[2:6], "big")
    if len(value) < start:
        raise MalformedFrameError("a topic's znode says that it is compressed, and ends before it says how")
    try:
        header = CompressedInfo.FromString(value[6:start])
        if header.compression_type == NONE:
            return value[start:]
        if header.compression_type == ZLIB:
            return zlib.decompress(value[start:])
    except (DecodeError, zlib.error) as error:
        raise MalformedFrameError("a topic's znode cannot be decompressed") from error
    known = dict(zip(CompressionType.values(), CompressionType.keys(), strict=True))
    name = known.get(header.compression_type, header.compression_type)
    raise UnsupportedFormatError(f"a topic's znode is compressed with {name}; NONE and ZLIB are understood")


def decode_bookie_address(value: bytes) -> tuple[str, int] | None:
    """Where a registered bookie listens for BookKeeper's protocol; None where its registration does not say."""
    try:
        info = BookieServiceInfoFormat.FromString(value)
    except DecodeError as error:
        raise MalformedFrameError("a bookie's registration is damaged") from error
    for endpoint in info.endpoints:
        if endpoint.protocol == "bookie-rpc":
            return endpoint.host, endpoint.port
    return None
