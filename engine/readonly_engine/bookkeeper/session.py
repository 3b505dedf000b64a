"""A v3 connection to one bookie as a pure state machine: requests out, replies in, deadlines by the caller's clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.wire import bookie
from readonly_engine.wire.framing import STORED_FRAME_BYTES, FrameSplitter

if TYPE_CHECKING:
    from readonly_engine.wire.bookie import ReadReply


class BookieSession:
    """Numbers requests, matches replies, and expires requests after their deadline.

    Every request method returns the request's id and the bytes to send. Times are seconds of any monotonic clock.

    Args:
        max_frame_bytes: limit of a reply's size.
    """

    def __init__(self, max_frame_bytes: int = STORED_FRAME_BYTES) -> None:
        self._splitter = FrameSplitter(max_frame_bytes)
        self._last_id = 0
        self._deadlines: dict[int, float] = {}

    def read_entry(self, ledger_id: int, entry_id: int, deadline: float) -> tuple[int, bytes]:
        """Request one entry."""
        request_id = self._next(deadline)
        return request_id, bookie.encode_read(request_id, ledger_id, entry_id)

    def long_poll(self, ledger_id: int, previous_lac: int, timeout_ms: int, deadline: float) -> tuple[int, bytes]:
        """Request a reply as soon as the LAC is above `previous_lac`; the deadline must be after the bookie's timeout."""
        request_id = self._next(deadline)
        return request_id, bookie.encode_long_poll(request_id, ledger_id, previous_lac, timeout_ms)

    def long_poll_lac(self, ledger_id: int, previous_lac: int, timeout_ms: int, deadline: float) -> tuple[int, bytes]:
        """Request the same without an entry in the reply."""
        request_id = self._next(deadline)
        return request_id, bookie.encode_long_poll_lac(request_id, ledger_id, previous_lac, timeout_ms)

    def read_lac(self, ledger_id: int, deadline: float) -> tuple[int, bytes]:
        """Request the explicit LAC and the last entry."""
        request_id = self._next(deadline)
        return request_id, bookie.encode_read_lac(request_id, ledger_id)

    def receive_data(self, data: bytes) -> list[tuple[int, ReadReply]]:
        """Process received bytes; return the complete replies to pending requests.

        Raises:
            WireError: the peer does not speak the protocol; the connection must be closed.
        """
        replies = []
        for frame in self._splitter.receive_data(data):
            request_id, reply = bookie.decode_reply(frame)
            if self._deadlines.pop(request_id, None) is not None:
                replies.append((request_id, reply))
        return replies

    def next_timer(self) -> float | None:
        """Return the time of the next `on_timer`: the first deadline of a request; None without one."""
        return min(self._deadlines.values(), default=None)

    def on_timer(self, now: float) -> list[int]:
        """Drop the requests whose deadline has passed, and return their ids."""
        late = [request_id for request_id, deadline in self._deadlines.items() if deadline <= now]
        for request_id in late:
            del self._deadlines[request_id]
        return late

    def _next(self, deadline: float) -> int:
        self._last_id += 1
        self._deadlines[self._last_id] = deadline
        return self._last_id
