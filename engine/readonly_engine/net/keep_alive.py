"""Keep-alive checks of all connections by one timer."""

from __future__ import annotations

import asyncio
from typing import Protocol

from readonly_engine.background import next_tick

SLOTS = 30
TICK_S = 1.0
"""A connection is checked every SLOTS ticks: 30 s, the default of keepAliveIntervalSeconds of a stock broker."""


class KeptAlive(Protocol):
    """A connection to check, because its client may disappear without closing it."""

    def check_alive(self) -> None:
        """Ping a silent client, or close its connection. Called every SLOTS ticks."""


class KeepAlive:
    """Checks one slot of connections at each tick, so that no iteration of the event loop checks all of them."""

    def __init__(self) -> None:
        self._slots: list[set[KeptAlive]] = [set() for _ in range(SLOTS)]
        self._now = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start the timer."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(next_tick(loop.time(), TICK_S), self._ticked)

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def add(self, connection: KeptAlive) -> None:
        """Add a connection; its first check comes after SLOTS ticks."""
        self._slots[self._now].add(connection)

    def discard(self, connection: KeptAlive) -> None:
        """Remove a connection."""
        for slot in self._slots:
            slot.discard(connection)

    def tick(self) -> None:
        """Check the connections of the next slot."""
        self._now = (self._now + 1) % SLOTS
        for connection in list(self._slots[self._now]):
            connection.check_alive()

    def _ticked(self) -> None:
        self.start()
        self.tick()
