"""A topic for compacted reads: its compacted ledger, then the entries after the compaction (CompactedTopicImpl)."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from readonly_engine.background import run_forever
from readonly_engine.bookkeeper.errors import BookKeeperError, NoSuchEntryError, NoSuchLedgerError
from readonly_engine.bookkeeper.ledger import LedgerReader
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.topic.chain import LedgerChain
from readonly_engine.topic.cursors import read_cursor
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.topic.position import Position
from readonly_engine.topic.view import Follow
from readonly_engine.wire.compacted import decode_compacted
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.bookkeeper.pool import BookiePool
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.topic.log import TopicLog

log = logging.getLogger(__name__)

COMPACTION_CURSOR = "__compaction"
COMPACTED_LEDGER = "CompactedTopicLedger"

BLOCK = 100
"""Entries in one read of a compacted ledger."""

BLOCKS_KEPT = 16

MAX_PLACES = 10_000
"""Number of positions whose index in the compacted ledger is kept."""

CACHE_TTL_S = 0.2
"""Readers within this time share one lookup of the compaction."""

POLL_INTERVAL_S = 10.0
"""Interval between lookups of a new compaction. A removed ledger is a sign of one, and triggers a lookup immediately."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """The result of a compaction.

    Attributes:
        reader: reads its ledger, which is closed.
        entries: number of entries in its ledger.
        horizon: the last entry of the topic that was compacted.
    """

    reader: LedgerReader
    entries: int
    horizon: Position


class CompactedChain(LedgerChain):
    """The entries that a topic's compaction has kept, then the topic's ledgers. Pure.

    Positions up to the last kept one may have no entry. Each is followed by the next number, as in a cursor.

    Args:
        chain: the topic's ledgers.
    """

    def __init__(self, chain: LedgerChain) -> None:
        super().__init__()
        self._chain = chain
        self._first_ledger = -1
        self.horizon: Position | None = None
        self.last_kept: Position | None = None

    def compacted(self, horizon: Position | None, last_kept: Position | None, first_ledger: int) -> None:
        """Apply a compaction.

        Args:
            horizon: the last compacted entry; None for no compaction.
            last_kept: the last kept entry; None for none.
            first_ledger: the topic's first ledger before the lookup of the compaction.
        """
        self.horizon, self.last_kept = horizon, last_kept
        self._first_ledger = first_ledger

    @property
    def first_ledger(self) -> int:
        """The topic's first ledger, -1 for none."""
        return next(iter(self._chain.ledger_ids), -1)

    @property
    def outdated(self) -> bool:
        """Whether ledgers were removed since the compaction was applied: a newer one may have their entries."""
        return self.first_ledger != self._first_ledger

    def kept(self, position: Position) -> bool:
        """Whether the next entry from a position on is in the compacted ledger."""
        return self.last_kept is not None and position <= self.last_kept

    def after(self, position: Position) -> Position:
        """Return the next position."""
        following = Position(position.ledger_id, position.entry_id + 1)
        return following if self.kept(following) else self._chain.after(self._beyond(position))

    def at_or_after(self, position: Position) -> Position:
        """Return the position itself if it has, may have or may get an entry; else the next one."""
        if self.kept(position) or self.outdated:
            return position
        if self.horizon is not None and position <= self.horizon:
            return self._chain.after(self.horizon)
        return self._chain.at_or_after(position)

    def readable(self, position: Position) -> bool:
        """Whether an entry from this position on may be read now."""
        return not self.outdated and (self.kept(position) or self._chain.readable(position))

    def _beyond(self, position: Position) -> Position:
        return position if self.horizon is None else max(position, self.horizon)

    def covers_acks(self, mark_delete: Position) -> bool:
        """Whether an owner's mark-delete position covers the acks of all entries that are read here.

        A position before a ledger's first entry may only result from the removal of earlier ledgers, with kept entries.
        """
        return mark_delete.entry_id >= 0

    # As in the topic itself

    @property
    def limit(self) -> Position | None:
        """The last readable entry; None without one."""
        limit = self._chain.limit
        if limit is None or (self.last_kept is not None and limit < self.last_kept):
            return self.last_kept
        return limit

    @property
    def ended(self) -> bool:
        """Whether the topic was terminated and its last entry is readable."""
        return self._chain.ended

    @property
    def ledger_ids(self) -> list[int]:
        """All ledgers of the topic, in order."""
        return self._chain.ledger_ids

    def distance(self, start: Position, end: Position) -> int:
        """Return the number of the topic's entries between two positions, including compacted ones in its ledgers."""
        return self._chain.distance(start, end)


