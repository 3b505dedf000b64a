"""Length-prefixed frames: `[int32 big endian: length][frame]`, as both Pulsar and BookKeeper put them on a connection."""

from __future__ import annotations

from typing import Final

from readonly_engine.wire.errors import FrameTooLargeError, MalformedFrameError

LENGTH_BYTES: Final = 4

MESSAGE_BYTES: Final = 5 * 1024 * 1024
"""maxMessageSize of a broker that names none in CONNECTED (Commands.DEFAULT_MAX_MESSAGE_SIZE)."""

PADDING_BYTES: Final = 10 * 1024
"""Room for the command and the metadata around a message of that size (Commands.MESSAGE_SIZE_FRAME_PADDING)."""

FRAME_BYTES: Final = MESSAGE_BYTES + PADDING_BYTES
"""The longest frame that a stock broker or client takes from its peer."""

HANDSHAKE_FRAME_BYTES: Final = 128 * 1024
"""The longest frame before a connection is authenticated. A CONNECT carries credentials, twice behind a proxy: tokens of some
KB, and Kerberos tickets of up to 64 KiB (MaxTokenSize)."""

STORED_FRAME_BYTES: Final = 128 * 1024 * 1024
"""The longest frame from a bookie where no broker of the cluster has named its maxMessageSize: a bookie names none. Receiving
takes memory as the bytes arrive, so the bound is for a peer that is no bookie."""

ENVELOPE_BYTES: Final = 64 * 1024
"""What a bookie's response adds to an entry, with room to spare."""

HEAD_BYTES: Final = 64
"""So much of a skipped frame is kept: enough for the command's type and its request id."""


def frame_limit(max_message_size: int) -> int:
    """The longest frame that a peer with this maxMessageSize takes.

    Args:
        max_message_size: as CONNECTED names it; 0 or less for a broker that names none.
    """
    return (max_message_size if max_message_size > 0 else MESSAGE_BYTES) + PADDING_BYTES


class StoredFrameLimit:
    """The longest frame from a bookie, as the cluster's brokers let entries be (their client of BookKeeper has the same limit).

    Attributes:
        bytes: the limit.
    """

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = FRAME_BYTES + ENVELOPE_BYTES

    def learn(self, max_message_size: int) -> None:
        """A broker has named its maxMessageSize. A lower one does not count: entries from before are still there."""
        self.bytes = max(self.bytes, frame_limit(max_message_size) + ENVELOPE_BYTES)


class FrameSplitter:
    """Cuts a byte stream into frames, whatever the pieces in which it arrives.

    Memory grows with what has arrived, never with the length that a peer announces. Each byte is copied a constant number of
    times.

    Args:
        max_frame_bytes: the longest frame that is taken.

    Attributes:
        max_frame_bytes: may be changed at any time; counts for frames whose length has not arrived yet.
        skip: drop a longer one as it arrives and keep its head in `skipped`, instead of an error: one answer that is too long
            must not cost a connection that others share.
        skipped: the first HEAD_BYTES of each frame that was skipped, for the caller to take.
    """

    __slots__ = ("_buffer", "_missing", "_to_drop", "max_frame_bytes", "skip", "skipped")

    def __init__(self, max_frame_bytes: int = FRAME_BYTES) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.skip = False
        self.skipped: list[bytes] = []
        self._buffer = bytearray()
        self._missing = 0  # bytes that the frame at the buffer's start still lacks, as far as known
        self._to_drop = 0

    def receive_data(self, data: bytes) -> list[bytes]:
        """Take what arrived; return the frames that are complete now, without their length prefix.

        Raises:
            FrameTooLargeError: a frame longer than the limit was announced.
            MalformedFrameError: a negative length was announced.
        """
        if not self._buffer and not self._to_drop:
            # Fast path: one whole frame, such as an ack.
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
                return []
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
        return frames

    @property
    def buffered_bytes(self) -> int:
        """How much of an incomplete frame is waiting."""
        return len(self._buffer)

    def _oversized(self, data: bytes, start: int, length: int) -> int:
        """Begin to skip a frame; return where to go on: behind what is there of it, or where its head will end."""
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
