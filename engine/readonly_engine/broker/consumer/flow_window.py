"""Flow control of one passthrough consumer: permits for the owner, and messages that the client has not acked. Pure.

A client grants permits for its whole receiver queue: a thousand messages or more, of any size. If the owner got all of them, the
messages for a client that does not read would pile up in this process. So the owner gets a window of permits that fits the write
buffer, by the average size of the messages so far, and none while the client does not read. The connection to the owner stays
readable, because other consumers share it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_engine.topic.position import Position

INITIAL_WINDOW = 16
"""Permits of the window before the first message, when no size is known."""

MAX_WINDOW = 1000
"""Largest window, as the default receiver queue of a client. A larger one is not faster."""


class FlowWindow:
    """Permits and pending messages of one consumer.

    Args:
        buffer_bytes: bytes of messages that fit the window.
        track_pending: whether to keep the positions of unacked entries. They are not needed for subscription types with
            cumulative acks.

    Attributes:
        track_pending: as above.
        pending: positions of delivered entries without an ack; empty without `track_pending`.
    """

    __slots__ = ("_buffer", "_bytes", "_closed", "_granted", "_messages", "_queued", "pending", "track_pending")

    def __init__(self, buffer_bytes: int, *, track_pending: bool) -> None:
        self._buffer = buffer_bytes
        self._queued = 0  # permits of the client that the owner did not get yet
        self._granted = 0  # permits of the owner that are not used
        self._messages = 0
        self._bytes = 0
        self._closed = False
        self.track_pending = track_pending
        self.pending: set[Position] = set()

    def add_permits(self, permits: int) -> None:
        """Add permits of the client's FLOW."""
        self._queued += permits

    @property
    def permits(self) -> int:
        """Permits of the client that are not used."""
        return self._queued + self._granted

    @property
    def outstanding(self) -> bool:
        """Whether the client has unacked messages; False without `track_pending`."""
        return bool(self.pending)

    def grant(self) -> int:
        """Return the number of permits to send to the owner now, 0 while more than half of the window is unused.

        Call it only while the client's connection is writable.
        """
        window = self._window()
        if self._closed or self._granted > window // 2:
            return 0
        permits = min(self._queued, window - self._granted)
        self._queued -= permits
        self._granted += permits
        return permits

    def on_entry(self, position: Position, messages: int, size: int) -> bool:
        """Count an entry from the owner; return whether to forward it to the client. It is not forwarded after `close`.

        Args:
            position: position of the entry.
            messages: number of messages in it.
            size: bytes of its payload.
        """
        self._granted -= messages
        self._messages += messages
        self._bytes += size
        if self._closed:
            return False
        if self.track_pending:
            self.pending.add(position)
        return True

    def on_ack(self, positions: Iterable[Position], *, cumulative: bool) -> None:
        """Remove acked entries from `pending`, for a cumulative ack all up to the last position."""
        if cumulative:
            last = max(positions, default=None)
            if last is not None:
                self.pending = {position for position in self.pending if position > last}
        else:
            self.pending.difference_update(positions)

    def on_redeliver(self, positions: Iterable[Position]) -> None:
        """Remove entries for redelivery from `pending`: the owner sends them again, to any consumer."""
        self.pending.difference_update(positions)

    def close(self) -> None:
        """Stop permits and messages. The owner redelivers messages that arrive later, once the consumer is closed."""
        self._closed = True

    def _window(self) -> int:
        if not self._messages:
            return INITIAL_WINDOW
        return max(1, min(MAX_WINDOW, self._buffer * self._messages // max(1, self._bytes)))
