"""Entries of a task from bookies or tiered storage.

A ledger may be offloaded and removed from the bookies after the plan was made. If no bookie knows a ledger, the metadata store is
asked once more where it is.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from readonly_engine.bookkeeper.connect import BookieSecurity
from readonly_engine.bookkeeper.errors import BookKeeperError, NoSuchLedgerError, ReadFailedError, is_refusal
from readonly_engine.config.tiered import BOOKKEEPER_FIRST
from readonly_engine.metadata.connect import ClusterStores
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.net.tls import ClientTls
from readonly_engine.tiered.errors import TieredStorageError
from readonly_engine.tiered.storage import TieredStorage
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.managed_ledger_pb2 import OffloadContext

from readonly_spark.loop_thread import LoopThread
from readonly_spark.outages import is_transient
from readonly_spark.read.bookie_client import BookieClient
from readonly_spark.task import offload_path

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from readonly_engine.wire.entry import Entry

    from readonly_spark.task import LedgerLocation, TaskPlan

log = logging.getLogger(__name__)

T = TypeVar("T")

READ_BYTES: Final = 1 << 20
"""Target bytes of one read of tiered storage."""

LOOKUP_TIMEOUT_S: Final = 30.0
"""Deadline of one lookup of an offloaded ledger."""

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
        self._looked_up: dict[int, bytes] = {}
        """Offload contexts of ledgers that no bookie knew; empty for those that were not offloaded."""

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
        if not ledger.offload and not self._looked_up.get(ledger.ledger_id):
            assert ledger.metadata is not None
            try:
                for entries in self._bookies.read(ledger.ledger_id, ledger.metadata, first, last, entry_bytes):
                    first = entries[-1].entry_id + 1
                    yield entries
            except NoSuchLedgerError as error:
                if not self._offloaded_meanwhile(topic, ledger.ledger_id, error):
                    raise
            else:
                return
        if not ledger.offload:
            ledger = replace(ledger, offload=self._looked_up[ledger.ledger_id], metadata=None)
        context = OffloadContext.FromString(ledger.offload)
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

    def _offloaded_meanwhile(self, topic: str, ledger_id: int, error: NoSuchLedgerError) -> bool:
        """Look up whether a ledger that no bookie knows was offloaded after the plan was made.

        Raises:
            ReadFailedError: the metadata store does not answer, so it is not known whether the ledger is lost.
        """
        if ledger_id not in self._looked_up:
            try:
                self._looked_up[ledger_id] = self._on_loop(self._offload_context(topic, ledger_id), LOOKUP_TIMEOUT_S)
            except (MetadataError, WireError, OSError, ValueError) as why:  # no answer, or files of TLS or a login
                what = f"ledger {ledger_id}: {error}; whether it was offloaded meanwhile is unknown"
                raise ReadFailedError(
                    f"{what}: {str(why) or 'no answer'}; executors need access to the metadata store for that",
                    refused=not isinstance(why, TimeoutError) and not is_transient(why),
                ) from why
        return bool(self._looked_up[ledger_id])

    async def _offload_context(self, topic: str, ledger_id: int) -> bytes:
        """Return the serialized OffloadContext of a ledger; empty if it was not offloaded or is not in the topic's list."""
        options = self._options
        stores = ClusterStores(options.metadata_url, options.bookkeeper_metadata_url, options.metadata_security)
        await stores.start()
        try:
            info = await stores.cluster.topic(parse_topic_name(topic))
        finally:
            await stores.close()
        listed = [] if info is None else info.ledger_info
        contexts = [one.offload_context for one in listed if one.ledger_id == ledger_id]
        return b"".join(one.SerializeToString(deterministic=True) for one in contexts if one.complete)

    def _on_loop(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        if self._loop is None:
            self._loop = LoopThread()
        return self._loop.call(work, timeout_s)

    def _read_tiered(
        self, topic: str, ledger: LedgerLocation, context: OffloadContext, first: int, last: int, entry_bytes: float
    ) -> Iterator[list[Entry]]:
        size = max(1, int(READ_BYTES / max(entry_bytes, 1.0)))
        for begin in range(first, last + 1, size):
            end = min(begin + size - 1, last)
            yield self._on_loop(self._tiered_entries(topic, ledger.ledger_id, context, begin, end), READ_TIMEOUT_S)

    async def _tiered_entries(
        self, topic: str, ledger_id: int, context: OffloadContext, first: int, last: int
    ) -> list[Entry]:
        if self._tiered is None:
            self._tiered = TieredStorage(self._options.tiered)
        offloaded = await self._tiered.open(offload_path(parse_topic_name(topic)), ledger_id, context)
        return await offloaded.read(first, last, views=True)  # they are decoded at once
