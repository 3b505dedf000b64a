"""Read a range of entries of one ledger from any replica: in batches if possible, else one by one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeVar

from readonly_engine import tracing
from readonly_engine.bookkeeper.errors import (
    BatchUnsupportedError,
    BookieBusyError,
    BookieUnavailableError,
    BookKeeperError,
    NoSuchEntryError,
    NoSuchLedgerError,
    ReadFailedError,
    failed_request,
)
from readonly_engine.bookkeeper.speculative_read import AllFailedError, speculative_read
from readonly_engine.wire.bookkeeper_pb2 import ENOENTRY, ENOLEDGER, EOK, ETOOMANYREQUESTS
from readonly_engine.wire.entry import decode_entry
from readonly_engine.wire.errors import DigestMismatchError, MalformedFrameError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
    from typing import Any

    from readonly_engine.bookkeeper.connection import BookieConnection
    from readonly_engine.bookkeeper.pool import BookiePool
    from readonly_engine.wire.bookie import ReadReply
    from readonly_engine.wire.digest import Digest
    from readonly_engine.wire.entry import Entry
    from readonly_engine.wire.ledgers import LedgerMetadata

log = logging.getLogger(__name__)

T = TypeVar("T")

BATCH_MIN_ENTRIES: Final = 8
"""Fewer are read one by one: at the tail they are in the bookie's write cache, and the connection for reads is open."""

CHUNK_BYTES: Final = 1024 * 1024
"""Target size of one batch: large enough that a request costs nothing, small enough to stay in the CPU's cache."""

CHUNK_MAX_ENTRIES: Final = 2000
"""Decoding a batch blocks the event loop; this many entries take about 2 ms."""

PIPELINED_ENTRIES: Final = 250
"""The same for entries that are read one by one."""

BATCH_MAX_BYTES: Final = 2 * CHUNK_BYTES
"""Limit in a batch request. It is above the target: a slightly larger reply is better than a second request for the rest."""

FIRST_GUESS_BYTES: Final = 16 * 1024
"""Average size of an entry, before the first reply: an entry's header has the sum of all payloads up to it.

The metadata of a closed ledger has that sum for the complete ledger.
"""

ENTRY_OVERHEAD_BYTES: Final = 64
"""Added to each payload: header, digest, and room for frames."""

BUSY_DEADLINE_S: Final = 30.0
"""Time for further attempts at bookies with too many requests."""


