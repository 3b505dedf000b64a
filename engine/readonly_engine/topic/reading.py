"""Read a topic in order: an iterator over its entries, and the position of a time."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from readonly_engine.bookkeeper.errors import BookKeeperError, NoSuchLedgerError
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.topic.position import EARLIEST, Position

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.log import TopicLog

log = logging.getLogger(__name__)

READ_BYTES = 4 << 20
"""Approximate size of one read."""

FIRST_READ_ENTRIES = 16
MAX_READ_ENTRIES = 1000

RETRY_S = (0.1, 5.0)
GIVE_UP_S = 60.0
"""Time of failed attempts after which an unreadable entry is an error."""

PROBE_TIMEOUT_S = 10.0
"""Deadline of one attempt to read an entry that could not be read before."""


class Searched(Protocol):
    """A log, or a part of one, in which an entry is searched."""

    @property
    def chain(self) -> LedgerChain:
        """Its ledgers."""

    async def read(self, first: Position, count: int) -> list[TopicEntry]:
        """As TopicLog.read."""


class TopicReader:
    """Reads one topic from a position on.

    Args:
        topic: the log, opened.
        position: the first entry to read; if it was trimmed, the first remaining one.

    Attributes:
        position: the next entry.
        jumps: number of gaps of trimmed or deleted entries that the reader has skipped.
        lost: number of entries in these gaps.
    """

    def __init__(self, topic: TopicLog, position: Position = EARLIEST) -> None:
        self._log = topic
        self.position = position
        self.jumps = 0
        self.lost = 0
        self._size = 0  # bytes of an entry, on the average of the last read
        self._ahead: asyncio.Task[list[TopicEntry]] | None = None

    async def entries(self, *, follow: bool = False) -> AsyncGenerator[TopicEntry, None]:
        """Yield the entries in order, with read-ahead.

        Args:
            follow: whether to wait for more at the end. If False, it ends at the last entry of its start.

        Raises:
            BookKeeperError: the next entry could not be read for GIVE_UP_S.
        """
        end = None if follow else self._log.limit
        moved = asyncio.Event()
        self._log.listen(moved.set)
        try:
            while True:
                moved.clear()
                self._skip_missing()
                if not follow and (end is None or self.position > end):
                    return
                if not self._log.chain.readable(self.position):
                    if self._log.chain.ended or not follow:
                        return
                    await moved.wait()
                    continue
                for entry in await self._next():
                    if end is not None and entry.position > end:
                        return
                    self.position = Position(entry.position.ledger_id, entry.position.entry_id + 1)
                    yield entry
        finally:
            self._log.unlisten(moved.set)
            if self._ahead is not None:
                self._ahead.cancel()

    def _skip_missing(self) -> None:
        """Move to the next position that has an entry or may get one."""
        chain = self._log.chain
        settled = chain.at_or_after(self.position)
        if settled == self.position or not chain.exists:
            return
        lost = chain.lost(self.position, settled)
        if lost:
            self.jumps += 1
            self.lost += lost
            log.warning(
                "skipping deleted entries: topic=%s lost=%d first=%s next=%s",
                self._log.topic,
                lost,
                self.position,
                settled,
            )
        self.position = settled

    async def _next(self) -> list[TopicEntry]:
        ahead, self._ahead = self._ahead, None
        try:
            entries = await ahead if ahead is not None else []
        except BookKeeperError:
            entries = []
        if not entries or entries[0].position != self.position:
            entries = await self._read()
        if entries:
            self._size = sum(entry.size for entry in entries) // len(entries)
            following = self._log.chain.after(entries[-1].position)
            if self._log.chain.readable(following):
                self._ahead = asyncio.create_task(self._log.read(following, self._count()))
                self._ahead.add_done_callback(_look_at)
        return entries

    def _count(self) -> int:
        if not self._size:
            return FIRST_READ_ENTRIES
        return max(1, min(MAX_READ_ENTRIES, READ_BYTES // self._size))

    async def _read(self) -> list[TopicEntry]:
        """Read entries from the position on; return none if it became unreadable meanwhile."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + GIVE_UP_S
        pause = RETRY_S[0]
        while True:
            try:
                return await self._log.read(self.position, self._count())
            except BookKeeperError as error:
                if not self._log.chain.readable(self.position):
                    return []
                if loop.time() > give_up:
                    raise
                what = (
                    "waiting for the topic's list of ledgers"
                    if isinstance(error, NoSuchLedgerError)
                    else "trying again"
                )
                log.info("read failed: topic=%s error=%s reaction=%s", self._log.topic, error, what)
            await asyncio.sleep(pause)
            pause = min(2 * pause, RETRY_S[1])


def _look_at(task: asyncio.Task[list[TopicEntry]]) -> None:
    """Mark an error of read-ahead as retrieved: the next read of the entry will raise it."""
    if not task.cancelled():
        task.exception()


async def position_at(topic: TopicLog, timestamp: int) -> Position:
    """Find the first entry after the newest one with an earlier publish time: the result of a seek to this time.

    The search assumes ascending publish times, which holds within a producer, and among producers with synchronized clocks.

    Args:
        topic: the log, opened.
        timestamp: ms since the epoch.

    Returns:
        The position; if all entries are older, that of the next entry to come.

    Raises:
        BookKeeperError: an entry on the way of the search cannot be read.
    """
    return await first_entry(topic, lambda entry: entry.timestamp < timestamp)


async def first_entry(topic: Searched, earlier: Callable[[TopicEntry], bool]) -> Position:
    """Find an entry by a binary search, as in the owner (PersistentMessageFinder, ManagedCursor.findNewestMatching).

    Args:
        topic: the log, opened.
        earlier: whether an entry is before the one that is searched.

    Returns:
        The position; if all entries are before it, that of the next entry to come.

    Raises:
        BookKeeperError: an entry on the way of the search cannot be read.
    """
    chain = topic.chain
    low, high = 0, 0 if chain.limit is None else chain.count_up_to(chain.limit)
    while low < high:
        middle = (low + high) // 2
        position = chain.at(middle)
        entries = [] if position is None else await topic.read(position, 1)
        if not entries:  # trimmed meanwhile: start again, because all indexes have changed
            low, high = 0, 0 if chain.limit is None else chain.count_up_to(chain.limit)
        elif earlier(entries[0]):
            low = middle + 1
        else:
            high = middle
    found = chain.at(low)
    if found is not None:
        return found
    return chain.after(EARLIEST if chain.limit is None else chain.limit)


async def is_readable(log_: TopicLog, position: Position) -> bool:
    """Return whether an entry can be read from storage within PROBE_TIMEOUT_S, or was deleted.

    Args:
        log_: a log that nothing else uses.
        position: of the entry.
    """
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            await log_.opened()
            await log_.read(log_.chain.at_or_after(position), 1)
    except (BookKeeperError, MetadataError, TimeoutError) as error:
        log.info("entry still unreadable: topic=%s position=%s error=%s", log_.topic, position, error or "timeout")
        return False
    return True
