"""Join the chunks of large messages in bounded memory (ConsumerImpl, Pulsar 4.0.8)."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from readonly_engine.wire.batch import single_message
from readonly_engine.wire.compression import MAX_UNCOMPRESSED, decompress
from readonly_engine.wire.errors import MalformedFrameError

if TYPE_CHECKING:
    from readonly_engine.wire.batch import Message, StoredEntry
    from readonly_engine.wire.message_pb2 import MessageMetadata

MAX_OPEN = 100
"""Limit of incomplete messages (the default of clients is 10: maxPendingChunkedMessage)."""


@dataclass(slots=True)
class _Open:
    metadata: MessageMetadata
    parts: list[bytes]
    size: int = 0


class ChunkJoiner:
    """Accepts chunks in the topic's order and returns a message at its last chunk.

    Args:
        max_bytes: limit of all incomplete messages together; the oldest of them are dropped first.
        max_open: limit of incomplete messages.
    """

    def __init__(self, max_bytes: int = MAX_UNCOMPRESSED, max_open: int = MAX_OPEN) -> None:
        self._max_bytes = max_bytes
        self._max_open = max_open
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._size = 0
        self.dropped = 0
        """Number of messages with a missing chunk, or dropped because of a limit."""

    def add(self, entry: StoredEntry) -> Message | None:
        """Add a chunk; return the complete message if it was the last one, else None.

        A chunk out of sequence (published again, or after a trimmed first chunk) drops its message.

        Raises:
            MalformedFrameError: the joined message is damaged.
            FrameTooLargeError: its uncompressed size is above the limit.
            UnsupportedFormatError: it is compressed by an unknown codec.
        """
        metadata = entry.metadata
        if metadata.chunk_id == 0:
            self._drop(metadata.uuid)
            self._open[metadata.uuid] = _Open(metadata, [])
        message = self._open.get(metadata.uuid)
        if message is None or metadata.chunk_id != len(message.parts):
            if message is not None and metadata.chunk_id < len(message.parts):
                return None  # the same chunk again: the producer got no receipt for the first
            self._drop(metadata.uuid)
            if message is None:
                self.dropped += metadata.chunk_id == metadata.num_chunks_from_msg - 1
            return None
        message.parts.append(entry.body)
        message.size += len(entry.body)
        self._size += len(entry.body)
        if len(message.parts) == message.metadata.num_chunks_from_msg:
            self._forget(metadata.uuid)
            return self._whole(message)
        while self._open and (self._size > self._max_bytes or len(self._open) > self._max_open):
            self._drop(next(iter(self._open)))
        return None

    def _whole(self, message: _Open) -> Message:
        metadata = message.metadata
        if message.size != metadata.total_chunk_msg_size:
            raise MalformedFrameError(
                f"chunks of {message.size} bytes in total instead of {metadata.total_chunk_msg_size}"
            )
        body = decompress(metadata.compression, b"".join(message.parts), metadata.uncompressed_size, self._max_bytes)
        return single_message(metadata, body)

    def _drop(self, uuid: str) -> None:
        if uuid in self._open:
            self.dropped += 1
            self._forget(uuid)

    def _forget(self, uuid: str) -> None:
        self._size -= self._open.pop(uuid).size
