"""Connections before their CONNECT, bounded in number and in bytes. Pure."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

MAX_HALF_OPEN: Final = 10_000
"""Half-open connections. Clients send CONNECT in their first packet, so honest clients stay far below, even in large numbers."""

MAX_HALF_OPEN_BYTES: Final = 64 << 20
"""Bytes of incomplete CONNECT frames of all connections."""

C = TypeVar("C")


class HalfOpenConnections(Generic[C]):
    """Selects a connection to close when a limit is exceeded: the oldest, so that new clients can always connect.

    Args:
        max_count: limit of half-open connections.
        max_bytes: limit of buffered bytes of all half-open connections.

    Attributes:
        max_count: as above.
        buffered_bytes: bytes of all incomplete frames.
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
        """Add a connection; return the connection to close for it, None below the limit."""
        self._waiting[connection] = None
        return next(iter(self._waiting)) if len(self._waiting) > self.max_count else None

    def set_buffered(self, connection: C, size: int) -> C | None:
        """Set the size of a connection's incomplete frame; return the connection to close for it, None below the limit."""
        self._release(connection)
        if size and connection in self._waiting:
            self._buffered[connection] = size
            self.buffered_bytes += size
        return next(iter(self._buffered)) if self.buffered_bytes > self._max_bytes else None

    def remove(self, connection: C) -> None:
        """Remove a connection after its CONNECT or its end."""
        self._waiting.pop(connection, None)
        self._release(connection)

    def _release(self, connection: C) -> None:
        self.buffered_bytes -= self._buffered.pop(connection, 0)
