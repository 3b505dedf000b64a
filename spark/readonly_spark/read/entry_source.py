"""Entries of a task from bookies or tiered storage."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from readonly_engine.bookkeeper.connect import BookieSecurity
from readonly_engine.bookkeeper.errors import BookKeeperError, ReadFailedError, is_refusal
from readonly_engine.config.tiered import BOOKKEEPER_FIRST
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.net.tls import ClientTls
from readonly_engine.tiered.errors import TieredStorageError
from readonly_engine.tiered.storage import TieredStorage
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.managed_ledger_pb2 import OffloadContext

from readonly_spark.loop_thread import LoopThread
from readonly_spark.read.bookie_client import BookieClient
from readonly_spark.task import offload_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from readonly_engine.wire.entry import Entry

    from readonly_spark.task import LedgerLocation, TaskPlan

log = logging.getLogger(__name__)

READ_BYTES: Final = 1 << 20
"""Target bytes of one read of tiered storage."""

READ_TIMEOUT_S: Final = 300.0
"""Deadline of one read of tiered storage with all its retries; each request in it has a deadline of its own."""


class EntrySource:
    """Read entries for one task. The caller must close it.

    Args:
        task: the task.
    """

    def __init__(self, task: TaskPlan) -> None:
        options = task.options
        self._options = options
        self._bookies = BookieClient(
            task.addresses,
            security=BookieSecurity(
                None if options.bookie_tls is None else ClientTls(options.bookie_tls),
                options.bookie_login_file,
                "bookieLoginFile",
            ),
            in_flight=options.reads_in_flight,
            bytes_per_second=task.read_rate,
        )
        self._loop: LoopThread | None = None
        self._tiered: TieredStorage | None = None

    def close(self) -> None:
        """Close all connections."""
        self._bookies.close()
        if self._loop is not None:
            self._loop.stop()

    def read(
        self, topic: str, ledger: LedgerLocation, first: int, last: int, entry_bytes: float
    ) -> Iterator[list[Entry]]:
        """Yield the entries from `first` to `last`, both included, in order.

        An offloaded ledger is read from the copy that the options prefer. If that fails, the rest is read from the other copy.

        Args:
            topic: the full name of the topic or partition.
            ledger: the ledger.
            first: the first entry.
            last: the last entry.
            entry_bytes: the estimated average size of an entry.

        Raises:
            BookKeeperError: no copy of the ledger can be read.
        """
        context = OffloadContext.FromString(ledger.offload) if ledger.offload else None
        if context is None:
            assert ledger.metadata is not None
            yield from self._bookies.read(ledger.ledger_id, ledger.metadata, first, last, entry_bytes)
            return
        copies = [True] if context.bookkeeper_deleted or ledger.metadata is None else [True, False]
        if len(copies) > 1 and self._options.tiered.read_priority == BOOKKEEPER_FIRST:
            copies.reverse()
        failures, refused = [], True
        for from_tiered in copies:
            try:
                for entries in (
                    self._read_tiered(topic, ledger, context, first, last, entry_bytes)
                    if from_tiered or ledger.metadata is None
                    else self._bookies.read(ledger.ledger_id, ledger.metadata, first, last, entry_bytes)
                ):
                    first = entries[-1].entry_id + 1
                    yield entries
            except (BookKeeperError, TieredStorageError, WireError) as error:
                where = "tiered storage" if from_tiered else "bookies"
                log.warning("cannot read ledger %d from %s: %s", ledger.ledger_id, where, error)
                failures.append(f"{where}: {error}")
                refused = refused and is_refusal(error)
            else:
                return
        raise ReadFailedError(f"offloaded ledger {ledger.ledger_id}: {'; '.join(failures)}", refused=refused)

    def _read_tiered(
        self, topic: str, ledger: LedgerLocation, context: OffloadContext, first: int, last: int, entry_bytes: float
    ) -> Iterator[list[Entry]]:
        if self._loop is None:
            self._loop = LoopThread()
        size = max(1, int(READ_BYTES / max(entry_bytes, 1.0)))
        for begin in range(first, last + 1, size):
            end = min(begin + size - 1, last)
            yield self._loop.call(self._tiered_entries(topic, ledger.ledger_id, context, begin, end), READ_TIMEOUT_S)

    async def _tiered_entries(
        self, topic: str, ledger_id: int, context: OffloadContext, first: int, last: int
    ) -> list[Entry]:
        if self._tiered is None:
            self._tiered = TieredStorage(self._options.tiered)
        offloaded = await self._tiered.open(offload_path(parse_topic_name(topic)), ledger_id, context)
        return await offloaded.read(first, last, views=True)  # they are decoded at once
