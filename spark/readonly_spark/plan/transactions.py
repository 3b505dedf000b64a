"""Committed and aborted transactions of topics (PIP-31), for planning: their markers follow the messages.

An owner broker writes a snapshot to a system topic of the namespace before it stores a topic's first message of a transaction
(TopicTransactionBuffer, Pulsar 4.0.8). A topic without a snapshot has no transactions and is not scanned. The driver scans the
other topics once from their first entry on; a stream resumes from its last scan.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from readonly_engine.bookkeeper.errors import BookKeeperError, NoSuchEntryError, NoSuchLedgerError
from readonly_engine.bookkeeper.ledger import LedgerReader
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.topic.compacted import find_compaction
from readonly_engine.topic.log import TopicLog
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.topic.reading import TopicReader
from readonly_engine.topic.transactions import TransactionIndex
from readonly_engine.wire.compacted import decode_compacted
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.message import decode_metadata, decode_stored

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_engine.bookkeeper.pool import BookiePool
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.tiered.storage import TieredStorage
    from readonly_engine.topic.cache import EntryCache

log = logging.getLogger(__name__)

SNAPSHOTS: Final = (
    "__transaction_buffer_snapshot",
    "__transaction_buffer_snapshot_indexes",
    "__transaction_buffer_snapshot_segments",
)
"""The system topics of a namespace with the owner brokers' snapshots (SystemTopicNames)."""

READ_ENTRIES: Final = 500


class TopicTransactions:
    """The transactions of one topic, up to the last scanned entry.

    Args:
        start: the first entry to scan.
    """

    def __init__(self, start: Position) -> None:
        self.index = TransactionIndex(start)
        self._seen: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)

    @property
    def limit(self) -> Position:
        """The first entry that must not be read yet: every transaction before it has ended."""
        return self.index.limit

    def aborted(self, ledger_id: int) -> frozenset[tuple[int, int]]:
        """Return the aborted transactions with messages in a ledger."""
        return frozenset(txn for txn in self._seen.get(ledger_id, ()) if self.index.aborted(txn))

    async def advance(self, topic_log: TopicLog) -> None:
        """Scan up to the current end of the topic.

        Raises:
            BookKeeperError: an entry cannot be read.
        """
        async for entry in TopicReader(topic_log, self.index.next).entries():
            if entry.txn is not None and not entry.marker:
                self._seen[entry.position.ledger_id].add(entry.txn)
            self.index.feed((entry,))


class TransactionCatalog:
    """The transactions of all topics of a query.

    Args:
        cluster: Pulsar's metadata.
        pool: connections to the bookies.
        cache: the cache of entries.
        tiered: reads offloaded ledgers.
    """

    def __init__(self, cluster: ClusterMetadata, pool: BookiePool, cache: EntryCache, tiered: TieredStorage) -> None:
        self._cluster = cluster
        self._pool = pool
        self._cache = cache
        self._tiered = tiered
        self._scans: dict[str, TopicTransactions] = {}
        self._with_transactions: dict[str, set[str]] = {}
        self._scanned_to: dict[str, Position] = {}

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
        if scan is None:
            if name not in self._with_transactions.get(f"{topic.tenant}/{topic.namespace}", ()):
                return None
            scan = self._scans[name] = TopicTransactions(EARLIEST)
        topic_log = TopicLog(topic, self._cluster, self._pool, self._cache, _no_owner, self._tiered)
        try:
            await topic_log.opened()
            await topic_log.refresh()
            await scan.advance(topic_log)
        finally:
            topic_log.close()
        return scan

    async def refresh_topics(self, namespaces: Iterable[tuple[str, str]]) -> dict[tuple[str, str], BookKeeperError]:
        """Find the topics of namespaces with transactions.

        Returns:
            The errors of namespaces whose snapshots cannot be read now.

        Raises:
            MetadataError: the metadata store does not answer.
        """
        failed: dict[tuple[str, str], BookKeeperError] = {}

        async def one(tenant: str, namespace: str) -> None:
            found = self._with_transactions.setdefault(f"{tenant}/{namespace}", set())
            for topic in await self._cluster.topics(tenant, namespace):
                if topic.base.local_name in SNAPSHOTS:
                    try:
                        found |= await self._topics_with_snapshots(topic)
                    except BookKeeperError as error:
                        failed[tenant, namespace] = error

        await asyncio.gather(*(one(*name) for name in sorted(set(namespaces))))
        return failed

    async def _topics_with_snapshots(self, topic: TopicName) -> set[str]:
        """Return the topics with snapshots in the entries since the last call.

        The last entry of an open ledger counts even if it is not confirmed yet: scanning a topic needlessly costs little.
        """
        keys: set[str] = set()
        start = self._scanned_to.get(str(topic))
        if start is None:
            start = EARLIEST
            compaction = await find_compaction(self._cluster, self._pool, topic)
            if compaction is not None:
                for first in range(0, compaction.entries, READ_ENTRIES):
                    last = min(first + READ_ENTRIES, compaction.entries) - 1
                    for entry in await compaction.reader.read(first, last):
                        keys |= _key_of(decode_compacted(entry.payload)[1])
                start = compaction.horizon
        info = await self._cluster.topic(topic)
        for listed in () if info is None else sorted(info.ledger_info, key=lambda ledger: ledger.ledger_id):
            if listed.ledger_id < start.ledger_id:
                continue
            first = start.entry_id + 1 if listed.ledger_id == start.ledger_id else 0
            metadata = await self._cluster.ledger(listed.ledger_id)
            if metadata is None:
                continue
            reader = LedgerReader(listed.ledger_id, metadata, self._pool)
            last = metadata.last_entry_id if metadata.closed else (await reader.read_lac()).last_entry
            try:
                for begin in range(first, last + 1, READ_ENTRIES):
                    for entry in await reader.read(begin, min(begin + READ_ENTRIES - 1, last)):
                        keys |= _key_of(entry.payload)
                        start = Position(entry.ledger_id, entry.entry_id)
            except (NoSuchEntryError, NoSuchLedgerError) as error:
                log.info("%s: %s", topic, error)  # just trimmed, or not written yet
        self._scanned_to[str(topic)] = start
        return keys


def _key_of(payload: bytes) -> set[str]:
    try:
        key = decode_metadata(decode_stored(payload).payload).partition_key
    except WireError:
        return set()
    return {key} if isinstance(key, str) and key else set()


async def _no_owner() -> None:
    """Query no owner broker."""
