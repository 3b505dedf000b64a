"""The messages in an entry of a topic: checksum verified, decompressed, batches unpacked (Commands.java, Pulsar 4.0.8).

A batch is, once decompressed: { int32 size | SingleMessageMetadata | payload of payload_size bytes } for each message.
A chunk is a part of one compressed message: chunks.py decompresses it once all parts are there.
Encrypted messages stay encrypted: only consumers have the keys, and a batch is compressed before its encryption.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING

import google_crc32c
from google.protobuf.message import DecodeError

from readonly_engine.wire.compression import MAX_UNCOMPRESSED, decompress
from readonly_engine.wire.errors import DigestMismatchError, MalformedFrameError
from readonly_engine.wire.message import decode_metadata
from readonly_engine.wire.message_pb2 import BrokerEntryMetadata, MarkerType, SingleMessageMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from readonly_engine.wire.message_pb2 import KeyValue, MessageMetadata

_BROKER_METADATA_MAGIC = b"\x0e\x02"
_CHECKSUM_MAGIC = b"\x0e\x01"
_CHECKSUM_END = 6
_SIZE_BYTES = 4
NOT_IN_BATCH = -1


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a producer.

    Attributes:
        value: its bytes; None for a null value (a deletion, for compaction).
        batch_index: its index in its batch, NOT_IN_BATCH outside of one.
        key: of partitioning and compaction, None for none.
        ordering_key: of Key_Shared, if different from the key; None for none.
        properties: in the producer's order.
        event_time: ms since the epoch, 0 for none.
        sequence_id: the producer's number.
    """

    value: bytes | None
    batch_index: int = NOT_IN_BATCH
    key: bytes | None = None
    ordering_key: bytes | None = None
    properties: tuple[tuple[str, str], ...] = ()
    event_time: int = 0
    sequence_id: int = 0


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """The parts of one entry of a topic.

    Attributes:
        metadata: the producer's metadata.
        body: the stored bytes after the metadata.
        broker_timestamp: time of the owner's write, ms since the epoch; 0 if the cluster does not store it.
        index: the number of its last message in the topic, -1 if the cluster does not store it.
    """

    metadata: MessageMetadata
    body: bytes
    broker_timestamp: int = 0
    index: int = -1

    @property
    def marker(self) -> str | None:
        """The kind of marker, of transactions or replicated subscriptions; None for messages."""
        if not self.metadata.HasField("marker_type"):
            return None
        known = dict(zip(MarkerType.values(), MarkerType.keys(), strict=True))
        return known.get(self.metadata.marker_type, f"MARKER_{self.metadata.marker_type}")

    @property
    def encrypted(self) -> bool:
        """Whether it can be read only with the producer's key."""
        return bool(self.metadata.encryption_keys)

    @property
    def chunk(self) -> bool:
        """Whether this is a part of a larger message."""
        return self.metadata.num_chunks_from_msg > 1

    @property
    def batched(self) -> bool:
        """Whether it is a batch, possibly of one message."""
        return self.metadata.HasField("num_messages_in_batch")


def decode_stored_entry(payload: bytes) -> StoredEntry:
    """Decode an entry's payload.

    Raises:
        MalformedFrameError: not an entry that a Pulsar broker wrote.
        DigestMismatchError: the producer's checksum does not match.
    """
    broker = BrokerEntryMetadata()
    try:
        if payload.startswith(_BROKER_METADATA_MAGIC):
            begin = len(_BROKER_METADATA_MAGIC) + _SIZE_BYTES
            end = begin + int.from_bytes(payload[len(_BROKER_METADATA_MAGIC) : begin], "big")
            broker.ParseFromString(payload[begin:end])
            payload = payload[end:]
    except DecodeError as error:
        raise MalformedFrameError("an entry whose broker metadata is damaged") from error
    metadata = decode_metadata(payload)
    start = 0
    if payload.startswith(_CHECKSUM_MAGIC):
        start = _CHECKSUM_END
        stored = int.from_bytes(payload[len(_CHECKSUM_MAGIC) : start], "big")
        if google_crc32c.value(payload[start:]) != stored:
            raise DigestMismatchError("the producer's checksum does not match the message")
    size = int.from_bytes(payload[start : start + _SIZE_BYTES], "big")
    return StoredEntry(
        metadata,
        payload[start + _SIZE_BYTES + size :],
        broker_timestamp=broker.broker_timestamp,
        index=broker.index if broker.HasField("index") else -1,
    )


def unpack(entry: StoredEntry, limit: int = MAX_UNCOMPRESSED) -> list[Message]:
    """Return the messages of an entry that is neither encrypted, nor a marker, nor a chunk.

    Messages that compaction has removed from a batch are left out.

    Raises:
        MalformedFrameError: the body is damaged.
        FrameTooLargeError: its uncompressed size is above the limit.
        UnsupportedFormatError: compressed by an unknown codec.
    """
    metadata = entry.metadata
    body = decompress(metadata.compression, entry.body, metadata.uncompressed_size, limit)
    if entry.batched:
        return list(_unpack_batch(body, metadata.num_messages_in_batch, metadata.sequence_id))
    return [single_message(metadata, body)]


def single_message(metadata: MessageMetadata, value: bytes) -> Message:
    """Return the message of an entry outside of a batch, or of joined chunks.

    Raises:
        MalformedFrameError: its key is marked as base64 and is not.
    """
    return Message(
        value=None if metadata.null_value else value,
        key=_key(metadata),
        ordering_key=metadata.ordering_key if metadata.HasField("ordering_key") else None,
        properties=_properties(metadata.properties),
        event_time=metadata.event_time,
        sequence_id=metadata.sequence_id,
    )


def _unpack_batch(body: bytes, count: int, first_sequence_id: int) -> Iterator[Message]:
    position = 0
    for index in range(count):
        begin = position + _SIZE_BYTES
        end = begin + int.from_bytes(body[position:begin], "big")
        if end > len(body) or begin > len(body):
            raise MalformedFrameError(f"a batch of {count} messages that ends in message {index}")
        try:
            single = SingleMessageMetadata.FromString(body[begin:end])
        except DecodeError as error:
            raise MalformedFrameError(f"a batch whose message {index} has damaged metadata") from error
        position = end + single.payload_size
        if single.payload_size < 0 or position > len(body):
            raise MalformedFrameError(f"a batch of {count} messages that ends in message {index}")
        if single.compacted_out:
            continue
        yield Message(
            value=None if single.null_value else body[end:position],
            batch_index=index,
            key=_key(single),
            ordering_key=single.ordering_key if single.HasField("ordering_key") else None,
            properties=_properties(single.properties),
            event_time=single.event_time,
            sequence_id=single.sequence_id if single.HasField("sequence_id") else first_sequence_id + index,
        )


def _key(metadata: MessageMetadata | SingleMessageMetadata) -> bytes | None:
    if not metadata.HasField("partition_key") or metadata.null_partition_key:
        return None
    if not metadata.partition_key_b64_encoded:
        return _bytes(metadata.partition_key)
    try:
        return base64.b64decode(_bytes(metadata.partition_key), validate=True)
    except binascii.Error as error:
        raise MalformedFrameError("a message whose key is marked as base64 and is not") from error


def _properties(pairs: Iterable[KeyValue]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (_bytes(pair.key).decode(errors="replace"), _bytes(pair.value).decode(errors="replace")) for pair in pairs
    )


def _bytes(text: str | bytes) -> bytes:
    """Return a text as bytes; protobuf returns bytes for a text that is not UTF-8."""
    return text.encode() if isinstance(text, str) else text
