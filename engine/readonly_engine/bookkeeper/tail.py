"""Following the LAC of an open ledger: one long poll at each bookie of the last ensemble, READ_LAC where a poll can miss it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from readonly_engine.bookkeeper.errors import BookKeeperError, NoSuchLedgerError
from readonly_engine.bookkeeper.ledger import NO_LAC
from readonly_engine.wire.errors import DigestMismatchError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.bookkeeper.ledger import LedgerReader
    from readonly_engine.wire.entry import Entry

log = logging.getLogger(__name__)

POLL_TIMEOUT_S = 10.0
"""A bookie that has restarted may wait out a whole poll although newer entries exist: keep it modest."""

EMPTY_WAIT_S = (0.05, 0.5)
"""A bookie that holds nothing of the ledger cannot be polled: look again after the first, in the end after the second."""

BACKOFF_S = (0.1, 5.0)

IDLE_PROBE_S = (0.05, 10.0)
"""READ_LAC this long after the LAC has come to rest, then after twice as long again and again, in the end at the second interval.

A poll that begins after an explicit LAC was written is not woken by it (measured: DbLedgerStorage compares with what it has
cached from entries), so the last entry before a rest could stay unseen for a whole poll.
"""

EXPLICIT_LAC_WAIT_S = 0.5
"""An entry that is not confirmed after so long a rest is asked of the owner; at once where no explicit LAC was ever seen.

Without explicit LAC the last entry of a ledger stays unconfirmed until the next one comes (entry N carries LAC N-1).
"""


class LacTail:
    """Keeps the highest LAC of one ledger that any bookie has told, and tells of every rise.

    An explicit LAC is written to the bookies of one write set only (PendingWriteLacOp), so all of the ensemble are polled.

    Args:
        ledger: the ledger, open when this starts.
        advanced: called with the new LAC, and with the entry that came along where the bookie sent it.
        ask_owner: asks the topic's owner how far the topic goes, and confirms it here.
    """

    def __init__(
        self,
        ledger: LedgerReader,
        advanced: Callable[[int, Entry | None], None],
        ask_owner: Callable[[], Awaitable[None]],
    ) -> None:
        self._ledger = ledger
        self._advanced = advanced
        self._ask_owner = ask_owner
        self._loop = asyncio.get_running_loop()
        self._ensemble: tuple[str, ...] = ()
        self._polls: list[asyncio.Task[None]] = []
        self._probe: asyncio.Task[None] | None = None
        self._probe_pause = IDLE_PROBE_S[0]
        self._probe_timer = self._loop.call_soon(self._start_probe)
        self._lac_at_timer = NO_LAC
        self.lac = NO_LAC
        self.update()

    def update(self) -> None:
        """Poll the bookies of the ledger's last ensemble, and no others."""
        ensemble = self._ledger.metadata.ensembles[-1][1]
        if ensemble == self._ensemble:
            return
        self._ensemble = ensemble
        for task in self._polls:
            task.cancel()
        self._polls = [asyncio.create_task(self._poll(bookie_id)) for bookie_id in ensemble]

    def confirm(self, lac: int, entry: Entry | None = None) -> None:
        """Take a LAC from wherever it came; a lower one than before is ignored."""
        if lac > self.lac:
            self.lac = lac
            if self._probe_pause != IDLE_PROBE_S[0]:
                self._expect_rest()
            self._advanced(lac, entry)

    def stop(self) -> None:
        """Poll no more."""
        self._probe_timer.cancel()
        if self._probe is not None:
            self._probe.cancel()
        for task in self._polls:
            task.cancel()

    # READ_LAC when the LAC has come to rest

    def _expect_rest(self) -> None:
        self._probe_pause = IDLE_PROBE_S[0]
        self._arm()

    def _arm(self) -> None:
        self._probe_timer.cancel()
        self._lac_at_timer = self.lac
        self._probe_timer = self._loop.call_later(self._probe_pause, self._rested)

    def _rested(self) -> None:
        if self.lac != self._lac_at_timer:
            self._expect_rest()  # not at rest: entries are flowing, and polls are woken by them
        else:
            self._probe_pause = min(2 * self._probe_pause, IDLE_PROBE_S[1])
            self._start_probe()

    def _start_probe(self) -> None:
        if self._probe is None:
            self._probe = asyncio.create_task(self._read_lac())

    async def _read_lac(self) -> None:
        try:
            found = await self._ledger.read_lac()
            self.confirm(found.lac)
            if found.last_entry > self.lac and (not found.explicit or self._probe_pause > EXPLICIT_LAC_WAIT_S):
                await self._ask_owner()
        except (BookKeeperError, DigestMismatchError) as error:
            log.info("ledger %d: %s", self._ledger.ledger_id, error)
        finally:
            self._probe = None
        self._arm()

    # Long polls

    async def _poll(self, bookie_id: str) -> None:
        pause = BACKOFF_S[0]
        while True:
            try:
                await self._await_entries(bookie_id)
                while True:
                    self.confirm(*await self._ledger.long_poll(bookie_id, self.lac, POLL_TIMEOUT_S))
                    pause = BACKOFF_S[0]
            except NoSuchLedgerError:
                await asyncio.sleep(EMPTY_WAIT_S[0])
            except (BookKeeperError, DigestMismatchError) as error:
                log.info("ledger %d: %s; polling it again in %.1f s", self._ledger.ledger_id, error, pause)
                await asyncio.sleep(pause)
                pause = min(2 * pause, BACKOFF_S[1])

    async def _await_entries(self, bookie_id: str) -> None:
        """Wait until the bookie holds something of the ledger: before that it answers a poll at once."""
        pause = EMPTY_WAIT_S[0]
        found = await self._ledger.read_lac_at(bookie_id)
        while found is None:
            await asyncio.sleep(pause)
            pause = min(2 * pause, EMPTY_WAIT_S[1])
            found = await self._ledger.read_lac_at(bookie_id)
        self.confirm(found.lac)
        self._expect_rest()
