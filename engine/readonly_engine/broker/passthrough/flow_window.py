"""What passes through for one consumer: how much its server may send at once, and what its client has not acked. Pure.

A client gives permits for as many messages as its queue takes, a thousand or more of any size. If all were passed on, a client
that does not read would pile them up here. So permits are passed on a few at a time, as many as fit the write buffer by the size
of the messages so far, and none while the client does not read. The connection to the server goes on: others share it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_engine.topic.position import Position

INITIAL_WINDOW = 16
"""Permits at once before the size of a message is known."""

MAX_WINDOW = 1000
"""As the queue of a client: more would not be faster."""


class FlowWindow:
    """Permits and pending messages of one consumer.

    Args:
        buffer_bytes: how many bytes may be on their way to the client.
        track_pending: whether to keep what is not acked (it is of no use where acks are cumulative only).
    """

    __slots__ = ("_buffer", "_bytes", "_closed", "_granted", "_messages", "_queued", "pending", "track_pending")

    def __init__(self, buffer_bytes: int, *, track_pending: bool) -> None:
        self._buffer = buffer_bytes
        self._queued = 0  # permits of the client that were not passed on
        self._granted = 0  # permits that were passed on and not used
        self._messages = 0
        self._bytes = 0
        self._closed = False
        self.track_pending = track_pending
        self.pending: set[Position] = set()

    def add_permits(self, permits: int) -> None:
        """The client gave permits."""
        self._queued += permits

    @property
    def permits(self) -> int:
        """How many messages the client has asked for and not got."""
        return self._queued + self._granted

    def grant(self) -> int:
        """How many permits to pass on now; the client's connection takes more."""
        window = self._window()
        if self._closed or self._granted > window // 2:
            return 0
        permits = min(self._queued, window - self._granted)
        self._queued -= permits
        self._granted += permits
        return permits

    def on_entry(self, position: Position, messages: int, size: int) -> bool:
        """An entry came from the server. Returns whether the client gets it: not after `close`."""
        self._granted -= messages
        self._messages += messages
        self._bytes += size
        if self._closed:
            return False
        if self.track_pending:
            self.pending.add(position)
        return True

    def on_ack(self, positions: Iterable[Position], *, cumulative: bool) -> None:
        """The client acked entries."""
        if cumulative:
            last = max(positions, default=None)
            if last is not None:
                self.pending = {position for position in self.pending if position > last}
        else:
            self.pending.difference_update(positions)

    def on_redeliver(self, positions: Iterable[Position]) -> None:
        """The client asks for entries again: they come again, from wherever."""
        self.pending.difference_update(positions)

    def close(self) -> None:
        """Pass on no more permits, and no more messages: what the server still sends it gives to others afterwards."""
        self._closed = True

    def _window(self) -> int:
        if not self._messages:
            return INITIAL_WINDOW
        return max(1, min(MAX_WINDOW, self._buffer * self._messages // max(1, self._bytes)))