class CompactedLog:
    """Reads a topic for all its compacted reads; otherwise as TopicLog.

    Args:
        log_: the topic.
        find: finds the current compaction; None without one.
    """

    def __init__(self, log_: TopicLog, find: Callable[[], Awaitable[Compaction | None]]) -> None:
        self.topic = log_.topic
        self.chain = CompactedChain(log_.chain)
        self._log = log_
        self._find = find
        self._compaction: Compaction | None = None
        self._blocks: OrderedDict[int, list[TopicEntry]] = OrderedDict()
        self._places: OrderedDict[Position, int] = OrderedDict()
        self._listeners: set[Callable[[], None]] = set()
        self._watch: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._refreshing = asyncio.Lock()
        self._refreshed_at: float | None = None
        log_.listen(self._topic_moved)

    async def opened(self) -> None:
        """Find the current compaction for a new reader.

        Raises:
            BookKeeperError: its ledger cannot be read.
            MetadataError: the metadata store does not answer.
        """
        await self._refresh(CACHE_TTL_S)
        if self._watch is None:
            self._watch = run_forever(self._watching, f"following the compactions of {self.topic}")

    def close(self) -> None:
        """Stop following compactions."""
        self._log.unlisten(self._topic_moved)
        if self._watch is not None:
            self._watch.cancel()

    @property
    def latest_batch(self) -> None:
        """None: readers of the compacted topic are at different positions."""
        return None

    @property
    def notifying(self) -> bool:
        """Whether the topic's listeners are being called."""
        return self._log.notifying

    def defer_to_notification(self, position: Position) -> bool:
        """Return False: each subscription reads by itself."""
        del position
        return False

    def listen(
        self, listener: Callable[[], None], *, latency_tolerant: bool = False, follow: Follow = Follow.ENTRIES
    ) -> None:
        """Call `listener` when more may be readable. It gets entries, whatever it needs: such reads are never split."""
        del follow
        self._listeners.add(listener)
        self._log.listen(listener, latency_tolerant=latency_tolerant)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Remove a listener."""
        self._listeners.discard(listener)
        self._log.unlisten(listener)

    def confirm(self, position: Position, *, counted: bool = True) -> None:
        """As TopicLog.confirm."""
        self._log.confirm(position, counted=counted)

    async def reload(self) -> None:
        """Read the topic's list of ledgers now.

        Raises:
            MetadataError: the metadata store does not answer.
        """
        await self._log.reload()

    # Reading

    def cached(self, first: Position, count: int) -> list[TopicEntry]:
        """Return the next cached entries from a position on: at most `count`, without a gap."""
        if self.chain.outdated:
            return []
        if not self.chain.kept(first):
            return self._log.cached(first, count)
        place = self._places.get(first)
        if place is None:
            return []
        block = self._blocks.get(place // BLOCK)
        if block is None:
            return []
        self._blocks.move_to_end(place // BLOCK)
        found = block[place % BLOCK :][:count]
        for index, entry in enumerate(found, place + 1):
            self._remember(Position(entry.position.ledger_id, entry.position.entry_id + 1), index)
        return found

    async def read(self, first: Position, count: int, *, exact: bool = False) -> list[TopicEntry]:
        """Read the next entries from a position on: at least one if there is one, at most `count`. It never is `exact`.

        Raises:
            BookKeeperError: they cannot be read now.
        """
        del exact
        if self.chain.outdated:
            return []
        if not self.chain.kept(first):
            return await self._log.read(first, count)
        compaction = self._compaction
        assert compaction is not None
        try:
            place = self._places.get(first)
            if place is None:
                place = await self._find_place(compaction, first)
            if place // BLOCK not in self._blocks:
                begin = place // BLOCK * BLOCK
                entries = await _read(compaction, begin, min(begin + BLOCK, compaction.entries) - 1)
                if compaction is self._compaction:
                    self._blocks[place // BLOCK] = entries
                    if len(self._blocks) > BLOCKS_KEPT:
                        self._blocks.popitem(last=False)
        except (NoSuchLedgerError, NoSuchEntryError):
            # Another compaction has replaced it, or will in a moment.
            self._wake.set()
            raise
        if compaction is not self._compaction:
            return []
        self._remember(first, place)
        return self.cached(first, count)

    def _remember(self, position: Position, place: int) -> None:
        self._places[position] = place
        self._places.move_to_end(position)
        if len(self._places) > MAX_PLACES:
            self._places.popitem(last=False)

    async def _find_place(self, compaction: Compaction, first: Position) -> int:
        """Return the index of the first entry at or after a position, by binary search; such an entry exists."""
        low, high = 0, compaction.entries - 1
        while low < high:
            middle = (low + high) // 2
            (entry,) = await _read(compaction, middle, middle)
            if entry.position < first:
                low = middle + 1
            else:
                high = middle
        return low

    # Compactions

    def _topic_moved(self) -> None:
        if self.chain.outdated:
            self._wake.set()

    async def _refresh(self, fresh_s: float = 0.0) -> None:
        """Look up the compaction, unless the last lookup is at most `fresh_s` seconds old."""
        async with self._refreshing:
            now = asyncio.get_running_loop().time()
            if self._refreshed_at is None or now - self._refreshed_at > fresh_s:
                await self._reload()
                self._refreshed_at = now

    async def _reload(self) -> None:
        first_ledger = self.chain.first_ledger
        found = await self._find()
        known = self._compaction
        if known is None or found is None or found.reader.ledger_id != known.reader.ledger_id:
            last_kept = None
            if found is not None and found.entries:
                (last,) = await _read(found, found.entries - 1, found.entries - 1)
                last_kept = last.position
            self._compaction = found
            self._blocks.clear()
            self._places.clear()
            if found is not None:
                log.info("found a compaction: topic=%s entries=%d horizon=%s", self.topic, found.entries, found.horizon)
        else:
            last_kept = self.chain.last_kept
        self.chain.compacted(None if found is None else found.horizon, last_kept, first_ledger)

    async def _watching(self) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), POLL_INTERVAL_S)
            self._wake.clear()
            try:
                await self._refresh()
            except (BookKeeperError, MetadataError, WireError) as error:
                log.info("lookup of the compaction failed, retrying: topic=%s error=%s", self.topic, error)
                await asyncio.sleep(1)
                self._wake.set()
                continue
            for listener in list(self._listeners):
                listener()


async def find_compaction(cluster: ClusterMetadata, pool: BookiePool, topic: TopicName) -> Compaction | None:
    """Find the current compaction: the cursor of Pulsar's compactor has its ledger and its horizon.

    The broker deletes the ledger of the former compaction when this cursor has moved, so the cursor is read again if its ledger
    does not exist. It stores the cursor at most once a second (measured, 4.0.8): after two compactions within a second the
    stored one may name a deleted ledger for a while, which is an error.

    Raises:
        MetadataError: the metadata store does not answer.
        BookKeeperError: the cursor cannot be read.
    """
    deleted: int | None = None
    while True:
        try:
            state = await read_cursor(cluster, pool, topic, COMPACTION_CURSOR)
            ledger_id = None if state is None else dict(state.properties).get(COMPACTED_LEDGER)
            if state is None or ledger_id is None:
                return None
            metadata = await cluster.ledger(ledger_id)
        except WireError as error:
            raise BookKeeperError(f"the compaction of {topic}: {error}") from error
        if metadata is not None:
            reader = LedgerReader(ledger_id, metadata, pool)
            return Compaction(reader, metadata.last_entry_id + 1, Position(*state.mark_delete))
        if deleted is not None and ledger_id <= deleted:
            raise NoSuchLedgerError(f"the compacted ledger {ledger_id} of {topic} was deleted")
        deleted = ledger_id


async def _read(compaction: Compaction, first: int, last: int) -> list[TopicEntry]:
    entries = []
    for stored in await compaction.reader.read(first, last):
        try:
            (ledger_id, entry_id), payload = decode_compacted(stored.payload)
        except WireError as error:
            raise BookKeeperError(f"entry {stored.entry_id} of compacted ledger {stored.ledger_id}: {error}") from error
        entry = TopicEntry(Entry(ledger_id, entry_id, entry_id - 1, 0, payload))
        entry.txn = None  # compaction keeps committed messages only
        entries.append(entry)
    return entries
