"""A few entries of ledgers for planning: messages per entry, the age of an unread message, and incomplete messages."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.bookkeeper.ledger import LedgerReader
from readonly_engine.tiered.errors import TieredStorageError
from readonly_engine.wire.batch import decode_stored_entry
from readonly_engine.wire.compacted import decode_compacted
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.managed_ledger_pb2 import OffloadContext
from readonly_engine.wire.message import decode_stored

from readonly_spark.task import offload_path

if TYPE_CHECKING:
    from readonly_engine.bookkeeper.pool import BookiePool
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.tiered.storage import TieredStorage
    from readonly_engine.wire.entry import Entry

    from readonly_spark.plan.topic_state import ReadableLedger

log = logging.getLogger(__name__)

MAX_REMEMBERED_LEDGERS: Final = 10_000
"""Ledgers whose estimate is kept."""


class EntrySampler:
    """Reads a few entries from bookies or tiered storage.

    Args:
        cluster: Pulsar's metadata.
        pool: connections to the bookies.
        tiered: reads offloaded ledgers.
    """

    def __init__(self, cluster: ClusterMetadata, pool: BookiePool, tiered: TieredStorage) -> None:
        self._cluster = cluster
        self._pool = pool
        self._tiered = tiered
        self._known: OrderedDict[int, tuple[int, float]] = OrderedDict()

    async def messages_per_entry(self, topic: TopicName, ledger: ReadableLedger) -> float:
        """Estimate from a few entries; 1 if they cannot be read. A ledger is sampled again when it has twice as many entries."""
        last, known = self._known.get(ledger.ledger_id, (-1, 1.0))
        if last >= 0 and ledger.last <= 2 * last + 1:
            return known
        found = await self._entries(topic, ledger, [(one, one) for one in sorted({0, ledger.last // 2, ledger.last})])
        try:
            counts = [decode_stored(entry.payload).messages for entry in found]
        except WireError as error:
            log.info("ledger %d: cannot sample the messages per entry: %s", ledger.ledger_id, error)
            counts = []
        average = max(sum(counts) / len(counts), 1.0) if counts else 1.0
        self._known[ledger.ledger_id] = (ledger.last, average)
        self._known.move_to_end(ledger.ledger_id)
        if len(self._known) > MAX_REMEMBERED_LEDGERS:
            self._known.popitem(last=False)
        return average

    async def publish_time(self, topic: TopicName, ledger: ReadableLedger, entry_id: int) -> int | None:
        """Return the publish time of an entry's producer in ms since the epoch; None if the entry cannot be read."""
        for entry in await self.entries(topic, ledger, entry_id, entry_id):
            try:
                payload = bytes(entry.payload)
                if ledger.compacted:
                    payload = decode_compacted(payload)[1]
                return int(decode_stored_entry(payload).metadata.publish_time)
            except WireError as error:
                log.info("ledger %d: entry %d: %s", ledger.ledger_id, entry_id, error)
        return None

    async def entries(self, topic: TopicName, ledger: ReadableLedger, first: int, last: int) -> list[Entry]:
        """Return the entries from `first` to `last`, both included; none if one of them cannot be read now."""
        return await self._entries(topic, ledger, [(first, last)])

    async def _entries(self, topic: TopicName, ledger: ReadableLedger, wanted: list[tuple[int, int]]) -> list[Entry]:
        """Return ranges of entries, both ends included; none if one of them cannot be read now."""
        for read in (self._from_bookies, self._offloaded):
            found: list[Entry] = []
            try:
                for first, last in wanted:
                    found += await read(topic, ledger, first, last)
            except (BookKeeperError, TieredStorageError, WireError) as error:
                log.info("ledger %d: cannot read a sample: %s", ledger.ledger_id, error)
                continue
            if found:
                return found
        return []

    async def _from_bookies(self, topic: TopicName, ledger: ReadableLedger, first: int, last: int) -> list[Entry]:
        """Return entries; none if the bookies' copy was deleted."""
        del topic
        metadata = await self._cluster.ledger(ledger.ledger_id)
        if metadata is None:
            return []
        return list(await LedgerReader(ledger.ledger_id, metadata, self._pool).read(first, last))

    async def _offloaded(self, topic: TopicName, ledger: ReadableLedger, first: int, last: int) -> list[Entry]:
        """Return entries; none if the ledger was not offloaded."""
        if not ledger.offload:
            return []
        context = OffloadContext.FromString(ledger.offload)
        offloaded = await self._tiered.open(offload_path(topic), ledger.ledger_id, context)
        return list(await offloaded.read(first, last))
