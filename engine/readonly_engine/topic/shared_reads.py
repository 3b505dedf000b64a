"""Reads of entries that are not in the cache: shared by concurrent callers, and ahead of those that read a backlog."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from readonly_engine.topic.entries import TopicEntry
from readonly_engine.waiting import await_shared
from readonly_engine.wire.entry_view import summarize

if TYPE_CHECKING:
    from readonly_engine.topic.cache import EntryCache
    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.position import Position
    from readonly_engine.topic.sources import LedgerSources

BULK_ENTRIES = 50
READ_AHEAD_ENTRIES = 2000
READ_AHEAD_BYTES = 1 << 20
"""A read of at least BULK_ENTRIES triggers read-ahead into the cache, up to both other limits."""

MAX_READ_BYTES = 4 << 20
"""Limit of one read, whatever its count: the cache may be small."""


@dataclass(frozen=True, slots=True, eq=False)
class PendingRead:
    """A pending read of the entries from `first` to `last`."""

    ledger_id: int
    first: int
    last: int
    task: asyncio.Task[list[TopicEntry]]

    def covers(self, position: Position) -> bool:
        """Whether the read includes an entry."""
        return self.ledger_id == position.ledger_id and self.first <= position.entry_id <= self.last


class SharedReads:
    """Reads a topic's entries into the cache, each by one read at a time.

    Args:
        chain: the topic's ledgers.
        cache: the cache of entries.
        sources: the copies of the ledgers.

    Attributes:
        pending: the reads that have not ended.
    """

    __slots__ = ("_cache", "_chain", "_entry_bytes", "_sources", "pending")

    def __init__(self, chain: LedgerChain, cache: EntryCache, sources: LedgerSources) -> None:
        self._chain = chain
        self._cache = cache
        self._sources = sources
        self._entry_bytes = READ_AHEAD_BYTES
        self.pending: dict[PendingRead, None] = {}  # a dict is smaller than a set while it is empty

    async def read(self, first: Position, count: int, *, exact: bool = False) -> list[TopicEntry]:
        """Read entries from `first` on, which is not in the cache: at most `count`, none if it is not readable.

        Args:
            first: the first entry.
            count: largest number of entries.
            exact: whether not to read ahead.

        Raises:
            BookKeeperError: the entry at `first` cannot be read now.
        """
        read = self._covering(first)
        if read is None:
            run = self._chain.run(first, self._at_once(count) if exact else self._ahead(count))
            if run is None:
                return []
            read = self._start(first.ledger_id, *run)
        return await _result(read, first, count)

    async def read_run(self, first: Position, run: tuple[int, int], count: int) -> list[TopicEntry]:
        """As `read`, up to the last entry of a run of stored entries, which need not be readable yet.

        Args:
            first: the first entry, which is not in the cache.
            run: the ids of the first and the last entry.
            count: as in `read`.

        Raises:
            BookKeeperError: as `read`.
        """
        return await _result(self._covering(first) or self._start(first.ledger_id, *run), first, count)

    @property
    def ahead_entries(self) -> int:
        """Number of entries that READ_AHEAD_BYTES hold, by the last read."""
        return max(READ_AHEAD_BYTES // self._entry_bytes, 1)

    def cancel(self) -> None:
        """End all pending reads."""
        for read in self.pending:
            read.task.cancel()

    def _covering(self, position: Position) -> PendingRead | None:
        return next((read for read in self.pending if read.covers(position)), None)

    def _start(self, ledger_id: int, first: int, last: int) -> PendingRead:
        """Start a read up to the first entry that is in the cache or in another pending read."""
        last = first + max(self._cache.missing(ledger_id, first, last), 1) - 1
        for other in self.pending:
            if other.ledger_id == ledger_id and first < other.first <= last:
                last = other.first - 1
        read = PendingRead(ledger_id, first, last, asyncio.create_task(self._fetch(ledger_id, first, last)))
        self.pending[read] = None

        def forget(ended: asyncio.Task[list[TopicEntry]]) -> None:
            self.pending.pop(read, None)
            if not ended.cancelled():
                ended.exception()  # callers get it too; mark it as retrieved if all callers were cancelled

        read.task.add_done_callback(forget)
        return read

    def _ahead(self, count: int) -> int:
        """Return the number of entries to read for a call with `count`: more for backlog reads, which continue.

        It is limited by the expected room in the cache, where the next call looks for them.
        """
        if count < BULK_ENTRIES:
            return self._at_once(count)
        return self._at_once(max(count, min(READ_AHEAD_BYTES // self._entry_bytes, READ_AHEAD_ENTRIES)))

    def _at_once(self, count: int) -> int:
        return min(count, max(MAX_READ_BYTES // self._entry_bytes, 1))

    async def _fetch(self, ledger_id: int, first: int, last: int) -> list[TopicEntry]:
        entries = [TopicEntry(entry) for entry in await self._sources.read(ledger_id, first, last)]
        self._entry_bytes = max(summarize(entries)[1] // len(entries), 1)
        return self._cache.put_all(entries, backlog=True)


async def _result(read: PendingRead, first: Position, count: int) -> list[TopicEntry]:
    entries = await await_shared(read.task)
    return entries[first.entry_id - read.first :][:count]
