"""Length-prefixed frames: `[int32 big endian: length][frame]`, as both Pulsar and BookKeeper put them on a connection."""

from __future__ import annotations

from readonly_engine.wire.errors import FrameTooLargeError, MalformedFrameError

LENGTH_BYTES = 4

# Pulsar: maxMessageSize (5 MiB by default) plus 10 KiB for the command (Commands.MESSAGE_SIZE_FRAME_PADDING).
# BookKeeper: nettyMaxFrameSizeBytes is 5,253,120 in Pulsar's bookkeeper.conf, and a reply adds its own envelope.
# Both are settings of the cluster: leave room for a cluster that has raised them.
MAX_FRAME_BYTES = 128 * 1024 * 1024


class FrameSplitter:
    """Cuts a byte stream into frames, whatever the pieces in which it arrives.

    Args:
        max_frame_bytes: a longer frame is an error: the peer is broken, or is not a peer at all.
    """

    __slots__ = ("_buffer", "_max")

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._buffer = b""
        self._max = max_frame_bytes

    def receive_data(self, data: bytes) -> list[bytes]:
        """Take what arrived; return the frames that are complete now, without their length prefix.

        Raises:
            FrameTooLargeError: a frame longer than the limit was announced.
            MalformedFrameError: a negative length was announced.
        """
        buffer = self._buffer + data if self._buffer else data
        frames = []
        start, size = 0, len(buffer)
        while size - start >= LENGTH_BYTES:
            length = int.from_bytes(buffer[start : start + LENGTH_BYTES], "big", signed=True)
            if length > self._max:
                raise FrameTooLargeError(f"a frame of {length} bytes was announced; the limit is {self._max}")
            if length < 0:
                raise MalformedFrameError(f"a frame of {length} bytes was announced")
            end = start + LENGTH_BYTES + length
            if end > size:
                break
            frames.append(buffer[start + LENGTH_BYTES : end])
            start = end
        self._buffer = buffer[start:] if start else buffer
        return frames

    @property
    def buffered_bytes(self) -> int:
        """How much of an incomplete frame is waiting."""
        return len(self._buffer)
