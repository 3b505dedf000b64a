"""The readable ledgers of a topic at one moment. Pure."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from readonly_engine.topic.position import EARLIEST, Position

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_OF_VIEW: Final = Position(0, 0)
"""Where a compacted view begins: its first message may be from any ledger of the past."""


@dataclass(frozen=True, slots=True)
class ReadableLedger:
    """One ledger of a topic, and how much of it can be read.

    Attributes:
        ledger_id: the ledger's id.
        last: the last entry that may be read; -1 for none.
        size: bytes of these entries.
        closed: True if no entry will follow.
        offload: the serialized OffloadContext; empty if the ledger was not offloaded.
        messages_per_entry: the estimated average.
        compacted: True for the ledger that compaction wrote, which is not in the topic's own list.
    """

    ledger_id: int
    last: int
    size: int
    closed: bool = True
    offload: bytes = b""
    messages_per_entry: float = 1.0
    compacted: bool = False

    @property
    def entry_bytes(self) -> float:
        """The average size of an entry; at least 1."""
        return max(self.size / (self.last + 1), 1.0) if self.last >= 0 else 1.0


@dataclass(frozen=True, slots=True)
class EntryRange:
    """Consecutive entries of one ledger of one topic.

    Attributes:
        topic: the full name of the topic or partition.
        ledger: the ledger.
        first: the first entry.
        last: the last entry, included.
    """

    topic: str
    ledger: ReadableLedger
    first: int
    last: int

    @property
    def entries(self) -> int:
        """The number of entries."""
        return self.last - self.first + 1

    @property
    def bytes(self) -> float:
        """The estimated size of the entries."""
        return self.entries * self.ledger.entry_bytes

    @property
    def messages(self) -> float:
        """The estimated number of messages."""
        return self.entries * self.ledger.messages_per_entry


@dataclass(frozen=True, slots=True)
class Gap:
    """Entries that no longer exist.

    Attributes:
        start: the first requested position.
        end: the first position that exists, or the end of the request.
    """

    start: Position
    end: Position

    def __str__(self) -> str:
        return f"from {self.start} up to, not including, {self.end}"


@dataclass(frozen=True, slots=True)
class TopicState:
    """One topic or partition.

    Attributes:
        name: the full name.
        ledgers: the ledgers in order. Only the last one can be open.
        limit: the first entry that must not be read yet because a transaction is open; None for no limit.
        compacted: the ledger that compaction wrote, with the entries up to `horizon`; None if it is not read.
        horizon: the last entry that compaction covered.
    """

    name: str
    ledgers: tuple[ReadableLedger, ...]
    limit: Position | None = None
    compacted: ReadableLedger | None = None
    horizon: Position = EARLIEST

    @property
    def earliest(self) -> Position:
        """The first existing entry, or the position of the next one to be written."""
        if self.compacted is not None:
            return FIRST_OF_VIEW
        for ledger in self.ledgers:
            if ledger.last >= 0 or not ledger.closed:
                return Position(ledger.ledger_id, 0)
        return self.latest

    @property
    def latest(self) -> Position:
        """The position after the last readable entry.

        It moves only when there is another entry to read; a new empty ledger does not move it.
        """
        found = EARLIEST
        for ledger in reversed(self.ledgers):
            if ledger.last >= 0:
                found = Position(ledger.ledger_id, ledger.last + 1)
                break
        else:
            if self.ledgers:
                found = Position(self.ledgers[0].ledger_id, 0)
        return found if self.limit is None else min(found, self.limit)

    @property
    def following(self) -> int | None:
        """The ledger after the one with the last readable entry; None if that one is open, or an open transaction ends before."""
        end = self.latest
        for ledger, later in pairwise(self.ledgers):
            if (ledger.ledger_id, ledger.last + 1) == end and ledger.closed and ledger.last >= 0:
                return later.ledger_id
        return None

    @property
    def after_horizon(self) -> Position:
        """The position after the last entry that compaction covered."""
        return Position(self.horizon.ledger_id, self.horizon.entry_id + 1)

    def followed_from(self, start: Position, following: int | None = None) -> TopicState:
        """Return the state for a stream that has read up to `start`: it reads every later message, while that is stored.

        What compaction has covered meanwhile is read from the compacted ledger only if the topic's own entries were trimmed.

        Args:
            start: the first entry to read.
            following: the ledger after that of `start`, if `start` was the end of its ledger.
        """
        if self.compacted is None or start <= FIRST_OF_VIEW:
            return self
        own = replace(self, compacted=None, horizon=EARLIEST)
        return self if own.gap(start, max(own.latest, self.after_horizon), following) else own

    def entry_ranges(self, start: Position, end: Position) -> Iterator[EntryRange]:
        """Yield the existing entries from `start` up to, not including, `end`.

        The compacted ledger is always yielded whole: its reader selects entries by their original position.
        """
        if self.compacted is not None and start <= self.horizon:
            if self.compacted.last >= 0:
                yield EntryRange(self.name, self.compacted, 0, self.compacted.last)
            start = self.after_horizon
        for ledger in self.ledgers:
            if ledger.ledger_id < start.ledger_id or ledger.ledger_id > end.ledger_id:
                continue
            first = max(start.entry_id, 0) if ledger.ledger_id == start.ledger_id else 0
            last = min(ledger.last, end.entry_id - 1) if ledger.ledger_id == end.ledger_id else ledger.last
            if first <= last:
                yield EntryRange(self.name, ledger, first, last)

    def confirmed_to(self, end: Position) -> TopicState:
        """Extend an open ledger to a position that was confirmed once.

        A bookie that crashes can lose the newest LAC: an explicit LAC is not in its journal.
        """
        ledgers = tuple(
            replace(ledger, last=end.entry_id - 1, size=int(ledger.entry_bytes * end.entry_id))
            if ledger.ledger_id == end.ledger_id and not ledger.closed and ledger.last < end.entry_id - 1
            else ledger
            for ledger in self.ledgers
        )
        return replace(self, ledgers=ledgers)

    def gap(self, start: Position, end: Position, following: int | None = None) -> Gap | None:
        """Return the missing entries at the start of a range; ledgers are trimmed from the first one on.

        A start in a deleted ledger is a gap, because nothing records any more where that ledger ended. It is none if it was the
        end of the ledger, and the next one exists.

        Args:
            start: the first entry to read.
            end: the position after the last one.
            following: the ledger after that of `start`, if `start` was the end of its ledger.
        """
        if start >= end or start <= EARLIEST or (self.compacted is not None and start <= self.horizon):
            return None
        index = bisect_left(self.ledgers, start.ledger_id, key=lambda ledger: ledger.ledger_id)
        if index < len(self.ledgers) and self.ledgers[index].ledger_id == start.ledger_id:
            return None
        if following is not None and any(ledger.ledger_id == following for ledger in self.ledgers):
            return None
        return Gap(start, min(self.earliest, end))

    def replacement(self, before: TopicState, start: Position, following: int | None) -> int | None:
        """Return the first ledger now, if an empty one that came after all read entries was deleted; else None.

        An owner that loads a topic deletes its last ledger if that is empty, and creates another one (ManagedLedgerImpl). Entries
        that were written to it and trimmed since `before` cannot be told from this.

        Args:
            before: the topic shortly before.
            start: the first entry to read.
            following: the ledger after that of `start`, if `start` was the end of its ledger.
        """
        if not before.ledgers or not self.ledgers:
            return None
        empty = before.ledgers[-1]
        if empty.last >= 0 or empty.closed or empty.ledger_id not in {start.ledger_id, following}:
            return None
        if any(ledger.ledger_id <= empty.ledger_id for ledger in self.ledgers):
            return None
        return self.ledgers[0].ledger_id

    def end_gap(self, start: Position, end: Position) -> Gap | None:
        """Return the missing entries at the end of a range that existed once: its last ledger is shorter now, or deleted."""
        if start >= end or end.entry_id <= 0 or (self.compacted is not None and end <= self.after_horizon):
            return None
        ledger = next((ledger for ledger in self.ledgers if ledger.ledger_id == end.ledger_id), None)
        if ledger is None or ledger.last < end.entry_id - 1:
            return Gap(Position(end.ledger_id, 0 if ledger is None else ledger.last + 1), end)
        return None