def stretches(metadata: LedgerMetadata, first: int, last: int) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Split the entries from `first` to `last` at changes of the ensemble: yield first, last and ensemble of each part."""
    starts = [start for start, _ in metadata.ensembles] + [last + 1]
    for (start, following), (_, ensemble) in zip(pairwise(starts), metadata.ensembles, strict=True):
        if start <= last and following > first:
            yield max(start, first), min(following - 1, last), ensemble


class EntryReads:
    """Reads entries of one ledger.

    Args:
        ledger_id: the ledger.
        digest: its digest.
        pool: connections to the bookies.
    """

    __slots__ = ("_average_bytes", "_digest", "_ledger_id", "_loop", "_pool", "_replica_order")

    def __init__(self, ledger_id: int, digest: Digest, pool: BookiePool) -> None:
        self._ledger_id = ledger_id
        self._digest = digest
        self._pool = pool
        self._replica_order = pool.replica_order
        self._loop = asyncio.get_running_loop()
        self._average_bytes = FIRST_GUESS_BYTES

    async def read(self, metadata: LedgerMetadata, first: int, last: int) -> list[Entry]:
        """Read the entries from `first` to `last`, both included, in order.

        Raises:
            NoSuchLedgerError: the ledger was deleted.
            NoSuchEntryError: no replica has one of them.
            ReadFailedError: all replicas of one of them failed.
        """
        if metadata.length > 0 and self._average_bytes == FIRST_GUESS_BYTES:
            self._average_bytes = metadata.length // max(metadata.last_entry_id + 1, 1) + ENTRY_OVERHEAD_BYTES
        chunks: list[Coroutine[Any, Any, list[Entry]]] = []
        turn = first
        for start, end, ensemble in stretches(metadata, first, last):
            in_batches = (
                end - start + 1 >= BATCH_MIN_ENTRIES
                and metadata.write_quorum == len(ensemble)
                and any(map(self._pool.knows_batches, ensemble))
            )
            most = CHUNK_MAX_ENTRIES if in_batches else PIPELINED_ENTRIES
            size = max(1, min(most, CHUNK_BYTES // self._average_bytes))
            # Equal sizes, rather somewhat larger: a request for a small rest costs as much as a complete one.
            size = -(-(end - start + 1) // max(1, round((end - start + 1) / size)))
            for begin in range(start, end + 1, size):
                final = min(begin + size - 1, end)
                if in_batches:
                    chunks.append(self._by_batches(metadata, ensemble, begin, final, turn))
                else:
                    chunks.append(self._one_by_one(metadata, begin, final))
                turn += 1
        if len(chunks) == 1:
            entries = await chunks[0]
        else:
            entries = [entry for chunk in await _all_or_none(chunks) for entry in chunk]
        if entries:
            newest = entries[-1]
            self._average_bytes = newest.length // (newest.entry_id + 1) + ENTRY_OVERHEAD_BYTES
        return entries

    # In batches

    async def _by_batches(
        self, metadata: LedgerMetadata, ensemble: tuple[str, ...], first: int, last: int, turn: int
    ) -> list[Entry]:
        entries: list[Entry] = []
        deadline = self._loop.time() + BUSY_DEADLINE_S
        while (begin := first + len(entries)) <= last:
            order = await self._order(list(filter(self._pool.knows_batches, ensemble)), turn)
            try:
                # A batch can be short: the next one begins at its end.
                entries += await self._race(order, partial(self._ask_batch, begin, last))
            except AllFailedError as error:
                if not await self._wait_for_backoff(ensemble, deadline):
                    log.info(
                        "batch read failed, reading one by one: ledger=%d error=%s first=%d last=%d",
                        self._ledger_id,
                        error,
                        begin,
                        last,
                    )
                    for start in range(begin, last + 1, PIPELINED_ENTRIES):
                        end = min(start + PIPELINED_ENTRIES - 1, last)
                        entries += await self._one_by_one(metadata, start, end)
        return entries

    async def _ask_batch(self, first: int, last: int, bookie_id: str) -> list[Entry]:
        began = self._loop.time()
        connection = await self._connected(self._pool.for_batches(bookie_id), bookie_id)
        count = last - first + 1
        size = min(count * self._average_bytes, BATCH_MAX_BYTES)
        in_flight = self._pool.request_budget(bookie_id)
        await in_flight.admit(size)
        try:
            batch = await connection.batch_read(self._ledger_id, first, count, BATCH_MAX_BYTES, self._digest)
        except BookieUnavailableError:
            if connection.refused:
                self._pool.refused_batch(connection)
            else:
                self._replica_order.failed(bookie_id, self._loop.time())
            raise
        finally:
            in_flight.release(size)
        self._pool.answered_batch(bookie_id)
        self._check(batch.status, bookie_id, first)
        now = self._loop.time()
        self._answered(bookie_id, now - began, now)
        if batch.damage is not None:
            log.warning("damaged entry in a batch read: bookie=%s error=%s", bookie_id, batch.damage)
            if not batch.entries:
                raise batch.damage
        if not batch.entries:
            raise MalformedFrameError(f"bookie {bookie_id} answered a batch read with EOK and no entry")
        return batch.entries[:count]

    # One by one

    async def _one_by_one(self, metadata: LedgerMetadata, first: int, last: int) -> list[Entry]:
        """Request all entries concurrently, each from its best replica, and failed ones from the other replicas."""
        width = len(metadata.ensemble_at(first))
        best = [await self._best(metadata, entry_id) for entry_id in range(first, min(last + 1, first + width))]
        plan = [best[index % width] for index in range(last - first + 1)]
        share = Counter(bookie_id for bookie_id, connection in plan if connection is not None)
        size = self._average_bytes
        admitted: list[str] = []
        requests: list[asyncio.Future[ReadReply] | None] = []
        began = self._loop.time()
        try:
            for bookie_id in sorted(share):  # always in this order: two reads never deadlock on each other's share
                await self._pool.request_budget(bookie_id).admit(share[bookie_id] * size, share[bookie_id])
                admitted.append(bookie_id)
            for entry_id, (_, connection) in enumerate(plan, first):
                requests.append(None if connection is None else connection.read_entry(self._ledger_id, entry_id))
            await self._await_all(requests, plan)
            entries = [self._accept(request, plan[i][0], first + i) for i, request in enumerate(requests)]
        finally:
            for request in requests:
                if request is not None:
                    request.cancel()
            for bookie_id in admitted:
                self._pool.request_budget(bookie_id).release(share[bookie_id] * size, share[bookie_id])
        missing = [index for index, entry in enumerate(entries) if entry is None]
        now = self._loop.time()
        for bookie_id in share.keys() - {plan[index][0] for index in missing}:
            self._answered(bookie_id, now - began, now)
        if missing:
            found = await _all_or_none([self._from_any(metadata, first + index) for index in missing])
            for index, entry in zip(missing, found, strict=True):
                entries[index] = entry
        return [entry for entry in entries if entry is not None]

    async def _best(self, metadata: LedgerMetadata, entry_id: int) -> tuple[str, BookieConnection | None]:
        """Return the replica to ask first, with its connection; None if it cannot be reached."""
        bookie_id = self._replica_order.order(metadata.replicas_of(entry_id), self._loop.time())[0]
        connection = self._pool.ready(bookie_id)
        if pause := self._replica_order.rest(bookie_id, self._loop.time()):
            await asyncio.sleep(pause)
        if connection is None:
            with contextlib.suppress(BookieUnavailableError):
                connection = await self._connected(self._pool.for_reads(bookie_id), bookie_id)
        return bookie_id, connection

    async def _await_all(
        self, requests: Sequence[asyncio.Future[ReadReply] | None], plan: Sequence[tuple[str, BookieConnection | None]]
    ) -> None:
        """Wait until all have ended, or until the next one exceeds the speculative timeout of its bookie."""
        bookie_id = ""
        try:
            async with asyncio.timeout(None) as limit:
                for request, (bookie_id, _) in zip(requests, plan, strict=True):
                    if request is None or request.done():
                        continue
                    now = self._loop.time()
                    limit.reschedule(now + self._replica_order.speculative_timeout(bookie_id, now))
                    with contextlib.suppress(BookieUnavailableError):
                        await request
        except TimeoutError:
            self._replica_order.failed(bookie_id, self._loop.time())

    def _accept(self, request: asyncio.Future[ReadReply] | None, bookie_id: str, entry_id: int) -> Entry | None:
        """Return the entry of a first request; None if another replica must be asked."""
        if request is None or not request.done() or request.cancelled():
            return None
        error = request.exception()
        if error is not None:
            log.info("read failed, asking another replica: entry=%d:%d error=%s", self._ledger_id, entry_id, error)
            self._replica_order.failed(bookie_id, self._loop.time())
            return None
        reply = request.result()
        if not reply.ok:
            if reply.status == ETOOMANYREQUESTS:
                self._busy(bookie_id)
            return None
        try:
            return decode_entry(reply.body, self._digest, self._ledger_id, entry_id)
        except DigestMismatchError as mismatch:
            log.warning("damaged entry, asking another replica: bookie=%s error=%s", bookie_id, mismatch)
            return None

    async def _from_any(self, metadata: LedgerMetadata, entry_id: int) -> Entry:
        deadline = self._loop.time() + BUSY_DEADLINE_S
        while True:
            replicas = metadata.replicas_of(entry_id)
            order = await self._order(replicas)
            try:
                return await self._race(order, partial(self._ask_entry, entry_id))
            except AllFailedError as error:
                if not await self._wait_for_backoff(replicas, deadline):
                    raise self._verdict(entry_id, error) from error

    async def _ask_entry(self, entry_id: int, bookie_id: str) -> Entry:
        began, size = self._loop.time(), self._average_bytes
        connection = await self._connected(self._pool.for_reads(bookie_id), bookie_id)
        in_flight = self._pool.request_budget(bookie_id)
        await in_flight.admit(size)
        try:
            reply = await connection.read_entry(self._ledger_id, entry_id)
        except BookieUnavailableError:
            self._replica_order.failed(bookie_id, self._loop.time())
            raise
        finally:
            in_flight.release(size)
        self._check(reply.status, bookie_id, entry_id)
        now = self._loop.time()
        self._answered(bookie_id, now - began, now)
        return decode_entry(reply.body, self._digest, self._ledger_id, entry_id)

    # Common to both ways

    async def _race(self, order: Sequence[str], ask: Callable[[str], Awaitable[T]]) -> T:
        return await speculative_read(
            order,
            ask,
            timeout_of=lambda bookie_id: self._replica_order.speculative_timeout(bookie_id, self._loop.time()),
            slow=lambda bookie_id: self._replica_order.failed(bookie_id, self._loop.time()),
        )

    async def _connected(self, connecting: Awaitable[T], bookie_id: str) -> T:
        try:
            return await connecting
        except BatchUnsupportedError:
            raise
        except BookieUnavailableError:
            self._replica_order.failed(bookie_id, self._loop.time())
            raise

    def _answered(self, bookie_id: str, seconds: float, now: float) -> None:
        self._replica_order.answered(bookie_id, seconds, now)
        self._pool.statistics.of(bookie_id).reads.answered(seconds)
        if seconds >= tracing.state.slow_s:
            tracing.on_read("bookie read", seconds, {"server.address": bookie_id, "pulsar.ledger_id": self._ledger_id})

    def _busy(self, bookie_id: str) -> None:
        self._replica_order.busy(bookie_id, self._loop.time())
        self._pool.statistics.of(bookie_id).busy += 1

    def _check(self, status: int, bookie_id: str, entry_id: int) -> None:
        """Raise the error of a status, unless it is EOK."""
        if status == EOK:
            return
        what = f"bookie {bookie_id} answered {status} to a read of {self._ledger_id}:{entry_id}"
        if status == ENOLEDGER:
            raise NoSuchLedgerError(what)
        if status == ENOENTRY:
            raise NoSuchEntryError(what)
        if status == ETOOMANYREQUESTS:
            self._busy(bookie_id)
            raise BookieBusyError(what)
        raise failed_request(bookie_id, status, f"a read of {self._ledger_id}:{entry_id}")

    async def _order(self, replicas: Sequence[str], turn: int = 0) -> list[str]:
        """Return the replicas, best first, without the busy ones; if all are busy, wait for the first of them."""
        while True:
            now = self._loop.time()
            order = self._replica_order.order(replicas, now, turn)
            willing = [bookie_id for bookie_id in order if not self._replica_order.rest(bookie_id, now)]
            if willing or not order:
                return willing
            await asyncio.sleep(min(self._replica_order.rest(bookie_id, now) for bookie_id in order))

    async def _wait_for_backoff(self, replicas: Sequence[str], deadline: float) -> bool:
        """Wait until the first busy bookie may get requests again; return False without one before the deadline."""
        now = self._loop.time()
        rests = [rest for bookie_id in replicas if (rest := self._replica_order.rest(bookie_id, now))]
        if not rests or now + min(rests) > deadline:
            return False
        await asyncio.sleep(min(rests))
        return True

    def _verdict(self, entry_id: int, error: AllFailedError) -> BookKeeperError:
        what = f"entry {self._ledger_id}:{entry_id} ({error})"
        kinds = {type(why) for _, why in error.failures}
        if kinds == {NoSuchLedgerError}:
            return NoSuchLedgerError(what)
        if kinds <= {NoSuchEntryError, NoSuchLedgerError}:
            return NoSuchEntryError(what)
        return ReadFailedError(what, refused=error.refused)


async def _all_or_none(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all concurrently; if one fails, cancel the others and raise its error."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
