"""Acks that the owner has answered a short while ago, and may lose when it dies. Pure; seconds are those of any one clock."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from readonly_engine.wire.pulsar_pb2 import CommandAck

WINDOW_S: Final = 5.0
"""So long before its end an owner may have answered acks that it had not stored.

A stock owner stores a cursor once a second while acks come (managedLedgerDefaultMarkDeleteRateLimit). What this limit holds back
at the end of a burst is stored up to 60 s later (managedLedgerCursorPositionFlushSeconds, ManagedCursorImpl.flush). The window
covers the first. In the second case messages come again, as from the owner itself: a longer window would mistake more resets for
losses."""

_OBJECT_BYTES: Final = 500
"""An ack of one entry that is not encoded."""

MAX_BYTES: Final = 1 << 20
"""Of so many bytes of acks it is known when they were answered; older ones count as stored."""


class AnsweredAck(NamedTuple):
    """An ack that was answered.

    Attributes:
        at: when.
        ack: a CommandAck; or encoded, whole or its fields `message_id` only.
        cumulative_before: the last cumulative ack that had been answered before it; None for none.
    """

    at: float
    ack: CommandAck | bytes
    cumulative_before: CommandAck | None


class RecentAcks:
    """Keeps acks, encoded, with the time of their answer.

    Args:
        window_s: for how long.
        max_bytes: how much at most.
    """

    __slots__ = ("_acks", "_bytes", "_max_bytes", "_window")

    def __init__(self, window_s: float = WINDOW_S, max_bytes: int = MAX_BYTES) -> None:
        self._window = window_s
        self._max_bytes = max_bytes
        self._acks: deque[AnsweredAck] = deque()
        self._bytes = 0

    def add(self, ack: CommandAck | bytes, now: float, cumulative_before: CommandAck | None = None) -> None:
        """Keep an ack that the owner has just answered: encoded where it has many ids."""
        acks = self._acks
        acks.append(AnsweredAck(now, ack, cumulative_before))
        self._bytes += _size(ack)
        while acks and (acks[0].at < now - self._window or self._bytes > self._max_bytes):
            self._bytes -= _size(acks.popleft().ack)

    def before(self, end: float) -> Iterator[AnsweredAck]:
        """The acks that were answered at most `window_s` before a time, in the order of their answers."""
        return (answered for answered in self._acks if end - self._window <= answered.at)

    def forget(self) -> None:
        """The owner's cursor was moved: earlier acks mean nothing any more."""
        self._acks.clear()
        self._bytes = 0


def _size(ack: CommandAck | bytes) -> int:
    return len(ack) if isinstance(ack, bytes) else _OBJECT_BYTES
