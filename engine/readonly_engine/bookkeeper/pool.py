"""Connections to the bookies of a cluster, opened on demand, and the state of each bookie."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Final, Generic

from readonly_engine.bookkeeper.connect import OPEN_BOOKIES, Connection, open_connection
from readonly_engine.bookkeeper.connection import BookieConnection
from readonly_engine.bookkeeper.connection_v2 import BatchConnection
from readonly_engine.bookkeeper.empty_waits import EmptyWaits
from readonly_engine.bookkeeper.errors import BatchUnsupportedError, BookieUnavailableError
from readonly_engine.bookkeeper.replicas import ReplicaOrder
from readonly_engine.bookkeeper.request_budget import RequestBudget
from readonly_engine.bookkeeper.statistics import ReadStatistics
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.waiting import await_shared
from readonly_engine.wire.framing import STORED_FRAME_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.bookkeeper.connect import BookieSecurity
    from readonly_engine.wire.framing import StoredFrameLimit

log = logging.getLogger(__name__)

RETRY_AFTER_S: Final = 1.0
"""Time until the next attempt at an unreachable bookie: the other replicas are quicker."""

BATCH_REFUSALS: Final = 2
"""Consecutive connections that a bookie without support for batch reads closes at a batch read.

One may come from a bookie that went down just then; that one does not accept the next connection.
"""

BATCH_RETRY_S: Final = 600.0
"""Time until the next attempt of a batch read at a bookie without support: it may have been upgraded."""


class BookiePool:
    """Opens up to four connections for each bookie.

    Reads, long polls, batches and reads at the tail do not queue behind each other's replies.

    Args:
        resolve: from a bookie id to its host and port; may raise MetadataError.
        security: TLS and login.
        locality: location of this reader, as `/zone/rack`. Bookies that share most of it are read first, if `replica_order`
            knows their locations. Empty: no preference.
        limit: the longest frame of a bookie, from the cluster's brokers; None for the default.

    Attributes:
        statistics: what was asked of each bookie.
        replica_order: the order in which replicas are asked.
        empty_waits: waits of all ledgers for bookies without data.
    """

    def __init__(
        self,
        resolve: Callable[[str], Awaitable[tuple[str, int]]],
        *,
        security: BookieSecurity = OPEN_BOOKIES,
        locality: str = "",
        limit: StoredFrameLimit | None = None,
    ) -> None:
        def reads(name: str) -> BookieConnection:
            limit_bytes = STORED_FRAME_BYTES if limit is None else limit.bytes
            return BookieConnection(name, limit_bytes, self.statistics.of(name))

        def batches(name: str) -> BatchConnection:
            limit_bytes = STORED_FRAME_BYTES if limit is None else limit.bytes
            return BatchConnection(name, limit_bytes, self.statistics.of(name))

        async def connect(make: Callable[[str], Connection], bookie_id: str) -> Connection:
            try:
                host, port = await resolve(bookie_id)
            except MetadataError as error:
                raise BookieUnavailableError(str(error)) from error
            try:
                return await open_connection(make, bookie_id, host, port, security)
            except BookieUnavailableError:
                self.statistics.of(bookie_id).failures += 1
                raise

        self.statistics = ReadStatistics()
        self.replica_order = ReplicaOrder(locality, random.random)
        self._reads = _Connections(lambda bookie_id: connect(reads, bookie_id))
        self._polls = _Connections(lambda bookie_id: connect(reads, bookie_id))
        self._batches = _Connections(lambda bookie_id: connect(batches, bookie_id))
        self._tails = _Connections(lambda bookie_id: connect(batches, bookie_id))
        self.empty_waits = EmptyWaits()
        self._refusals: dict[str, int] = {}
        self._no_batches_until: dict[str, float] = {}
        self._request_budget: dict[str, RequestBudget] = {}

    def ready(self, bookie_id: str) -> BookieConnection | None:
        """Return the connection for reads if it is open already."""
        return self._reads.ready(bookie_id)

    async def for_reads(self, bookie_id: str) -> BookieConnection:
        """Return the connection for reads.

        Raises:
            BookieUnavailableError: the bookie cannot be reached.
        """
        return self._reads.ready(bookie_id) or await self._reads.get(bookie_id)

    async def for_polls(self, bookie_id: str) -> BookieConnection:
        """Return the connection for long polls.

        Raises:
            BookieUnavailableError: the bookie cannot be reached.
        """
        return self._polls.ready(bookie_id) or await self._polls.get(bookie_id)

    async def for_batches(self, bookie_id: str) -> BatchConnection:
        """Return the connection for batch reads.

        Raises:
            BookieUnavailableError: the bookie cannot be reached.
            BatchUnsupportedError: it does not support batch reads.
        """
        self._expect_batches(bookie_id)
        return self._batches.ready(bookie_id) or await self._batches.get(bookie_id)

    async def for_tails(self, bookie_id: str) -> BatchConnection:
        """Return the connection for batch reads at the tail, which must not wait for large batches.

        Raises:
            BookieUnavailableError: the bookie cannot be reached.
            BatchUnsupportedError: it does not support batch reads.
        """
        self._expect_batches(bookie_id)
        return self._tails.ready(bookie_id) or await self._tails.get(bookie_id)

    def _expect_batches(self, bookie_id: str) -> None:
        if not self.knows_batches(bookie_id):
            raise BatchUnsupportedError(f"bookie {bookie_id} does not support batch reads (BookKeeper before 4.17)")

    def knows_batches(self, bookie_id: str) -> bool:
        """Whether to send batch reads to the bookie: not within BATCH_RETRY_S after it has closed connections at them."""
        until = self._no_batches_until.get(bookie_id)
        return until is None or asyncio.get_running_loop().time() >= until

    def refused_batch(self, connection: BatchConnection) -> None:
        """Record that a batch read ended with its connection; called once or more for each such connection."""
        bookie_id = connection.name
        kept = self._batches.forget(bookie_id, connection) or self._tails.forget(bookie_id, connection)
        if not connection.refused or not kept:
            return
        refusals = self._refusals[bookie_id] = self._refusals.get(bookie_id, 0) + 1
        if refusals >= BATCH_REFUSALS:
            self._no_batches_until[bookie_id] = asyncio.get_running_loop().time() + BATCH_RETRY_S
            log.info("bookie does not support batch reads, reading entries one by one: bookie=%s", bookie_id)

    def answered_batch(self, bookie_id: str) -> None:
        """Record a reply to a batch read."""
        if self._refusals:
            self._refusals.pop(bookie_id, None)

    def request_budget(self, bookie_id: str) -> RequestBudget:
        """Return the budget of concurrent requests of a bookie."""
        found = self._request_budget.get(bookie_id)
        if found is None:
            found = self._request_budget[bookie_id] = RequestBudget()
        return found

    def close(self) -> None:
        """Close every connection."""
        for connections in (self._reads, self._polls, self._batches, self._tails):
            connections.close()

    async def wait_closed(self) -> None:
        """After `close`: wait until connections that were being opened are closed too, before the event loop ends."""
        for connections in (self._reads, self._polls, self._batches, self._tails):
            await connections.wait_closed()
        await asyncio.sleep(0)  # transports call connection_lost in the next iteration of the loop


class _Connections(Generic[Connection]):
    """One connection of one kind for each bookie; concurrent callers share its opening."""

    def __init__(self, connect: Callable[[str], Awaitable[Connection]]) -> None:
        self._connect = connect
        self._open: dict[str, Connection] = {}
        self._opening: dict[str, asyncio.Task[Connection]] = {}
        self._failed: dict[str, tuple[float, BookieUnavailableError]] = {}
        self._closed = False

    def ready(self, bookie_id: str) -> Connection | None:
        connection = self._open.get(bookie_id)
        return None if connection is None or connection.closed else connection

    async def get(self, bookie_id: str) -> Connection:
        if self._closed:
            raise BookieUnavailableError(f"bookie {bookie_id} cannot be read: the connections were closed")
        now = asyncio.get_running_loop().time()
        failed = self._failed.get(bookie_id)
        if failed is not None and now - failed[0] < RETRY_AFTER_S:
            raise failed[1]
        opening = self._opening.get(bookie_id)
        if opening is None:
            opening = self._opening[bookie_id] = asyncio.create_task(self._keep(bookie_id))
            opening.add_done_callback(lambda _: self._opening.pop(bookie_id))
        # A cancelled caller must not cancel it for the others.
        return await await_shared(opening)

    def forget(self, bookie_id: str, connection: Connection) -> bool:
        """Drop a closed connection; return whether it was still the current one."""
        if self._open.get(bookie_id) is not connection:
            return False
        del self._open[bookie_id]
        return True

    def close(self) -> None:
        self._closed = True
        for task in self._opening.values():
            task.cancel()
        for connection in self._open.values():
            connection.close()

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._opening.values(), return_exceptions=True)

    async def _keep(self, bookie_id: str) -> Connection:
        try:
            connection = await self._connect(bookie_id)
        except BookieUnavailableError as error:
            self._failed[bookie_id] = (asyncio.get_running_loop().time(), error)
            raise
        self._failed.pop(bookie_id, None)
        self._open[bookie_id] = connection
        return connection
