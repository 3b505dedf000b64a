"""Which connections are looked at when: one timer for all of them, not one each."""

from __future__ import annotations

import asyncio
from typing import Protocol

SLOTS = 30
TICK_S = 1.0
"""SLOTS ticks make the 30 s after which Pulsar's brokers look at a connection (keepAliveIntervalSeconds)."""


class KeptAlive(Protocol):
    """A connection whose client may be gone without a word."""

    def check_alive(self) -> None:
        """Called once a round: ping or drop a client that says nothing."""


class KeepAlive:
    """Goes round all connections, those of one slot at each tick, so that ten thousand are not looked at in one turn."""

    def __init__(self) -> None:
        self._slots: list[set[KeptAlive]] = [set() for _ in range(SLOTS)]
        self._now = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Tick from now on."""
        self._timer = asyncio.get_running_loop().call_later(TICK_S, self._ticked)

    def stop(self) -> None:
        """Tick no more."""
        if self._timer is not None:
            self._timer.cancel()

    def add(self, connection: KeptAlive) -> None:
        """Look at a connection, for the first time a whole round from now."""
        self._slots[self._now].add(connection)

    def discard(self, connection: KeptAlive) -> None:
        """Look at it no more."""
        for slot in self._slots:
            slot.discard(connection)

    def tick(self) -> None:
        """Look at the connections of the next slot."""
        self._now = (self._now + 1) % SLOTS
        for connection in list(self._slots[self._now]):
            connection.check_alive()

    def _ticked(self) -> None:
        self.start()
        self.tick()
