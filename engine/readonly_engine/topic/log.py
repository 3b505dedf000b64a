"""TopicLog: one topic as one ordered log that grows at its tail."""

from __future__ import annotations

import asyncio
import logging
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, Protocol

from readonly_engine.bookkeeper.lac_follower import LacFollower
from readonly_engine.bookkeeper.ledger import LedgerReader
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.small_map import SmallMap
from readonly_engine.topic.chain import LedgerChain
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.topic.ledger_readers import LedgerReaders
from readonly_engine.topic.owner_end import OwnerEnd
from readonly_engine.topic.position import Position
from readonly_engine.topic.shared_reads import SharedReads
from readonly_engine.topic.sources import LedgerSources, has_offloaded
from readonly_engine.topic.tail_batch import TailBatch
from readonly_engine.topic.tail_notifier import TailNotifier
from readonly_engine.topic.tail_polls import TailPolls
from readonly_engine.topic.view import Follow
from readonly_engine.waiting import await_shared
from readonly_engine.wire.entry_view import summarize

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from readonly_engine.bookkeeper.pool import BookiePool
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.metadata.store import Watch
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.tiered.storage import TieredStorage
    from readonly_engine.topic.cache import EntryCache
    from readonly_engine.topic.chain import ChainedLedger
    from readonly_engine.topic.dispatch_hold import DispatchLimit
    from readonly_engine.topic.owner_end import Lag
    from readonly_engine.wire.entry import Entry
    from readonly_engine.wire.ledgers import LedgerMetadata
    from readonly_engine.wire.managed_ledger_pb2 import ManagedLedgerInfo

log = logging.getLogger(__name__)

OPEN_TIMEOUT_S = 10.0

MAX_CACHED_BYTES = 1 << 20
"""Entries from one call are sent together; this limits the bytes for a client with a full write buffer."""


class TailFollower(Protocol):
    """Follows what the listeners of a log need of the tail."""

    def followed(self) -> None:
        """Handle a change of `TopicLog.followed`."""


