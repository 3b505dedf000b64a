"""Which entries of one topic a replay has released. Pure: the released publish time is an argument."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_engine.topic.position import Position

MAX_AHEAD_ENTRIES: Final = 1000
"""Bound of the entries of a topic that are read before their release."""

MAX_AHEAD_BYTES: Final = 1 << 20
"""Bound of their bytes. One entry may be larger."""


MAX_SKEW_MS: Final = 60_000
"""An entry was published before it was stored. By so much the clocks of its producer and of a broker may differ."""


class AheadEntry(NamedTuple):
    """An entry that was read before its release.

    Attributes:
        position: its position.
        publish_ms: its publish time, ms since the epoch.
        size: its bytes.
    """

    position: Position
    publish_ms: int
    size: int


class ReplayGate:
    """Releases the entries of a topic in its order.

    The publish times of a topic are not strictly ascending, as producers have clocks of their own. So an entry is due at the
    largest publish time up to it: none waits for an earlier one for long, and none overtakes another.

    Attributes:
        size: bytes of the entries that wait.
    """

    __slots__ = ("_newest", "_waiting", "size")

    def __init__(self) -> None:
        self.size = 0
        self._waiting: deque[AheadEntry] = deque()  # each with the publish time at which it is due
        self._newest = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def room(self) -> int:
        """Number of entries to read now; 0 while enough wait."""
        if len(self._waiting) > MAX_AHEAD_ENTRIES // 2 or self.size > MAX_AHEAD_BYTES // 2:
            return 0
        return MAX_AHEAD_ENTRIES - len(self._waiting)

    def add_entries(self, entries: Iterable[AheadEntry], stored_ms: float, *, closed: bool = False) -> None:
        """Add the next entries of the topic.

        Args:
            entries: the entries, of one ledger.
            stored_ms: a time at which they were stored. An entry of a later time has a wrong one: it follows the one before it.
            closed: whether `stored_ms` is the time at which the ledger was closed: then no entry waits for a later one.
        """
        latest = stored_ms + MAX_SKEW_MS
        for entry in entries:
            if entry.publish_ms <= latest:
                publish_ms = min(entry.publish_ms, int(stored_ms)) if closed else entry.publish_ms
                self._newest = max(self._newest, publish_ms)
            self._waiting.append(entry._replace(publish_ms=self._newest))
            self.size += entry.size

    @property
    def newest_ms(self) -> int | None:
        """The largest publish time so far; None before the first entry."""
        return self._newest or None

    @property
    def next_ms(self) -> int | None:
        """The publish time at which the next entry is due; None if none waits."""
        return self._waiting[0].publish_ms if self._waiting else None

    def release(self, released_ms: float) -> Position | None:
        """Release all entries that are due; return the last of them, None for none.

        Args:
            released_ms: publish time that the clock has reached.
        """
        last = None
        while self._waiting and self._waiting[0].publish_ms <= released_ms:
            entry = self._waiting.popleft()
            last = entry.position
            self.size -= entry.size
        return last
