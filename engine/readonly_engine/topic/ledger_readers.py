"""The copies of a topic's ledgers on the bookies, each opened when it is first needed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from readonly_engine.bookkeeper.errors import BookKeeperError, NoSuchLedgerError
from readonly_engine.bookkeeper.ledger import LedgerReader
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Container

    from readonly_engine.bookkeeper.lac_follower import LacFollower
    from readonly_engine.bookkeeper.pool import BookiePool
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.small_map import SmallMap
    from readonly_engine.wire.entry import Entry

log = logging.getLogger(__name__)


class LedgerReaders:
    """Reads a topic's ledgers from the bookies, also after they were moved to other bookies.

    Args:
        cluster: the metadata.
        pool: connections to the bookies.
        tails: the followers of the open ledgers, which have readers of their own with the present metadata. The metadata of all
            others is read when it is needed.
    """

    __slots__ = ("_cluster", "_pool", "_readers", "_tails")

    def __init__(self, cluster: ClusterMetadata, pool: BookiePool, tails: SmallMap[int, LacFollower]) -> None:
        self._cluster = cluster
        self._pool = pool
        self._tails = tails
        self._readers: dict[int, LedgerReader] = {}

    def add(self, reader: LedgerReader) -> None:
        """Keep the reader of a ledger that is not open any more."""
        self._readers[reader.ledger_id] = reader

    def retain(self, known: Container[int]) -> None:
        """Forget all other ledgers: the topic does not have them any more."""
        for ledger_id in [ledger_id for ledger_id in self._readers if ledger_id not in known]:
            del self._readers[ledger_id]

    async def read(self, ledger_id: int, first: int, last: int) -> list[Entry]:
        """Read the entries from `first` to `last`, both included, in order.

        Raises:
            BookKeeperError: the bookies do not have the ledger, or do not answer.
        """
        tail = self._tails.get(ledger_id)
        reader = self._readers.get(ledger_id) if tail is None else tail.ledger
        if reader is None:
            reader = await self._open(ledger_id)
        try:
            return await reader.read(first, last)
        except NoSuchLedgerError:
            self._readers.pop(ledger_id, None)
            raise
        except BookKeeperError:
            if not await self._moved_away(ledger_id):
                raise
            return await (await self._open(ledger_id)).read(first, last)

    async def _moved_away(self, ledger_id: int) -> bool:
        """Whether a closed ledger was moved to other bookies, as by auto-recovery. Open ledgers are watched."""
        reader = self._readers.get(ledger_id)
        if ledger_id in self._tails or reader is None:
            return False
        try:
            metadata = await self._cluster.ledger(ledger_id)
        except (MetadataError, WireError):
            return False
        if metadata is None or metadata.ensembles == reader.metadata.ensembles:
            return False
        log.info("ledger was moved to other bookies: ledger=%d", ledger_id)
        self._readers.pop(ledger_id, None)
        return True

    async def _open(self, ledger_id: int) -> LedgerReader:
        try:
            metadata = await self._cluster.ledger(ledger_id)
        except (MetadataError, WireError) as error:
            raise BookKeeperError(f"ledger {ledger_id}: {error}") from error
        if metadata is None:
            raise NoSuchLedgerError(f"ledger {ledger_id} was deleted")
        return self._readers.setdefault(ledger_id, LedgerReader(ledger_id, metadata, self._pool))
