"""Connections whose client has not said who it is: how many there may be, and how much they may hold. Pure."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

MAX_HALF_OPEN: Final = 10_000
"""A client sends CONNECT with its first packet, so an honest crowd is far below this however large it is."""

MAX_HALF_OPEN_BYTES: Final = 64 << 20
"""Of CONNECTs that have arrived in part, of all connections together."""

C = TypeVar("C")


class HalfOpen(Generic[C]):
    """Chooses which connections end when there are too many: the oldest ones, so that a new client always gets its chance.

    Args:
        most: so many may be there.
        most_bytes: so much they may hold in all.
    """

    def __init__(self, most: int = MAX_HALF_OPEN, most_bytes: int = MAX_HALF_OPEN_BYTES) -> None:
        self.most = most
        self._most_bytes = most_bytes
        self._waiting: dict[C, None] = {}
        self._held: dict[C, int] = {}
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def came(self, connection: C) -> C | None:
        """A connection was made; returns the one that must end for it."""
        self._waiting[connection] = None
        return next(iter(self._waiting)) if len(self._waiting) > self.most else None

    def holds(self, connection: C, size: int) -> C | None:
        """A connection holds so many bytes of an incomplete frame; returns the one that must end for them."""
        self._release(connection)
        if size and connection in self._waiting:
            self._held[connection] = size
            self.held_bytes += size
        return next(iter(self._held)) if self.held_bytes > self._most_bytes else None

    def left(self, connection: C) -> None:
        """A connection has ended, or its client has said who it is."""
        self._waiting.pop(connection, None)
        self._release(connection)

    def _release(self, connection: C) -> None:
        self.held_bytes -= self._held.pop(connection, 0)
