"""Notices owners that are silent but connected, such as stopped processes: their pushes end without a sign.

One PING per second serves all topics that an owner pushes. The connections to it take turns.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

from readonly_engine.background import next_tick

if TYPE_CHECKING:
    from readonly_engine.owner.connection import OwnerConnection

log = logging.getLogger(__name__)

PROBE_S: Final = 1.0
"""Interval between PINGs to one owner."""

SILENT_S: Final = 2.0
"""An owner is silent if it does not answer a PING in this time. A collection of its garbage may take some 100 ms."""


class PushedTail(Protocol):
    """A topic that an owner pushes."""

    def on_silent(self) -> None:
        """Read from bookies: the owner does not answer."""


class _Owner:
    """One owner: its connections with the topics that it pushes there, the next one to probe first.

    Attributes:
        tails: the topics by connection.
        probed: connection with an unanswered PING.
        answered_before: the last PING that this connection had answered before.
        since: time of the PING.
    """

    __slots__ = ("answered_before", "probed", "since", "tails")

    def __init__(self) -> None:
        self.tails: dict[OwnerConnection, set[PushedTail]] = {}
        self.probed: OwnerConnection | None = None
        self.answered_before = 0.0
        self.since = 0.0


class OwnerProbes:
    """Probes the owners that push topics. `check` takes the time as an argument; a timer calls it while there are any."""

    def __init__(self) -> None:
        self._owners: dict[str, _Owner] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, tail: PushedTail, connection: OwnerConnection) -> None:
        """Add a topic that the owner pushes on a connection."""
        self._owners.setdefault(connection.url, _Owner()).tails.setdefault(connection, set()).add(tail)
        self._start()

    def remove(self, tail: PushedTail, connection: OwnerConnection) -> None:
        """Remove a topic that was added with this connection: its owner does not push it any more."""
        owner = self._owners[connection.url]
        owner.tails[connection].discard(tail)
        if not owner.tails[connection]:
            del owner.tails[connection]
            if owner.probed is connection:
                owner.probed = None
        if not owner.tails:
            del self._owners[connection.url]

    def check(self, now: float) -> None:
        """Send a PING to each owner that has answered the last one, and give up those that are silent."""
        for url, owner in list(self._owners.items()):
            probed = owner.probed
            if probed is not None and probed.last_answered_ping <= owner.answered_before:
                if now - owner.since >= SILENT_S:
                    self._give_up(url, owner)
                continue
            connection = next(iter(owner.tails))
            owner.tails[connection] = owner.tails.pop(connection)  # the last one of the next turns
            owner.probed, owner.answered_before, owner.since = connection, connection.last_answered_ping, now
            connection.probe()

    def _give_up(self, url: str, owner: _Owner) -> None:
        tails = [tail for group in owner.tails.values() for tail in group]
        log.info("owner is silent, reading new entries from bookies: url=%s topics=%d", url, len(tails))
        for tail in tails:
            tail.on_silent()

    def _start(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(next_tick(loop.time(), PROBE_S), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.check(asyncio.get_running_loop().time())
        if self._owners:
            self._start()
