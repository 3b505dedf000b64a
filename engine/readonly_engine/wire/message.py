"""The payload of an entry of a topic, as far as a broker parses it (Commands.java, Pulsar 4.0.8).

[0x0e02 | int32 size | BrokerEntryMetadata]      if the cluster adds it
[0x0e01 | uint32 CRC-32C of all that follows]    normally
int32 metadata size | MessageMetadata | payload
"""

from __future__ import annotations

from typing import NamedTuple

from google.protobuf.message import DecodeError

from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.message_pb2 import BrokerEntryMetadata, MarkerType, MessageMetadata

_BROKER_METADATA_MAGIC = b"\x0e\x02"
_CHECKSUM_MAGIC = b"\x0e\x01"
_CHECKSUM_BYTES = 6
_SIZE_BYTES = 4

_REQUIRED = ("producer_name", "sequence_id", "publish_time")
"""Required fields of MessageMetadata (PulsarApi.proto)."""


class StoredMessage(NamedTuple):
    """A parsed entry, for the dispatchers.

    Attributes:
        payload: the bytes for a MESSAGE frame without the broker's own metadata: from the checksum on.
        messages: number of its messages, which is its cost in permits.
        marker: whether it is a marker (of transactions or of replicated subscriptions), hidden from consumers.
        deliver_at: earliest delivery on a Shared subscription, in ms since the epoch; 0 for no delay.
        txn: the transaction of the message, or that the marker ends: most and least bits; None for none.
        aborts: whether it is the marker of an aborted transaction.
        chunk: for a part of a large message: the message's id, the part's index, and the number of parts; else None.
    """

    payload: bytes
    messages: int
    marker: bool
    deliver_at: int = 0
    txn: tuple[int, int] | None = None
    aborts: bool = False
    chunk: tuple[str, int, int] | None = None

    @property
    def in_transaction(self) -> bool:
        """Whether it was published in a transaction, which may be open or aborted."""
        return self.txn is not None and not self.marker


def decode_metadata(payload: bytes, at: int = 0) -> MessageMetadata:
    """Decode the metadata in a payload.

    Args:
        payload: the bytes.
        at: where the checksum is, or the metadata's size.

    Raises:
        MalformedFrameError: no metadata there.
    """
    start = at + (_CHECKSUM_BYTES if payload.startswith(_CHECKSUM_MAGIC, at) else 0)
    begin = start + _SIZE_BYTES
    end = begin + int.from_bytes(payload[start:begin], "big")
    if end > len(payload):
        raise MalformedFrameError("message metadata that is longer than the entry")
    try:
        return MessageMetadata.FromString(payload[begin:end])
    except DecodeError as error:
        raise MalformedFrameError("an entry that holds no message metadata") from error


def publish_time(stored: bytes) -> int:
    """Return the time of an entry in ms since the epoch: of the owner's write if the cluster stores it, else of the producer.

    The body is neither copied nor checked, so its size does not matter.

    Args:
        stored: the entry's payload.

    Raises:
        MalformedFrameError: not an entry that a Pulsar broker wrote.
    """
    by_owner, at = _entry_metadata(stored)
    if by_owner is not None and by_owner.broker_timestamp:
        return by_owner.broker_timestamp
    return decode_metadata(stored, at).publish_time


def indexes(stored: bytes) -> tuple[int, int] | None:
    """Return the numbers of an entry's first and last message in its topic; None if the cluster does not store them.

    The body is neither copied nor checked, so its size does not matter.

    Args:
        stored: the entry's payload.

    Raises:
        MalformedFrameError: not an entry that a Pulsar broker wrote.
    """
    by_owner, at = _entry_metadata(stored)
    if by_owner is None or not by_owner.HasField("index"):
        return None
    return by_owner.index - decode_metadata(stored, at).num_messages_in_batch + 1, by_owner.index


def _entry_metadata(stored: bytes) -> tuple[BrokerEntryMetadata | None, int]:
    """Return the broker's own metadata, None if there is none, and where the checksum is, or the message's metadata's size."""
    if not stored.startswith(_BROKER_METADATA_MAGIC):
        return None, 0
    begin = len(_BROKER_METADATA_MAGIC) + _SIZE_BYTES
    at = begin + int.from_bytes(stored[len(_BROKER_METADATA_MAGIC) : begin], "big")
    try:
        return BrokerEntryMetadata.FromString(stored[begin:at]), at
    except DecodeError as error:
        raise MalformedFrameError("an entry whose broker metadata is damaged") from error


def without_entry_metadata(payload: bytes) -> bytes:
    """Return an entry's payload without the broker's own metadata, for clients that do not take it."""
    if not payload.startswith(_BROKER_METADATA_MAGIC):
        return payload
    skip = len(_BROKER_METADATA_MAGIC) + _SIZE_BYTES
    return payload[skip + int.from_bytes(payload[len(_BROKER_METADATA_MAGIC) : skip], "big") :]


def decode_stored(payload: bytes) -> StoredMessage:
    """Parse an entry's payload.

    Raises:
        MalformedFrameError: not an entry that a Pulsar broker wrote.
    """
    payload = without_entry_metadata(payload)
    metadata = decode_metadata(payload)
    # A value other than zero is present; only the first sequence id of a producer is zero.
    there = metadata.publish_time and metadata.producer_name and metadata.HasField("sequence_id")
    if not there and not all(map(metadata.HasField, _REQUIRED)):
        raise MalformedFrameError("message metadata without its required fields")
    marker = metadata.HasField("marker_type")
    return StoredMessage(
        payload,
        metadata.num_messages_in_batch,
        marker,
        metadata.deliver_at_time,
        _txn(metadata) if metadata.HasField("txnid_most_bits") else None,
        marker and metadata.marker_type == MarkerType.TXN_ABORT,
        _chunk(metadata) if metadata.HasField("uuid") else None,
    )


def parse_stored(payload: bytes) -> StoredMessage:
    """Parse the payload of any entry; one that no Pulsar producer wrote is hidden from consumers.

    The owner's dispatcher skips it, too (AbstractBaseDispatcher).
    """
    try:
        return decode_stored(payload)
    except MalformedFrameError:
        return StoredMessage(payload, 1, marker=True)


def _txn(metadata: MessageMetadata) -> tuple[int, int] | None:
    if metadata.HasField("txnid_least_bits"):
        return metadata.txnid_most_bits, metadata.txnid_least_bits
    return None


def _chunk(metadata: MessageMetadata) -> tuple[str, int, int] | None:
    if metadata.HasField("chunk_id") and metadata.HasField("num_chunks_from_msg"):
        return str(metadata.uuid), metadata.chunk_id, metadata.num_chunks_from_msg
    return None
