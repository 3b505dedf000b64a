"""The connections of a waker: bounded in number, and each in its time. Pure."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

MAX_CONNECTIONS: Final = 1000
"""Connections at a time. Above it, the oldest one is closed, first those without a CONNECT, so new clients can always connect."""
HALF_OPEN_S: Final = 10.0
"""Time for a client's CONNECT."""
LIFETIME_S: Final = 120.0
"""Time of a connection. Stock clients give up a request after 30 s by default, and connect again when they need to."""

C = TypeVar("C")


class WakeConnections(Generic[C]):
    """Selects the connections to close. The time is an argument, in seconds, and never goes back.

    Args:
        limit: the most connections.
    """

    def __init__(self, limit: int = MAX_CONNECTIONS) -> None:
        self._limit = limit
        self._ends: dict[C, float] = {}
        self._half_open: dict[C, float] = {}

    def __len__(self) -> int:
        return len(self._ends)

    def __contains__(self, connection: object) -> bool:
        return connection in self._ends

    def all(self) -> list[C]:
        """Return all connections, the oldest first."""
        return list(self._ends)

    def add(self, connection: C, now: float) -> C | None:
        """Add a connection; return the one to close for it, which is removed, or None below the limit."""
        self._ends[connection] = now + LIFETIME_S
        self._half_open[connection] = now + HALF_OPEN_S
        if len(self._ends) <= self._limit:
            return None
        others = len(self._half_open) > 1  # besides the new one
        oldest = next(iter(self._half_open if others else self._ends))
        self.remove(oldest)
        return oldest

    def on_connected(self, connection: C) -> None:
        """Note that a client has sent its CONNECT."""
        self._half_open.pop(connection, None)

    def remove(self, connection: C) -> None:
        """Remove a connection that has ended."""
        self._ends.pop(connection, None)
        self._half_open.pop(connection, None)

    def next_timer(self) -> float | None:
        """Return when to call `on_timer`; None for never."""
        # both have the order of their times
        return min((next(iter(one.values())) for one in (self._half_open, self._ends) if one), default=None)

    def on_timer(self, now: float) -> list[C]:
        """Return the connections whose time is over; they are removed."""
        over: list[C] = []
        for waiting in (self._half_open, self._ends):
            while waiting and next(iter(waiting.values())) <= now:
                over.append(next(iter(waiting)))
                self.remove(over[-1])
        return over
