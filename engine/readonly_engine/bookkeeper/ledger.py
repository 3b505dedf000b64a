"""Reader of one ledger: its entries and its LAC."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from readonly_engine.bookkeeper.errors import (
    BatchUnsupportedError,
    BookieUnavailableError,
    NoSuchLedgerError,
    ReadFailedError,
    failed_request,
    is_refusal,
)
from readonly_engine.bookkeeper.reads import EntryReads
from readonly_engine.bookkeeper.speculative_read import AllFailedError, speculative_read
from readonly_engine.wire.bookkeeper_pb2 import ENOENTRY, ENOLEDGER, EOK
from readonly_engine.wire.digest import digest_for
from readonly_engine.wire.entry import decode_entry, decode_lac
from readonly_engine.wire.errors import DigestMismatchError

if TYPE_CHECKING:
    from readonly_engine.bookkeeper.pool import BookiePool
    from readonly_engine.wire.entry import Entry
    from readonly_engine.wire.ledgers import LedgerMetadata

log = logging.getLogger(__name__)

NO_LAC = -1

TAIL_BATCH_ENTRIES = 500
TAIL_BATCH_BYTES = 1 << 20
"""Limits of one batch read at the tail."""

TIMER_MARGIN_S = 0.1
"""A bookie may end a long poll this much before its timeout; its timer has steps of 10 ms."""


class LacAnswer(NamedTuple):
    """The end of a ledger according to bookies.

    Attributes:
        lac: the last confirmed entry; NO_LAC for none.
        last_entry: the last entry, confirmed or not.
        explicit: whether the writer has sent an explicit LAC, not only the LACs in entries.
    """

    lac: int
    last_entry: int
    explicit: bool


class UnconfirmedEntry(NamedTuple):
    """One bookie's reply for an entry that may be beyond the LAC.

    Attributes:
        bookie_id: the bookie.
        entry: the entry; None if the bookie has none.
        lac: the bookie's LAC; NO_LAC without an entry.
    """

    bookie_id: str
    entry: Entry | None
    lac: int


class LedgerReader:
    """Reads entries of a ledger and its LAC.

    Args:
        ledger_id: the ledger.
        metadata: its metadata; `update` it when it changes.
        pool: connections to the bookies.
    """

    __slots__ = ("_digest", "_loop", "_pool", "_reads", "ledger_id", "metadata")

    def __init__(self, ledger_id: int, metadata: LedgerMetadata, pool: BookiePool) -> None:
        self.ledger_id = ledger_id
        self.metadata = metadata
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._digest = digest_for(metadata.digest_type, metadata.password)
        self._reads: EntryReads | None = None  # made at the first read: what is pushed needs none

    async def wait_for_data(self, seconds: float) -> None:
        """Wait before the next question to a bookie that has no data of the ledger (EmptyWaits)."""
        await self._pool.empty_waits.wait(seconds)

    def update(self, metadata: LedgerMetadata) -> None:
        """Use newer metadata: another ensemble, or the final length."""
        self.metadata = metadata

    async def read(self, first: int, last: int) -> list[Entry]:
        """Read the entries from `first` to `last`, both included, in order. The caller asks for confirmed entries only.

        A few entries are read one by one, more of them in batches (EntryReads).

        Raises:
            NoSuchLedgerError: the ledger was deleted.
            NoSuchEntryError: no replica has one of them.
            ReadFailedError: all replicas of one of them failed.
        """
        if self._reads is None:
            self._reads = EntryReads(self.ledger_id, self._digest, self._pool)
        return await self._reads.read(self.metadata, first, last)

    async def read_lac(self) -> LacAnswer:
        """Read the highest LAC of the bookies of the last ensemble.

        Any single digest-valid LAC is safe: it is never ahead of the writer (PendingReadLacOp takes the maximum too).

        Raises:
            ReadFailedError: no bookie answered.
        """
        results = await asyncio.gather(*map(self.read_lac_at, self.metadata.ensembles[-1][1]), return_exceptions=True)
        answers = [result for result in results if not isinstance(result, BaseException)]
        if not answers:
            reasons = "; ".join(sorted({str(result) for result in results}))
            raise ReadFailedError(
                f"no bookie answered READ_LAC for ledger {self.ledger_id}: {reasons}",
                refused=all(isinstance(result, BaseException) and is_refusal(result) for result in results),
            )
        known = [answer for answer in answers if answer is not None]
        return LacAnswer(
            lac=max((answer.lac for answer in known), default=NO_LAC),
            last_entry=max((answer.last_entry for answer in known), default=NO_LAC),
            explicit=any(answer.explicit for answer in known),
        )

    async def read_lac_at(self, bookie_id: str) -> LacAnswer | None:
        """Read the LAC of one bookie; return None if it has no data of the ledger.

        Raises:
            BookieUnavailableError: no answer.
            DigestMismatchError: the answer is damaged.
        """
        connection = await self._pool.for_reads(bookie_id)
        reply = await connection.read_lac(self.ledger_id)
        if reply.status in {ENOLEDGER, ENOENTRY}:
            return None
        if reply.status != EOK:
            raise failed_request(bookie_id, reply.status, "READ_LAC")
        lac = last_entry = NO_LAC
        if reply.lac_body:
            lac = decode_lac(reply.lac_body, self._digest, self.ledger_id)
        if reply.body:
            entry = decode_entry(reply.body, self._digest, self.ledger_id)
            lac, last_entry = max(lac, entry.last_add_confirmed), entry.entry_id
        return LacAnswer(lac, last_entry, bool(reply.lac_body))

    async def long_poll(self, bookie_id: str, previous_lac: int, timeout_s: float) -> tuple[int, Entry | None]:
        """Wait at one bookie for a LAC above `previous_lac`; a timeout of 0 returns immediately.

        Returns:
            The bookie's LAC (NO_LAC if unknown there), and entry previous_lac + 1 if the reply has it.

        Raises:
            BookieUnavailableError: no answer.
            NoSuchLedgerError: the bookie has no data of this ledger (yet).
        """
        connection = await self._pool.for_polls(bookie_id)
        reply = await connection.long_poll(self.ledger_id, previous_lac, timeout_s)
        if reply.status in {ENOLEDGER, ENOENTRY}:
            raise NoSuchLedgerError(f"bookie {bookie_id} holds nothing of ledger {self.ledger_id}")
        if not reply.ok:
            raise failed_request(bookie_id, reply.status, "a long poll")
        entry = None
        if reply.body:
            try:
                entry = decode_entry(reply.body, self._digest, self.ledger_id, previous_lac + 1)
            except DigestMismatchError as error:
                log.warning("damaged entry in a long poll: bookie=%s error=%s", bookie_id, error)
        return reply.max_lac, entry

    async def read_tail_batch(self, bookie_id: str, first: int) -> list[Entry]:
        """Read the entries of one bookie from `first` on, confirmed or not; the list may be empty.

        Raises:
            BookieUnavailableError: no answer.
            BatchUnsupportedError: the bookie does not support batch reads.
            NoSuchLedgerError: the bookie has no data of this ledger (any more).
            DigestMismatchError: the bookie's entry at `first` is damaged.
        """
        connection = await self._pool.for_tails(bookie_id)
        try:
            batch = await connection.batch_read(
                self.ledger_id, first, TAIL_BATCH_ENTRIES, TAIL_BATCH_BYTES, self._digest
            )
        except BookieUnavailableError as error:
            if not connection.refused:
                raise
            self._pool.refused_batch(connection)
            raise BatchUnsupportedError(str(error)) from error
        if batch.status == ENOENTRY:
            return []
        if batch.status == ENOLEDGER:
            raise NoSuchLedgerError(f"bookie {bookie_id} holds nothing of ledger {self.ledger_id}")
        if batch.status != EOK:
            raise failed_request(bookie_id, batch.status, "a batch read")
        self._pool.answered_batch(bookie_id)
        if batch.damage is not None:
            log.warning("damaged entry in a batch read: bookie=%s error=%s", bookie_id, batch.damage)
            if not batch.entries:
                raise batch.damage
        return batch.entries

    async def long_poll_lac(self, bookie_id: str, previous_lac: int, timeout_s: float) -> bool:
        """Wait until one bookie's LAC is above `previous_lac`, without reading an entry.

        Returns:
            False after the timeout. True rarely without a higher LAC, for example after the fencing of the ledger.

        Raises:
            BookieUnavailableError: no answer.
            NoSuchLedgerError: the bookie has no data of this ledger (yet).
        """
        connection = await self._pool.for_polls(bookie_id)
        began = self._loop.time()
        reply = await connection.long_poll_lac(self.ledger_id, previous_lac, timeout_s)
        if reply.status == ENOLEDGER:
            raise NoSuchLedgerError(f"bookie {bookie_id} holds nothing of ledger {self.ledger_id}")
        if reply.status != ENOENTRY:
            raise failed_request(bookie_id, reply.status, "a long poll")
        return self._loop.time() - began < timeout_s - TIMER_MARGIN_S

    async def peek(self, entry_id: int, first: str) -> UnconfirmedEntry:
        """Read an entry that may be beyond the LAC from the first bookie that answers, `first` preferred.

        Raises:
            ReadFailedError: no bookie answered.
        """
        choice = self._pool.replica_order
        try:
            return await speculative_read(
                [first, *(bookie_id for bookie_id in self.best_first() if bookie_id != first)],
                partial(self._peek_at, entry_id),
                timeout_of=lambda bookie_id: choice.speculative_timeout(bookie_id, self._loop.time()),
                slow=self.was_late,
            )
        except AllFailedError as error:
            raise ReadFailedError(
                f"no bookie answered the probe for entry {self.ledger_id}:{entry_id}: {error}", refused=error.refused
            ) from error

    async def _peek_at(self, entry_id: int, bookie_id: str) -> UnconfirmedEntry:
        connection = await self._pool.for_reads(bookie_id)
        reply = await connection.read_entry(self.ledger_id, entry_id)
        if reply.status in {ENOLEDGER, ENOENTRY}:
            return UnconfirmedEntry(bookie_id, None, NO_LAC)
        if not reply.ok:
            raise failed_request(bookie_id, reply.status, "a read")
        return UnconfirmedEntry(
            bookie_id, decode_entry(reply.body, self._digest, self.ledger_id, entry_id), reply.max_lac
        )

    # Order of bookies

    def best_first(self) -> list[str]:
        """Return the bookies of the last ensemble, best first."""
        return self._pool.replica_order.order(self.metadata.ensembles[-1][1], self._loop.time())

    @property
    def has_nearer_replicas(self) -> bool:
        """Whether some bookies of the last ensemble are nearer than others."""
        ensemble = self.metadata.ensembles[-1][1]
        return any(self._pool.replica_order.has_nearer(bookie_id, ensemble) for bookie_id in ensemble)

    def is_far(self, bookie_id: str) -> bool:
        """Return whether another bookie of the last ensemble is nearer than this one."""
        return self._pool.replica_order.has_nearer(bookie_id, self.metadata.ensembles[-1][1])

    def was_late(self, bookie_id: str) -> None:
        """Record that a bookie was late: prefer others for a while."""
        self._pool.replica_order.failed(bookie_id, self._loop.time())
