"""Length-prefixed frames of Pulsar and BookKeeper: `[int32 big endian: length][frame]`."""

from __future__ import annotations

from typing import Final

from readonly_engine.wire.errors import FrameTooLargeError, MalformedFrameError

LENGTH_BYTES: Final = 4

MESSAGE_BYTES: Final = 5 * 1024 * 1024
"""maxMessageSize of a broker whose CONNECTED has none (Commands.DEFAULT_MAX_MESSAGE_SIZE)."""

PADDING_BYTES: Final = 10 * 1024
"""Room for the command and the metadata around a message of that size (Commands.MESSAGE_SIZE_FRAME_PADDING)."""

FRAME_BYTES: Final = MESSAGE_BYTES + PADDING_BYTES
"""The longest frame that a stock broker or client accepts from its peer."""

HANDSHAKE_FRAME_BYTES: Final = 128 * 1024
"""The longest frame before a connection is authenticated. A CONNECT carries credentials, twice behind a proxy: tokens of some
KB, and Kerberos tickets of up to 64 KiB (MaxTokenSize)."""

STORED_FRAME_BYTES: Final = 128 * 1024 * 1024
"""The longest frame from a bookie if no broker of the cluster has sent its maxMessageSize; bookies send none. Memory grows only
with received bytes, so this bound is for a peer that is not a bookie."""

ENVELOPE_BYTES: Final = 64 * 1024
"""Upper bound of the bytes that a bookie's response adds to an entry."""

HEAD_BYTES: Final = 64
"""Kept bytes of a skipped frame: enough for the command's type and its request id."""


def frame_limit(max_message_size: int) -> int:
    """Return the longest frame that a peer with this maxMessageSize accepts.

    Args:
        max_message_size: from CONNECTED; 0 or less for none.
    """
    return (max_message_size if max_message_size > 0 else MESSAGE_BYTES) + PADDING_BYTES


class StoredFrameLimit:
    """The longest frame from a bookie, by the limits of the cluster's brokers (their BookKeeper client has the same limit).

    Attributes:
        bytes: the limit.
    """

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = FRAME_BYTES + ENVELOPE_BYTES

    def learn(self, max_message_size: int) -> None:
        """Apply a broker's maxMessageSize. A lower one than before is ignored, because larger entries may exist."""
        self.bytes = max(self.bytes, frame_limit(max_message_size) + ENVELOPE_BYTES)


class FrameSplitter:
    """Splits a byte stream into frames.

    Memory grows with the received bytes, never with the length that a peer announces. Each byte is copied a constant number of
    times.

    Args:
        max_frame_bytes: limit of a frame's length.

    Attributes:
        max_frame_bytes: may be changed at any time; applies to frames whose length has not arrived yet.
        skip: drop a longer frame and keep its head in `skipped`, instead of an error: a shared connection must survive one
            response above the limit.
        skipped: the first HEAD_BYTES of each skipped frame, for the caller to remove.
        partial: whether a frame has arrived in part, so that the next bytes belong to it.
    """

    __slots__ = ("_buffer", "_missing", "_to_drop", "max_frame_bytes", "partial", "skip", "skipped")

    def __init__(self, max_frame_bytes: int = FRAME_BYTES) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.skip = False
        self.skipped: list[bytes] = []
        self._buffer = bytearray()
        self._missing = 0  # missing bytes of the frame at the buffer's start, as far as known
        self._to_drop = 0
        self.partial = False

    def receive_data(self, data: bytes) -> list[bytes]:
        """Process received bytes; return the complete frames, without their length prefix.

        Raises:
            FrameTooLargeError: a frame longer than the limit was announced.
            MalformedFrameError: a negative length was announced.
        """
        if not self.partial:
            # Fast path: one complete frame, such as an ack.
            length = len(data) - LENGTH_BYTES
            if 0 <= length <= self.max_frame_bytes and int.from_bytes(data[:LENGTH_BYTES], "big") == length:
                return [data[LENGTH_BYTES:]]
        if self._to_drop:
            dropped = min(self._to_drop, len(data))
            self._to_drop -= dropped
            data = data[dropped:]
        if self._buffer:
            self._buffer += data
            self._missing -= len(data)
            if self._missing > 0:
                return []  # still partial
            data = bytes(self._buffer)
            self._buffer = bytearray()
        frames: list[bytes] = []
        start, size = 0, len(data)
        while size - start >= LENGTH_BYTES:
            length = int.from_bytes(data[start : start + LENGTH_BYTES], "big", signed=True)
            if not 0 <= length <= self.max_frame_bytes:
                end = self._oversized(data, start, length)
            else:
                end = start + LENGTH_BYTES + length
                if end <= size:
                    frames.append(data[start + LENGTH_BYTES : end])
            if end > size:
                self._missing = end - size
                break
            start = end
        else:
            self._missing = LENGTH_BYTES - (size - start)
        if start < size:
            self._buffer += memoryview(data)[start:]
        self.partial = bool(self._buffer or self._to_drop)
        return frames

    @property
    def missing(self) -> int:
        """Bytes that the frame which has arrived `partial`ly lacks; those of its length while that is incomplete."""
        return self._to_drop or self._missing

    @property
    def buffered_bytes(self) -> int:
        """Received bytes of an incomplete frame."""
        return len(self._buffer)

    def _oversized(self, data: bytes, start: int, length: int) -> int:
        """Begin to skip a frame; return the end of its received bytes, or the future end of its head."""
        if length < 0:
            raise MalformedFrameError(f"a frame of {length} bytes was announced")
        if not self.skip:
            raise FrameTooLargeError(f"a frame of {length} bytes was announced; the limit is {self.max_frame_bytes}")
        begin = start + LENGTH_BYTES
        head = min(HEAD_BYTES, length)
        if len(data) - begin < head:
            return begin + head
        self.skipped.append(data[begin : begin + head])
        end = begin + length
        self._to_drop = max(0, end - len(data))
        return min(end, len(data))
