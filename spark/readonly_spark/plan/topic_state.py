"""What there is of a topic at one moment: its ledgers, and how far each may be read. Pure."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from readonly_engine.topic.position import EARLIEST, Position

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class LedgerState:
    """One ledger of a topic.

    Attributes:
        ledger_id: its id.
        last: the last entry that may be read, -1 for none.
        size: bytes of these entries.
        closed: whether nothing will follow.
        offload: how it was offloaded (OffloadContext, serialized); empty where it was not.
        messages_per_entry: on the average, about.
        compacted: whether it is what compaction has left of the topic, and none of the topic's own ledgers.
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
class Run:
    """Entries of one ledger that follow each other.

    Attributes:
        ledger: the ledger.
        first: the first entry.
        last: the last entry, included.
    """

    ledger: LedgerState
    first: int
    last: int

    @property
    def entries(self) -> int:
        """How many."""
        return self.last - self.first + 1

    @property
    def bytes(self) -> float:
        """Their size, about."""
        return self.entries * self.ledger.entry_bytes

    @property
    def messages(self) -> float:
        """How many messages they hold, about."""
        return self.entries * self.ledger.messages_per_entry


@dataclass(frozen=True, slots=True)
class Gap:
    """Entries that are not there any more.

    Attributes:
        start: the first position that was wanted.
        end: where the topic goes on, or the end of what was wanted.
    """

    start: Position
    end: Position

    def __str__(self) -> str:
        return f"from {self.start} on and before {self.end}"


@dataclass(frozen=True, slots=True)
class TopicState:
    """One topic or partition.

    Attributes:
        name: its full name.
        ledgers: in order. Only the last one can be open.
        limit: entries from here on must not be read although they are there (an open transaction); None for no such limit.
        compacted: what compaction has left of the entries up to `horizon`; None where that is not to be read.
        horizon: the last entry that compaction took in.
    """

    name: str
    ledgers: tuple[LedgerState, ...]
    limit: Position | None = None
    compacted: LedgerState | None = None
    horizon: Position = EARLIEST

    @property
    def earliest(self) -> Position:
        """The first entry that there is, or the place of the next one to come."""
        if self.compacted is not None:
            return Position(0, 0)
        for ledger in self.ledgers:
            if ledger.last >= 0 or not ledger.closed:
                return Position(ledger.ledger_id, 0)
        return self.latest

    @property
    def latest(self) -> Position:
        """Behind the last entry that may be read.

        It stays where it is until there is another entry to read: a new ledger alone does not move it.
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

    def runs(self, start: Position, end: Position) -> Iterator[Run]:
        """The entries that there are from `start` on and before `end`; of compaction's ledger all, whoever reads them looks."""
        if self.compacted is not None and start <= self.horizon:
            if self.compacted.last >= 0:
                yield Run(self.compacted, 0, self.compacted.last)
            start = Position(self.horizon.ledger_id, self.horizon.entry_id + 1)
        for ledger in self.ledgers:
            if ledger.ledger_id < start.ledger_id or ledger.ledger_id > end.ledger_id:
                continue
            first = max(start.entry_id, 0) if ledger.ledger_id == start.ledger_id else 0
            last = min(ledger.last, end.entry_id - 1) if ledger.ledger_id == end.ledger_id else ledger.last
            if first <= last:
                yield Run(ledger, first, last)

    def confirmed_to(self, end: Position) -> TopicState:
        """The topic with an open ledger that goes on at least to a position which was confirmed once.

        A bookie that crashes can forget how far the writer had told it (an explicit LAC is not in its journal).
        """
        ledgers = tuple(
            replace(ledger, last=end.entry_id - 1, size=int(ledger.entry_bytes * end.entry_id))
            if ledger.ledger_id == end.ledger_id and not ledger.closed and ledger.last < end.entry_id - 1
            else ledger
            for ledger in self.ledgers
        )
        return replace(self, ledgers=ledgers)

    def gap(self, start: Position, end: Position) -> Gap | None:
        """What is missing at the beginning of a range: ledgers are trimmed from the first one on.

        A start in a ledger that is gone is a gap even where that ledger may have ended just there: nobody knows any more.
        """
        if start >= end or start <= EARLIEST or (self.compacted is not None and start <= self.horizon):
            return None
        index = bisect_left(self.ledgers, start.ledger_id, key=lambda ledger: ledger.ledger_id)
        if index < len(self.ledgers) and self.ledgers[index].ledger_id == start.ledger_id:
            return None
        return Gap(start, min(self.earliest, end))

    def missing_end(self, start: Position, end: Position) -> Gap | None:
        """What is missing at the end of a range that was there once: its last ledger is shorter now, or gone."""
        if start >= end or end.entry_id <= 0:
            return None
        ledger = next((ledger for ledger in self.ledgers if ledger.ledger_id == end.ledger_id), None)
        if ledger is None or ledger.last < end.entry_id - 1:
            return Gap(Position(end.ledger_id, 0 if ledger is None else ledger.last + 1), end)
        return None
