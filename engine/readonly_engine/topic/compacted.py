"""A topic as compacted reads see it: its compacted ledger, then what compaction has not seen yet (CompactedTopicImpl)."""

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
"""Entries of a compacted ledger that are read at once."""

BLOCKS_KEPT = 16

MAX_PLACES = 10_000
"""Of so many positions it is kept where they are in the compacted ledger."""

CACHE_TTL_S = 0.2
"""Readers that come together share one look for the compaction."""

POLL_INTERVAL_S = 10.0
"""Between two looks for a new compaction. A ledger that goes away is a sign of one, and looked into at once."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a compaction has left.

    Attributes:
        reader: reads its ledger, which is closed.
        entries: how many entries that has.
        horizon: the last entry of the topic that it took in.
    """

    reader: LedgerReader
    entries: int
    horizon: Position


class CompactedChain(LedgerChain):
    """The ledgers of a topic, before them the entries that its compaction has kept. Pure.

    Which positions up to the last kept one have an entry is not known here: the next number follows each, as in a cursor.

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
        """Take a compaction.

        Args:
            horizon: the last entry that it took in; None for no compaction.
            last_kept: the last entry that it has kept; None for none.
            first_ledger: the topic's first ledger before the compaction was looked for.
        """
        self.horizon, self.last_kept = horizon, last_kept
        self._first_ledger = first_ledger

    @property
    def first_ledger(self) -> int:
        """The topic's first ledger, -1 for none."""
        return next(iter(self._chain.ledger_ids), -1)

    @property
    def outdated(self) -> bool:
        """Whether ledgers went away since the compaction was taken: a newer one may have what was in them."""
        return self.first_ledger != self._first_ledger

    def kept(self, position: Position) -> bool:
        """Whether the next entry, from a position on, is to be read from the compacted ledger."""
        return self.last_kept is not None and position <= self.last_kept

    def after(self, position: Position) -> Position:
        """The position that follows."""
        following = Position(position.ledger_id, position.entry_id + 1)
        return following if self.kept(following) else self._chain.after(self._beyond(position))

    def at_or_after(self, position: Position) -> Position:
        """The position itself where an entry is, may be, or may come to be; else the one that follows."""
        if self.kept(position) or self.outdated:
            return position
        if self.horizon is not None and position <= self.horizon:
            return self._chain.after(self.horizon)
        return self._chain.at_or_after(position)

    def readable(self, position: Position) -> bool:
        """Whether there is something to read from here on, now."""
        return not self.outdated and (self.kept(position) or self._chain.readable(position))

    def _beyond(self, position: Position) -> Position:
        return position if self.horizon is None else max(position, self.horizon)

    def says_acked(self, mark_delete: Position) -> bool:
        """Whether an owner's mark-delete position says what is acked of all that is read here.

        One before a ledger's first entry may only say that the ledgers before it are gone; of their entries some are kept.
        """
        return mark_delete.entry_id >= 0

    # As in the topic itself

    @property
    def limit(self) -> Position | None:
        """The last entry that may be read; None where there is none."""
        limit = self._chain.limit
        if limit is None or (self.last_kept is not None and limit < self.last_kept):
            return self.last_kept
        return limit

    @property
    def ended(self) -> bool:
        """Whether nothing will ever follow."""
        return self._chain.ended

    @property
    def ledger_ids(self) -> list[int]:
        """All ledgers of the topic, in order."""
        return self._chain.ledger_ids

    def distance(self, start: Position, end: Position) -> int:
        """How many entries of the topic lie between two positions; those that compaction took out count where they still are."""
        return self._chain.distance(start, end)


class CompactedLog:
    """Reads a topic for all its compacted reads; otherwise as TopicLog.

    Args:
        log_: the topic.
        find: finds the compaction that is in force now; None where there is none.
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
        """Find the compaction that is in force when a reader comes.

        Raises:
            BookKeeperError: its ledger cannot be read.
            MetadataError: it cannot be found.
        """
        await self._refresh(CACHE_TTL_S)
        if self._watch is None:
            self._watch = run_forever(self._watching, f"following the compactions of {self.topic}")

    def close(self) -> None:
        """Look for compactions no more."""
        self._log.unlisten(self._topic_moved)
        if self._watch is not None:
            self._watch.cancel()

    @property
    def latest_batch(self) -> None:
        """Those who read the compacted topic are at different places of it."""
        return None

    def await_notification(self, position: Position) -> bool:
        """Each reads for itself."""
        del position
        return False

    def listen(self, listener: Callable[[], None], *, latency_tolerant: bool = False) -> None:
        """Call when there may be more to read."""
        self._listeners.add(listener)
        self._log.listen(listener, latency_tolerant=latency_tolerant)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Call no more."""
        self._listeners.discard(listener)
        self._log.unlisten(listener)

    def confirm(self, position: Position) -> None:
        """Take the owner's word that an entry is confirmed."""
        self._log.confirm(position)

    async def reload(self) -> None:
        """Read the topic's list of ledgers now.

        Raises:
            MetadataError: the metadata store does not answer.
        """
        await self._log.reload()

    # Reading

    def cached(self, first: Position, count: int) -> list[TopicEntry]:
        """The next entries from a position on that are at hand: at most `count`, without a gap."""
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

    async def read(self, first: Position, count: int) -> list[TopicEntry]:
        """The next entries from a position on: at least one where there is one, at most `count`.

        Raises:
            BookKeeperError: they cannot be read now.
        """
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
            # Another compaction has taken its place, or will have in a moment.
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
        """The index of the first entry at or after a position, by binary search; there is one."""
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
        """Look for the compaction, unless that was done so shortly before."""
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
                log.info("%s: %d entries are left of those up to %s", self.topic, found.entries, found.horizon)
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
                log.info("%s: its compaction is not known: %s", self.topic, error)
                await asyncio.sleep(1)
                self._wake.set()
                continue
            for listener in list(self._listeners):
                listener()


async def find_compaction(cluster: ClusterMetadata, pool: BookiePool, topic: TopicName) -> Compaction | None:
    """The compaction that is in force: the cursor of Pulsar's compactor names its ledger and how far it went.

    Raises:
        MetadataError: the metadata store does not answer.
        BookKeeperError: the cursor cannot be read.
    """
    try:
        state = await read_cursor(cluster, pool, topic, COMPACTION_CURSOR)
        ledger_id = None if state is None else dict(state.properties).get(COMPACTED_LEDGER)
        if state is None or ledger_id is None:
            return None
        metadata = await cluster.ledger(ledger_id)
    except WireError as error:
        raise BookKeeperError(f"the compaction of {topic}: {error}") from error
    if metadata is None:
        raise NoSuchLedgerError(f"the compacted ledger {ledger_id} of {topic} was deleted")
    return Compaction(LedgerReader(ledger_id, metadata, pool), metadata.last_entry_id + 1, Position(*state.mark_delete))


async def _read(compaction: Compaction, first: int, last: int) -> list[TopicEntry]:
    entries = []
    for stored in await compaction.reader.read(first, last):
        try:
            (ledger_id, entry_id), payload = decode_compacted(stored.payload)
        except WireError as error:
            raise BookKeeperError(f"entry {stored.entry_id} of compacted ledger {stored.ledger_id}: {error}") from error
        entry = TopicEntry(Entry(ledger_id, entry_id, entry_id - 1, 0, payload))
        entry.txn = None  # what is compacted is committed
        entries.append(entry)
    return entries
