"""Connections whose client has not said who it is: how many there may be, and how much they may hold. Pure."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

MAX_HALF_OPEN: Final = 10_000
"""A client sends CONNECT with its first packet, so an honest crowd is far below this however large it is."""

MAX_HALF_OPEN_BYTES: Final = 64 << 20
"""Of CONNECTs that have arrived in part, of all connections together."""

C = TypeVar("C")


class HalfOpenConnections(Generic[C]):
    """Chooses which connections end when there are too many: the oldest ones, so that a new client always gets its chance.

    Args:
        max_count: so many may be there.
        max_bytes: so much they may hold in all.
    """

    def __init__(self, max_count: int = MAX_HALF_OPEN, max_bytes: int = MAX_HALF_OPEN_BYTES) -> None:
        self.max_count = max_count
        self._max_bytes = max_bytes
        self._waiting: dict[C, None] = {}
        self._buffered: dict[C, int] = {}
        self.buffered_bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, connection: C) -> C | None:
        """A connection was made; returns the one that must end for it."""
        self._waiting[connection] = None
        return next(iter(self._waiting)) if len(self._waiting) > self.max_count else None

    def set_buffered(self, connection: C, size: int) -> C | None:
        """A connection holds so many bytes of an incomplete frame; returns the one that must end for them."""
        self._release(connection)
        if size and connection in self._waiting:
            self._buffered[connection] = size
            self.buffered_bytes += size
        return next(iter(self._buffered)) if self.buffered_bytes > self._max_bytes else None

    def remove(self, connection: C) -> None:
        """A connection has ended, or its client has said who it is."""
        self._waiting.pop(connection, None)
        self._release(connection)

    def _release(self, connection: C) -> None:
        self.buffered_bytes -= self._buffered.pop(connection, 0)
