"""Acks that the owner has answered recently, and may lose when it dies. Pure; seconds of any one clock."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from readonly_engine.wire.pulsar_pb2 import CommandAck

WINDOW_S: Final = 5.0
"""Age up to which an answered ack may be lost with its owner.

A stock owner stores a cursor once a second while acks arrive (managedLedgerDefaultMarkDeleteRateLimit). It stores the last acks
of a burst up to 60 s later (managedLedgerCursorPositionFlushSeconds, ManagedCursorImpl.flush). The window covers the first case.
In the second, messages are delivered again, as by the owner itself: a longer window would take more resets for losses."""

_OBJECT_BYTES: Final = 500
"""Estimated size of a CommandAck object with one id."""

MAX_BYTES: Final = 1 << 20
"""Bound of the acks that are kept; older ones count as stored."""


class AnsweredAck(NamedTuple):
    """An ack that the owner has answered.

    Attributes:
        at: time of the answer.
        ack: a CommandAck; or encoded, in full or its fields `message_id` only.
        cumulative_before: the last cumulative ack that was answered before; None without one.
    """

    at: float
    ack: CommandAck | bytes
    cumulative_before: CommandAck | None


class RecentAcks:
    """Keeps acks with the times of their answers.

    Args:
        window_s: age after which an ack is dropped.
        max_bytes: bound of the acks' size.
    """

    __slots__ = ("_acks", "_bytes", "_max_bytes", "_window")

    def __init__(self, window_s: float = WINDOW_S, max_bytes: int = MAX_BYTES) -> None:
        self._window = window_s
        self._max_bytes = max_bytes
        self._acks: deque[AnsweredAck] | None = None  # an empty deque takes 760 bytes, and most consumers are idle
        self._bytes = 0

    def add(self, ack: CommandAck | bytes, now: float, cumulative_before: CommandAck | None = None) -> None:
        """Add an ack that the owner has just answered; encoded, if it may have many ids."""
        if self._acks is None:
            self._acks = deque()
        acks = self._acks
        acks.append(AnsweredAck(now, ack, cumulative_before))
        self._bytes += _size(ack)
        while acks and (acks[0].at < now - self._window or self._bytes > self._max_bytes):
            self._bytes -= _size(acks.popleft().ack)

    def before(self, end: float) -> Iterator[AnsweredAck]:
        """Return the acks answered at most `window_s` before a time, in the order of their answers."""
        return (answered for answered in self._acks or () if end - self._window <= answered.at)

    def forget(self) -> None:
        """Drop all acks: the owner's cursor was reset."""
        self._acks = None
        self._bytes = 0


def _size(ack: CommandAck | bytes) -> int:
    return len(ack) if isinstance(ack, bytes) else _OBJECT_BYTES
