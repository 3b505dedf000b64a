"""Committed and aborted transactions of topics (PIP-31), for planning: their markers follow the messages.

The driver scans a topic with transactions from its owner's last snapshot on, or from its first entry without a usable one. A
stream resumes from its last scan.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.topic.log import TopicLog
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.topic.reading import TopicReader
from readonly_engine.topic.transactions import TransactionIndex

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_engine.bookkeeper.errors import BookKeeperError
    from readonly_engine.bookkeeper.pool import BookiePool
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.tiered.storage import TieredStorage
    from readonly_engine.topic.cache import EntryCache
    from readonly_engine.topic.entries import TopicEntry

    from readonly_spark.plan.snapshots import Snapshot, SnapshotCatalog

log = logging.getLogger(__name__)

LOG_EVERY_S: Final = 30.0
"""Interval of the log lines of one scan, in seconds."""

_CHECK_ENTRIES: Final = 1000
"""Entries between two looks at the clock."""


class TopicTransactions:
    """The transactions of one topic, up to the last scanned entry.

    Args:
        snapshot: what the owner knew; None to scan from the first entry on.
    """

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        start = EARLIEST
        if snapshot is not None and snapshot.position > EARLIEST:
            start = Position(snapshot.position.ledger_id, snapshot.position.entry_id + 1)
        self._before = {} if snapshot is None else dict(snapshot.aborted)
        self._begin = start
        self._first = start
        self.index = TransactionIndex(start, self._before)
        self._open: defaultdict[tuple[int, int], set[int]] = defaultdict(set)  # ledgers with messages of each
        self._aborted: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)  # by ledger

    @property
    def limit(self) -> Position:
        """The first entry that must not be read yet: every transaction before it has ended."""
        return self.index.first_open or max(self.index.next, self._first)

    def aborted(self, ledger_id: int) -> frozenset[tuple[int, int]]:
        """Return the aborted transactions with messages in a ledger, and perhaps others."""
        found = set(self._aborted.get(ledger_id, ()))
        if ledger_id <= self._begin.ledger_id:
            found.update(txn for txn, last in self._before.items() if last >= ledger_id)
        return frozenset(found)

    async def advance(self, topic_log: TopicLog) -> None:
        """Scan up to the current end of the topic. What was scanned is kept on an error.

        Raises:
            BookKeeperError: an entry cannot be read.
        """
        count, logged_at = 0, time.monotonic()
        async for entry in TopicReader(topic_log, self.index.next).entries():
            self.feed(entry)
            count += 1
            if count % _CHECK_ENTRIES == 0 and time.monotonic() - logged_at > LOG_EVERY_S:
                logged_at = time.monotonic()
                log.warning(
                    "%s: searched %d entries for transactions, up to %s", topic_log.topic, count, entry.position
                )

    def feed(self, entry: TopicEntry) -> None:
        """Add the next entry of the topic. Only ids of open and of aborted transactions are kept."""
        txn, ledger_id = entry.txn, entry.position.ledger_id
        if txn is not None and not entry.marker:
            if self.index.aborted(txn):
                self._aborted[ledger_id].add(txn)
            else:
                self._open[txn].add(ledger_id)
        elif txn is not None:
            ledger_ids = self._open.pop(txn, set())
            for one in ledger_ids if entry.aborts else ():
                self._aborted[one].add(txn)
        self.index.feed((entry,))

    def trimmed(self, first_ledger: int) -> None:
        """Forget what belongs to ledgers before this one, the first that exists."""
        self._first = Position(first_ledger, 0)
        self.index.trimmed(first_ledger)
        self._before = {txn: last for txn, last in self._before.items() if last >= first_ledger}
        for ledger_id in [ledger_id for ledger_id in self._aborted if ledger_id < first_ledger]:
            del self._aborted[ledger_id]
        for ledger_ids in self._open.values():
            ledger_ids.difference_update([one for one in ledger_ids if one < first_ledger])


class TransactionCatalog:
    """The transactions of all topics of a query.

    Args:
        cluster: Pulsar's metadata.
        pool: connections to the bookies.
        cache: the cache of entries.
        tiered: reads offloaded ledgers.
        snapshots: the owners' snapshots.
    """

    def __init__(
        self,
        cluster: ClusterMetadata,
        pool: BookiePool,
        cache: EntryCache,
        tiered: TieredStorage,
        snapshots: SnapshotCatalog,
    ) -> None:
        self._cluster = cluster
        self._pool = pool
        self._cache = cache
        self._tiered = tiered
        self._snapshots = snapshots
        self._scans: dict[str, TopicTransactions] = {}

    @property
    def progress(self) -> tuple[tuple[str, Position], ...]:
        """How far each topic was scanned."""
        return tuple((name, scan.index.next) for name, scan in self._scans.items())

    def scanned(self, name: str) -> TopicTransactions | None:
        """Return the result of a topic's last scan; None for a topic without transactions."""
        return self._scans.get(name)

    async def scan(self, name: str) -> TopicTransactions | None:
        """Scan a topic up to its end and return its transactions; None for a topic without transactions.

        Raises:
            MetadataError: the metadata store does not answer.
            BookKeeperError: entries cannot be read.
        """
        scan = self._scans.get(name)
        topic = parse_topic_name(name)
        if scan is None and not self._snapshots.knows(topic):
            return None
        topic_log = TopicLog(topic, self._cluster, self._pool, self._cache, _no_owner, self._tiered)
        try:
            if scan is None:
                scan = self._scans[name] = TopicTransactions(await self._snapshots.read(topic))
            await topic_log.opened()
            await topic_log.refresh()
            if topic_log.chain.ledger_ids:
                scan.trimmed(topic_log.chain.ledger_ids[0])
            await scan.advance(topic_log)
        finally:
            topic_log.close()
        return scan

    async def refresh_topics(self, namespaces: Iterable[tuple[str, str]]) -> dict[tuple[str, str], BookKeeperError]:
        """Find the topics of namespaces with transactions; see SnapshotCatalog.refresh."""
        return await self._snapshots.refresh(namespaces)


async def _no_owner() -> None:
    """Query no owner broker."""
