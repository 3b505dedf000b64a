"""The ledgers of a topic in order, and the readable end of each: a pure state machine fed by metadata and LACs."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from readonly_engine.small_map import SmallMap
from readonly_engine.topic.position import Position

if TYPE_CHECKING:
    from readonly_engine.wire.ledgers import LedgerMetadata
    from readonly_engine.wire.managed_ledger_pb2 import ManagedLedgerInfo

NONE_READABLE = -1

REMEMBERED = 1000
"""Number of removed ledgers whose length is kept."""


@dataclass(slots=True)
class ChainedLedger:
    """One ledger of the topic.

    Attributes:
        ledger_id: its id.
        last_readable: the last entry that may be read; NONE_READABLE for none yet.
        closed: whether `last_readable` is final.
        closed_ms: when the owner closed or recovered it (ManagedLedgerImpl.ledgerClosed), in ms since the epoch: no entry was
            added later. 0 while that is unknown.
    """

    ledger_id: int
    last_readable: int = NONE_READABLE
    closed: bool = False
    closed_ms: int = 0


class LedgerChain:
    """The readable entries of a topic, in order.

    The topic's list has the size of each finished ledger. The last ledger of the list may be open, in recovery, or closed
    before the list has it (during a roll or an unload, ManagedLedgerImpl). Its own metadata and its LAC decide.
    """

    __slots__ = ("_first_open", "_gone", "_ledgers", "_order", "exists", "terminated")

    def __init__(self) -> None:
        self._ledgers: SmallMap[int, ChainedLedger] = SmallMap()
        self._order: tuple[int, ...] = ()
        self._gone: SmallMap[int, int] | None = None
        self._first_open: int | None = None
        self.exists = False
        self.terminated = False

    # Updates

    def topic_changed(self, info: ManagedLedgerInfo | None) -> None:
        """Apply the topic's list of ledgers; None if the topic does not exist (any more)."""
        self.exists = info is not None
        self.terminated = False
        known, self._ledgers, self._order = self._ledgers, SmallMap(), ()
        listed = {ledger.ledger_id for ledger in info.ledger_info} if info is not None else set()
        for ledger_id in sorted(set(known) - listed):
            self._remember(known[ledger_id])
        self._first_open = None
        if info is None:
            return
        self.terminated = info.HasField("terminated_position")
        # An offload leaves the list in the order of a hash map (ManagedLedgerImpl.transformLedgerInfo); the owner sorts it too.
        for ledger in sorted(info.ledger_info, key=lambda ledger: ledger.ledger_id):
            chained = known.get(ledger.ledger_id) or ChainedLedger(ledger.ledger_id)
            if ledger.timestamp and not chained.closed:
                # The list has a time for a ledger only once it has its size.
                chained.last_readable, chained.closed = ledger.entries - 1, True
            chained.closed_ms = ledger.timestamp
            self._ledgers[chained.ledger_id] = chained
        self._order = tuple(self._ledgers)
        self._first_open = next(iter(self.open_ledgers), None)

    def _remember(self, gone: ChainedLedger) -> None:
        if self._gone is None:
            self._gone = SmallMap()
        self._gone[gone.ledger_id] = gone.last_readable
        if len(self._gone) > REMEMBERED:
            del self._gone[next(iter(self._gone))]

    def ledger_changed(self, ledger_id: int, metadata: LedgerMetadata) -> None:
        """Apply a ledger's own metadata."""
        ledger = self._ledgers.get(ledger_id)
        if ledger is not None and metadata.closed and not ledger.closed:
            ledger.last_readable, ledger.closed = metadata.last_entry_id, True
            self._first_open = next(iter(self.open_ledgers), None)

    def lac_advanced(self, ledger_id: int, lac: int) -> bool:
        """Apply a LAC of an open ledger; ignore a lower one than before, and one of a closed ledger.

        Returns:
            Whether more may be read.
        """
        ledger = self._ledgers.get(ledger_id)
        if ledger is None or ledger.closed or lac <= ledger.last_readable:
            return False
        ledger.last_readable = lac
        return True

    # Queries

    @property
    def stored(self) -> LedgerChain:
        """The chain of all stored entries: this one, unless a replay has not released some (replay/chain.py)."""
        return self

    @property
    def open_ledgers(self) -> list[int]:
        """The ledgers without a final end: usually the last one, or none."""
        return [ledger_id for ledger_id in self._order if not self._ledgers[ledger_id].closed]

    @property
    def ledger_ids(self) -> list[int]:
        """All ledgers, in order."""
        return list(self._order)

    @property
    def ledger_count(self) -> int:
        """Number of ledgers."""
        return len(self._order)

    @property
    def newest_ledger(self) -> int:
        """The last known ledger; -1 for none."""
        return self._order[-1] if self._order else -1

    def ledger(self, ledger_id: int) -> ChainedLedger | None:
        """Return the state of a ledger; None if the topic does not have it (any more)."""
        return self._ledgers.get(ledger_id)

    @property
    def limit(self) -> Position | None:
        """The last readable entry; None without one."""
        for ledger_id in reversed(self._order):
            ledger = self._ledgers[ledger_id]
            if ledger.last_readable > NONE_READABLE and self._reachable(ledger_id):
                return Position(ledger_id, ledger.last_readable)
        return None

    def _reachable(self, ledger_id: int) -> bool:
        """Whether all earlier ledgers have a final end: an entry must not be read before an earlier one."""
        return self._first_open is None or ledger_id <= self._first_open

    def after(self, position: Position) -> Position:
        """Return the next position: that of the next readable entry, else the one that the next entry may get.

        After a position in a trimmed ledger, that is the first remaining entry.
        """
        ledger = self._ledgers.get(position.ledger_id)
        if ledger is not None and (position.entry_id < ledger.last_readable or not ledger.closed):
            return Position(position.ledger_id, position.entry_id + 1)
        for index in range(bisect_right(self._order, position.ledger_id), len(self._order)):
            candidate = self._ledgers[self._order[index]]
            if candidate.last_readable > NONE_READABLE or not candidate.closed:
                return Position(candidate.ledger_id, 0)
        return Position(position.ledger_id, position.entry_id + 1)

    def at_or_after(self, position: Position) -> Position:
        """Return the position itself if it has an entry or may get one; else the next one.

        The tail position of an open ledger gets no entry once that ledger is closed or trimmed.
        """
        return self.after(Position(position.ledger_id, max(position.entry_id, 0) - 1))

    def before(self, position: Position) -> Position | None:
        """Return the last readable entry before a position; None without one."""
        for ledger_id in reversed(self._order):
            ledger = self._ledgers[ledger_id]
            if (
                ledger_id > position.ledger_id
                or ledger.last_readable == NONE_READABLE
                or not self._reachable(ledger_id)
            ):
                continue
            last = (
                ledger.last_readable
                if ledger_id < position.ledger_id
                else min(ledger.last_readable, position.entry_id - 1)
            )
            if last >= 0:
                return Position(ledger_id, last)
        return None

    @property
    def first(self) -> Position | None:
        """The first readable entry; None without one."""
        position = self.after(Position(-1, -1))
        return position if self.readable(position) else None

    @property
    def ended(self) -> bool:
        """Whether the topic was terminated and its last entry is readable."""
        return self.terminated and not self.open_ledgers

    def count_up_to(self, position: Position) -> int:
        """Return the number of readable entries up to and including a position, which may have no entry itself."""
        count = 0
        for ledger_id in self._order:
            if ledger_id > position.ledger_id:
                break
            last = self._ledgers[ledger_id].last_readable
            count += 1 + (min(last, max(position.entry_id, -1)) if ledger_id == position.ledger_id else last)
        return count

    def distance(self, start: Position, end: Position) -> int:
        """Return the number of readable entries after `start` up to and including `end`; negative if `end` is first."""
        if start.ledger_id == end.ledger_id:
            ledger = self._ledgers.get(start.ledger_id)
            last = NONE_READABLE if ledger is None else ledger.last_readable
            return min(last, max(end.entry_id, -1)) - min(last, max(start.entry_id, -1))
        return self.count_up_to(end) - self.count_up_to(start)

    def lost(self, start: Position, end: Position) -> int:
        """Return the number of once readable entries from `start` on and before `end` in removed ledgers."""
        return sum(
            max(last + 1 - (max(start.entry_id, 0) if ledger_id == start.ledger_id else 0), 0)
            for ledger_id, last in ([] if self._gone is None else self._gone.items())
            if start.ledger_id <= ledger_id < end.ledger_id
        )

    def at(self, index: int) -> Position | None:
        """Return the readable entry with an index, from 0; None if there are not as many."""
        for ledger_id in self._order:
            ledger = self._ledgers[ledger_id]
            if 0 <= index <= ledger.last_readable:
                return Position(ledger_id, index)
            index -= ledger.last_readable + 1
        return None

    def readable(self, position: Position) -> bool:
        """Whether the entry at this position may be read now."""
        ledger = self._ledgers.get(position.ledger_id)
        return (
            ledger is not None
            and 0 <= position.entry_id <= ledger.last_readable
            and self._reachable(position.ledger_id)
        )

    def holds(self, position: Position) -> bool:
        """Whether a readable entry is at a position, or may have been there in a removed ledger."""
        ledger = self._ledgers.get(position.ledger_id)
        if ledger is None:
            return position.ledger_id < self.newest_ledger
        return 0 <= position.entry_id <= ledger.last_readable

    def beyond(self, position: Position) -> bool:
        """Whether a position is after every readable entry."""
        newest = self.newest_ledger
        ledger = self._ledgers.get(position.ledger_id)
        if ledger is None:
            return position.ledger_id > newest
        return position.entry_id > ledger.last_readable and (position.ledger_id == newest or not ledger.closed)

    def covers_acks(self, mark_delete: Position) -> bool:
        """Whether an owner's mark-delete position covers the acks of all entries that are read here."""
        del mark_delete
        return True

    def any_readable(self, lower: Position, upper: Position) -> bool:
        """Whether any entry after `lower` up to and including `upper` is readable."""
        following = self.after(lower)
        return following <= upper and self.readable(following)

    def run(self, first: Position, count: int) -> tuple[int, int] | None:
        """Return the readable entries from `first` on in its ledger: first and last entry id, at most `count` entries."""
        if count <= 0 or not self.readable(first):
            return None
        last = self._ledgers[first.ledger_id].last_readable
        return first.entry_id, min(last, first.entry_id + count - 1)
