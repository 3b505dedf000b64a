"""A v2 connection to one bookie as a pure state machine: batch reads out, replies in, deadlines by the caller's clock.

The first v2 frame makes a connection v2 for good. A bookie resets it at a v3 frame, so BookieSession has its own connection.
"""

from __future__ import annotations

from typing import NamedTuple

from readonly_engine.wire.bookie_v2 import BatchHeader, decode_batch_header, encode_batch_read
from readonly_engine.wire.errors import FrameTooLargeError, MalformedFrameError
from readonly_engine.wire.framing import LENGTH_BYTES, STORED_FRAME_BYTES

IDLE_BUFFER_BYTES = 64 * 1024
"""Room between two replies: enough for a small one, too little for much of the following reply (which must be moved)."""

KEPT_BUFFER_BYTES = 8 * 1024 * 1024
"""A buffer that one huge reply has grown above this is replaced after it."""

AT_ONCE_BYTES = 2 * 1024 * 1024
"""Limit of the growth of a buffer in one step, after the length of a reply is known; above it, the buffer doubles as the reply
arrives. No batch read asks for more, so only a larger entry takes more steps."""


class BatchReply(NamedTuple):
    """A reply whose bytes are in the session's buffer.

    Attributes:
        header: request id and status.
        frame: the complete frame; only valid until the next call of `buffer`.
    """

    header: BatchHeader
    frame: memoryview


class BatchSession:
    """Numbers batch reads and matches their replies; receives into one buffer, without copies.

    The caller reads from its socket into `buffer()`, then calls `received` with the number of bytes.

    Args:
        max_frame_bytes: limit of a reply's size.
    """

    def __init__(self, max_frame_bytes: int = STORED_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._buffer = memoryview(bytearray(IDLE_BUFFER_BYTES))
        self._filled = 0
        self._last_id = 0
        self._deadlines: dict[int, float] = {}
        self.answered = False
        """Whether the bookie has ever answered: then it supports batch reads."""

    def batch_read(
        self, ledger_id: int, first: int, max_count: int, max_bytes: int, deadline: float
    ) -> tuple[int, bytes]:
        """Request entries from `first` on; return the request's id and the bytes to send."""
        self._last_id += 1
        self._deadlines[self._last_id] = deadline
        return self._last_id, encode_batch_read(self._last_id, ledger_id, first, max_count, max_bytes)

    def buffer(self) -> memoryview:
        """Return the buffer for the next bytes; never empty."""
        if self._filled < LENGTH_BYTES:
            if len(self._buffer) > KEPT_BUFFER_BYTES:
                self._resize(IDLE_BUFFER_BYTES)
            return self._buffer[self._filled : IDLE_BUFFER_BYTES]
        end = LENGTH_BYTES + self._frame_bytes(0)
        if len(self._buffer) < end and (end <= AT_ONCE_BYTES or self._filled == len(self._buffer)):
            # A little more than this reply: the next ones may be a little larger.
            self._resize(min(end + end // 8, max(AT_ONCE_BYTES, 2 * len(self._buffer))))
        # The following reply comes with the next read, at the beginning of the buffer.
        return self._buffer[self._filled : max(end, IDLE_BUFFER_BYTES)]

    def received(self, count: int) -> list[BatchReply]:
        """Process `count` bytes that were read into `buffer`; return the complete replies to pending requests.

        Raises:
            WireError: the peer does not speak the protocol; the connection must be closed.
        """
        self._filled += count
        replies = []
        start = 0
        while self._filled - start >= LENGTH_BYTES:
            end = start + LENGTH_BYTES + self._frame_bytes(start)
            if end > self._filled:
                break
            frame = self._buffer[start + LENGTH_BYTES : end]
            header = decode_batch_header(frame)
            self.answered = True
            if self._deadlines.pop(header.request_id, None) is not None:
                replies.append(BatchReply(header, frame))
            start = end
        if start == self._filled:
            self._filled = 0
        elif start:
            self._carry(start)
        return replies

    def leave(self, buffer: bytearray) -> None:
        """Keep the buffer of the last replies for the caller, and receive the next ones into another buffer.

        Args:
            buffer: of at least IDLE_BUFFER_BYTES, without any view of it.
        """
        if not self._filled:  # otherwise `_carry` has changed the buffer already
            self._buffer = memoryview(buffer)

    def next_timer(self) -> float | None:
        """Return the time of the next `on_timer`: the first deadline of a request; None without one."""
        return min(self._deadlines.values(), default=None)

    def on_timer(self, now: float) -> list[int]:
        """Drop the requests whose deadline has passed, and return their ids."""
        late = [request_id for request_id, deadline in self._deadlines.items() if deadline <= now]
        for request_id in late:
            del self._deadlines[request_id]
        return late

    def _frame_bytes(self, start: int) -> int:
        length = int.from_bytes(self._buffer[start : start + LENGTH_BYTES], "big", signed=True)
        if length > self._max_frame_bytes:
            raise FrameTooLargeError(f"a frame of {length} bytes was announced; the limit is {self._max_frame_bytes}")
        if length < 0:
            raise MalformedFrameError(f"a frame of {length} bytes was announced")
        return length

    def _carry(self, start: int) -> None:
        """Move the bytes after the replies into a new buffer: the replies still use this one."""
        rest = bytes(self._buffer[start : self._filled])
        self._buffer = memoryview(bytearray(max(len(rest), IDLE_BUFFER_BYTES)))
        self._buffer[: len(rest)] = rest
        self._filled = len(rest)

    def _resize(self, size: int) -> None:
        grown = memoryview(bytearray(size))
        grown[: self._filled] = self._buffer[: self._filled]
        self._buffer = grown
