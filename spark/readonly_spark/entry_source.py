"""Where a task's entries come from: the bookies, or tiered storage, whichever has them."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from readonly_engine.bookkeeper.errors import BookKeeperError, ReadFailedError
from readonly_engine.bookkeeper.ledger import LedgerReader
from readonly_engine.bookkeeper.pool import BookiePool
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.tiered.config import BOOKKEEPER_FIRST
from readonly_engine.tiered.errors import TieredStorageError
from readonly_engine.tiered.storage import TieredStorage
from readonly_engine.tls import ClientTls
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.managed_ledger_pb2 import OffloadContext

from readonly_spark.blocking import LoopThread

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from readonly_engine.wire.entry import Entry

    from readonly_spark.task import TaskLedger, Work

log = logging.getLogger(__name__)

READ_BYTES: Final = 1 << 20
"""About so many bytes are asked for at once."""

READ_TIMEOUT_S: Final = 300.0
"""For one read with all its repetitions at other replicas; every request in it has a deadline of its own."""

_ROOT: Final = "/managed-ledgers/"


class EntrySource:
    """Reads entries for one task. Close it.

    Args:
        work: the task.
    """

    def __init__(self, work: Work) -> None:
        self._addresses = work.addresses
        self._options = work.options
        self._loop = LoopThread()
        self._pool: BookiePool | None = None
        self._tiered: TieredStorage | None = None

    def close(self) -> None:
        """Close all connections."""
        try:
            if self._pool is not None or self._tiered is not None:
                self._loop.call(self._close(), READ_TIMEOUT_S)
        finally:
            self._loop.stop()

    async def _close(self) -> None:
        if self._tiered is not None:
            self._tiered.close()
        if self._pool is not None:
            self._pool.close()
            await self._pool.wait_closed()

    def read(self, topic: str, ledger: TaskLedger, first: int, last: int, entry_bytes: float) -> Iterator[list[Entry]]:
        """The entries from `first` to `last`, both included, in order, in pieces.

        Args:
            topic: the topic or partition, in full.
            ledger: the ledger.
            first: the first entry.
            last: the last entry.
            entry_bytes: the average size of an entry, about.

        Raises:
            BookKeeperError: no copy of the ledger can be read.
        """
        size = max(1, int(READ_BYTES / max(entry_bytes, 1.0)))
        ahead: deque[asyncio.Future[list[Entry]] | object] = deque()
        begins = iter(range(first, last + 1, size))
        waiting: deque[int] = deque(begins)
        del ahead
        while waiting:
            begin = waiting.popleft()
            end = min(begin + size - 1, last)
            yield self._loop.call(self._read(topic, ledger, begin, end), READ_TIMEOUT_S)

    async def _read(self, topic: str, ledger: TaskLedger, first: int, last: int) -> list[Entry]:
        context = OffloadContext.FromString(ledger.offload) if ledger.offload else None
        copies = [False]
        if context is not None:
            copies = [True] if context.bookkeeper_deleted or ledger.metadata is None else [True, False]
            if len(copies) == 2 and self._options.tiered.read_priority == BOOKKEEPER_FIRST:
                copies.reverse()
        failures = []
        for from_tiered in copies:
            try:
                if from_tiered:
                    assert context is not None
                    if self._tiered is None:
                        self._tiered = TieredStorage(self._options.tiered)
                    path = parse_topic_name(topic).managed_ledger_path.removeprefix(_ROOT)
                    offloaded = await self._tiered.open(path, ledger.ledger_id, context)
                    return await offloaded.read(first, last)
                assert ledger.metadata is not None
                if self._pool is None:
                    tls = self._options.bookie_tls
                    self._pool = BookiePool(self._resolve, tls=None if tls is None else ClientTls(tls))
                return await LedgerReader(ledger.ledger_id, ledger.metadata, self._pool).read(first, last)
            except (BookKeeperError, TieredStorageError, WireError) as error:
                if len(copies) == 1 and isinstance(error, BookKeeperError):
                    raise
                failures.append(str(error))
        raise ReadFailedError(f"ledger {ledger.ledger_id}: {'; '.join(failures)}")

    async def _resolve(self, bookie_id: str) -> tuple[str, int]:
        try:
            return self._addresses[bookie_id]
        except KeyError:
            raise MetadataError(f"bookie {bookie_id} was not registered when the task was planned") from None