class TopicLog:
    """Reads a topic from its first entry to its tail, and calls listeners when the tail moves.

    Args:
        topic: the topic, or the partition.
        cluster: the metadata.
        pool: connections to the bookies.
        cache: the cache of entries.
        owner_last_entry: asks the owner for the topic's last entry (None: unknown now); for clusters without explicit LAC.
        tiered: reads offloaded ledgers; None to read only the copies on bookies.
        on_deleted: called with the topic when the metadata store does not have it any more.
        chain: the topic's ledgers; None for a new chain.

    Attributes:
        topic: as above.
        chain: as above.
        owner_end: how far the owner counts the entries.
        followed: what the listeners need of the tail.
        follower: is called after a change of `followed`; None for nobody.
    """

    __slots__ = (
        "_cache",
        "_cluster",
        "_ledger_watches",
        "_notifier",
        "_on_deleted",
        "_opened",
        "_owner_last_entry",
        "_polls",
        "_pool",
        "_readers",
        "_reads",
        "_sources",
        "_splice",
        "_tails",
        "_tiered",
        "_watch",
        "chain",
        "followed",
        "follower",
        "owner_end",
        "topic",
    )

    def __init__(
        self,
        topic: TopicName,
        cluster: ClusterMetadata,
        pool: BookiePool,
        cache: EntryCache,
        owner_last_entry: Callable[[], Awaitable[Position | None]],
        tiered: TieredStorage | None = None,
        on_deleted: Callable[[TopicName], None] = lambda _: None,
        chain: LedgerChain | None = None,
    ) -> None:
        self.topic = topic
        self._on_deleted = on_deleted
        self.chain = LedgerChain() if chain is None else chain
        self._cluster = cluster
        self._cache = cache
        self._owner_last_entry = owner_last_entry
        self.owner_end = OwnerEnd(self.chain, owner_last_entry)
        self._polls = TailPolls()
        self._tails = self._polls.tails
        self._ledger_watches: SmallMap[int, Watch] = SmallMap()
        self._pool, self._tiered = pool, tiered
        # Made at the first read, or for an offloaded ledger: an idle topic is not read.
        self._readers: LedgerReaders | None = None
        self._sources: LedgerSources | None = None
        self._reads: SharedReads | None = None
        self._opened: asyncio.Future[None] | None = asyncio.get_running_loop().create_future()  # None once it is
        self._notifier = TailNotifier(self)
        self._splice: Lag | None = None
        self.followed = Follow.ENTRIES
        self.follower: TailFollower | None = None
        self._watch = cluster.watch_topic(self)

    # Following the topic

    async def opened(self) -> None:
        """Wait until the topic's ledgers are known.

        Raises:
            MetadataError: the metadata store did not answer in time.
        """
        if self._opened is None:
            return
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                await await_shared(self._opened)
        except TimeoutError as error:
            raise MetadataError(f"the ledgers of {self.topic} are not known after {OPEN_TIMEOUT_S:g} s") from error

    async def refresh(self) -> None:
        """Read the LAC of the last ledger now; without this its last entries are readable a little later.

        Raises:
            BookKeeperError: none of its bookies answers.
        """
        self._end_splice()
        for tail in list(self._tails.values()):
            tail.confirm((await tail.ledger.read_lac()).lac)

    async def reload(self) -> None:
        """Read the topic's list of ledgers now: a watch may be behind.

        Raises:
            MetadataError: the metadata store does not answer.
        """
        self.topic_changed(await self._cluster.topic(self.topic))

    def close(self) -> None:
        """Stop following the topic."""
        self._end_splice()
        self.owner_end.close()
        self._watch.stop()
        self._notifier.close()
        self._polls.close()
        for watch in self._ledger_watches.values():
            watch.stop()
        if self._reads is not None:
            self._reads.cancel()

    def listen(
        self, listener: Callable[[], None], *, latency_tolerant: bool = False, follow: Follow = Follow.ENTRIES
    ) -> None:
        """Call `listener` when more may be readable, or after the removal of ledgers.

        Args:
            listener: the callback.
            latency_tolerant: whether a delay of some 10 ms is acceptable while entries arrive (PAUSE_S).
            follow: what it needs; a later call replaces it.
        """
        self._end_splice()
        self._notifier.listen(listener, latency_tolerant=latency_tolerant, follow=follow)
        self._follow()

    def limit_dispatches(self, limit: DispatchLimit) -> None:
        """From now on, hold new entries for the owner's answer while `limit` is active. Entries can still be read."""
        self._end_splice()
        self._notifier.set_limit(limit)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Remove a listener."""
        self._end_splice()
        self._notifier.unlisten(listener)
        self._follow()

    def _follow(self) -> None:
        """Follow what the listeners need of the tail."""
        follow = self._notifier.follow
        if follow != self.followed:
            self.followed = follow
            self._polls.set_needed(needed=follow > Follow.LEDGERS)
            if self.follower is not None:
                self.follower.followed()

    @property
    def latest_batch(self) -> TailBatch | None:
        """The batch of the listeners' last call; None without readable new entries."""
        if self._splice is not None:
            self._splice.end()
        return self._notifier.latest_batch

    @property
    def notifying(self) -> bool:
        """Whether the listeners are being called."""
        return self._notifier.notifying

    @property
    def first(self) -> Position | None:
        """The first readable entry; None without one."""
        return self.chain.first

    @property
    def limit(self) -> Position | None:
        """The last readable entry; None without one."""
        return self.chain.limit

    def confirm(self, position: Position, *, counted: bool = True) -> None:
        """Confirm an entry according to the owner broker, which may be ahead of the bookies, or to another broker.

        Args:
            position: the entry.
            counted: whether the owner is known to count it. The LAC that another broker has read may be ahead of the owner.
        """
        if self._splice is not None:
            # A client may ask for the last message again and again.
            if self.chain.readable(position):
                self._splice.flush()
            else:
                self._splice.end()
        if counted:
            self.owner_end.confirm(position)
        tail = self._tails.get(position.ledger_id)
        if tail is not None:
            tail.confirm(position.entry_id)

    # Pushed entries

    @property
    def has_nearer_replicas(self) -> bool:
        """Whether some bookies of an open ledger are nearer than others, so that reads from them cross no zones."""
        return any(tail.ledger.has_nearer_replicas for tail in self._tails.values())

    @property
    def explicit_lac(self) -> bool | None:
        """Whether bookies have returned an explicit LAC of an open ledger; None without an open ledger."""
        return any(tail.explicit for tail in self._tails.values()) if self._tails else None

    def expect_push(self) -> None:
        """Send no polls for ledgers that are not known yet: `suspend_polls` or `expect_no_push` will follow soon."""
        self._polls.expect_push()

    def expect_no_push(self) -> None:
        """Poll bookies after `expect_push`, unless the owner pushes already."""
        self._polls.expect_no_push()

    def suspend_polls(self) -> None:
        """Send no more polls to bookies: the owner pushes each entry from the next one on (`push`)."""
        self._polls.suspend()

    def push_ended(self) -> None:
        """Handle the end of the owner's pushes: `suspend_polls` or `expect_no_push` will follow soon."""
        self._end_splice()
        self._polls.push_ended()

    def push(self, entries: list[TopicEntry], now: float, *, at_once: bool = False) -> None:
        """Accept entries that the owner has delivered together, in order. Owners deliver confirmed entries only.

        Args:
            entries: at least one.
            now: the loop's time.
            at_once: whether to dispatch them without an interval, so that a splice can take over.
        """
        if self._splice is not None:
            self._splice.end()
        first, last = entries[0], entries[-1]
        self.owner_end.confirm(last.position)
        if last.ledger_id == first.ledger_id and last.entry_id - first.entry_id == len(entries) - 1:
            self._push_run(entries, now, at_once=at_once)
            return
        begin = 0
        for end in range(1, len(entries) + 1):
            if end == len(entries) or entries[end].position != (
                entries[end - 1].ledger_id,
                entries[end - 1].entry_id + 1,
            ):
                self._push_run(entries[begin:end], now, at_once=at_once)
                begin = end

    def _push_run(self, entries: list[TopicEntry], now: float, *, at_once: bool) -> None:
        """Accept pushed entries of one ledger without a gap."""
        ledger_id, entry_id = entries[-1].position
        tail = self._tails.get(ledger_id)
        if tail is None:
            # Ahead of the topic's list of ledgers, whose watch is under way; or of a closed ledger, whose end is known.
            self._polls.on_pushed_ahead(ledger_id, entry_id)
        elif entry_id > tail.lac:
            if self._polls.timers:
                self._polls.suspend_new_ledger(ledger_id)
            together = len(entries) > 1
            tail.accept(entry_id, together=together)
            if self.chain.lac_advanced(ledger_id, entry_id):
                kept = self._cache.put_all(entries) if together else [self._cache.put(entries[0])]
                self._notifier.on_pushed(kept, now, flows=tail.flows(now), at_once=at_once)

    # Entries that bypass the log (broker/tail/tail_splice.py)

    def begin_splice(self, last: Position, splice: Lag, listener: Callable[[], None]) -> ChainedLedger | None:
        """Let the entries after this one bypass the log. At any other event than the next entry it ends the splice.

        The splice keeps `last_readable` of the ledger up to date, so the chain has no lag.

        Args:
            last: the last entry of the topic.
            splice: passes the entries on by `on_spliced` when it is flushed.
            listener: gets the entries; it must be the only one.

        Returns:
            The entries' ledger; None if something waits, so that entries must take the usual way.
        """
        tail = self._tails.get(last.ledger_id)
        ledger = self.chain.ledger(last.ledger_id)
        if (
            tail is None
            or ledger is None
            or tail.lac != last.entry_id
            or self._polls.timers
            or self.owner_end.waiting
            or self.chain.limit != last
            or not self._notifier.can_splice(last, listener)
        ):
            return None
        self._splice = self.owner_end.lag = splice
        return ledger

    def on_spliced(self, entry: TopicEntry) -> TailBatch:
        """Accept the last one of entries that have bypassed the log; return it as the latest batch.

        It is not cached yet: single entries in the cache would split later reads of all these entries.
        """
        last = entry.position
        self.owner_end.confirm(last)
        self._tails[last.ledger_id].accept(last.entry_id, together=False)
        batch = TailBatch([entry], Position(last.ledger_id, last.entry_id + 1), complete=True)
        self._notifier.on_spliced(batch)
        return batch

    def splice_ended(self) -> None:
        """Let no more entries bypass the log, and cache the last one."""
        self._splice = self.owner_end.lag = None
        if (batch := self._notifier.latest_batch) is not None:
            self._cache.put(batch.entries(batch.last, 1)[0])

    def _end_splice(self) -> None:
        if self._splice is not None:
            self._splice.end()

    def topic_changed(self, info: ManagedLedgerInfo | None) -> None:
        """Apply the topic's list of ledgers."""
        self._end_splice()
        before = set(self.chain.stored.ledger_ids)
        self.chain.topic_changed(info)
        if self._sources is not None or has_offloaded(info):
            self._ledger_sources().topic_changed(info)
        known = set(self.chain.stored.ledger_ids)
        gone = sorted(before - known)
        if gone and info is None:
            log.info("topic was deleted: topic=%s", self.topic)
            self._on_deleted(self.topic)
        elif gone:
            log.info(
                "ledgers were trimmed, or removed as empty: topic=%s count=%d last=%d", self.topic, len(gone), gone[-1]
            )
        if self._readers is not None:
            self._readers.retain(known)
        for ledger_id in [ledger_id for ledger_id in self._ledger_watches if ledger_id not in known]:
            self._forget_tail(ledger_id)
        for ledger_id in self.chain.stored.open_ledgers:
            if ledger_id not in self._ledger_watches:
                self._ledger_watches[ledger_id] = self._cluster.watch_ledger(ledger_id, self)
        if not self.chain.stored.open_ledgers:
            self._set_opened()
        self._notifier.on_limit_changed(at_once=True)

    def ledger_changed(self, ledger_id: int, metadata: LedgerMetadata | None) -> None:
        """Apply the metadata of an open ledger."""
        if metadata is None or ledger_id not in self._ledger_watches:
            # Deleted: the topic's list will lose it, too.
            return
        self._end_splice()
        tail = self._tails.get(ledger_id)
        if tail is not None:
            tail.ledger.update(metadata)
        self.chain.ledger_changed(ledger_id, metadata)
        if metadata.closed:
            self._forget_tail(ledger_id)
            if self._readers is not None:
                self._readers.add(LedgerReader(ledger_id, metadata, self._pool) if tail is None else tail.ledger)
        elif tail is not None:
            tail.update()
        else:
            self._polls.follow(ledger_id, LacFollower(LedgerReader(ledger_id, metadata, self._pool), self))
        self._set_opened()
        self._notifier.on_limit_changed(at_once=True)

    def _set_opened(self) -> None:
        if self._opened is not None:
            self._opened.set_result(None)
            self._opened = None

    # What followers of its open ledgers need (FollowedLog)

    @property
    def pause(self) -> float:
        """Seconds without need for new entries."""
        return self._notifier.pause

    @property
    def wants_entries(self) -> bool:
        """Whether entries are needed, and not only the LAC."""
        return self.followed is Follow.ENTRIES

    def lac_advanced(self, ledger_id: int, lac: int, entries: Sequence[Entry]) -> None:
        """Accept the LAC of an open ledger, and entries that came with it."""
        if entries and (self.followed is Follow.ENTRIES or entries[0].entry_id == lac):
            self._notifier.on_entries(self._cache.put_all([TopicEntry(entry) for entry in entries]))
        if self.chain.lac_advanced(ledger_id, lac) and self.followed > Follow.LEDGERS:
            self._notifier.on_limit_changed()

    async def ask_owner(self) -> None:
        """Ask the owner for the topic's last entry, and confirm it."""
        if (last := await self._owner_last_entry()) is not None:
            self.confirm(last)

    def _forget_tail(self, ledger_id: int) -> None:
        self._polls.forget(ledger_id)
        if (watch := self._ledger_watches.pop(ledger_id, None)) is not None:
            watch.stop()

    def defer_to_notification(self, position: Position) -> bool:
        """Whether the listeners will be called for an entry that is readable now: one read serves all of them."""
        self._end_splice()
        return self._notifier.defer_to_notification(position)

    # Reading

    def cached(self, first: Position, count: int) -> list[TopicEntry]:
        """Return the readable cached entries from `first` on, without a gap: at most `count`, about 1 MiB."""
        self._end_splice()
        found: list[TopicEntry] = []
        position = first
        while (run := self.chain.run(position, count - len(found))) is not None:
            piece = self._cache.run(position.ledger_id, *run)
            found += piece
            if len(piece) <= run[1] - run[0]:
                break
            position = self.chain.after(Position(position.ledger_id, run[1]))
        if summarize(found)[1] > MAX_CACHED_BYTES:
            sizes = accumulate(entry.size for entry in found)
            return found[: 1 + sum(1 for _ in takewhile(MAX_CACHED_BYTES.__gt__, sizes))]
        return found

    async def read(self, first: Position, count: int, *, exact: bool = False) -> list[TopicEntry]:
        """Read entries from `first` on, in order: at least one if one is readable, at most `count`.

        Concurrent callers share one read of an entry. A large read also reads later entries into the cache, unless it is `exact`.

        Raises:
            BookKeeperError: the entry at `first` cannot be read now.
        """
        found = self.cached(first, count)
        if found:
            return found
        return await self._shared_reads().read(first, count, exact=exact)

    def _shared_reads(self) -> SharedReads:
        if self._reads is None:
            self._reads = SharedReads(self.chain, self._cache, self._ledger_sources())
        return self._reads

    def _ledger_sources(self) -> LedgerSources:
        if self._sources is None:
            self._readers = LedgerReaders(self._cluster, self._pool, self._tails)
            self._sources = LedgerSources(self.topic, self._readers.read, self._tiered)
        return self._sources
