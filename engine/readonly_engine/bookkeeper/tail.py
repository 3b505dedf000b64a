"""Following the LAC of an open ledger: READ_LAC once, then one long poll at each bookie of the last ensemble."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from readonly_engine.bookkeeper.errors import BookKeeperError, NoSuchLedgerError
from readonly_engine.bookkeeper.ledger import NO_LAC
from readonly_engine.wire.errors import DigestMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.bookkeeper.ledger import LedgerReader
    from readonly_engine.wire.entry import Entry

log = logging.getLogger(__name__)

POLL_TIMEOUT_S = 10.0
"""A bookie that has restarted may wait out a whole poll although newer entries exist: keep it modest."""

EMPTY_LEDGER_WAIT_S = (0.05, 0.5)
"""A bookie that has no entry of the ledger yet answers at once: ask again after the first, later after the second."""

BACKOFF_S = (0.1, 5.0)

REFRESH_S = 10.0
"""READ_LAC again this often while nothing moves: the explicit LAC outlives what a bookie has cached."""


class LacTail:
    """Keeps the highest LAC of one ledger that any bookie has told, and tells of every rise.

    An explicit LAC is written to the bookies of one write set only (PendingWriteLacOp), so all of the ensemble are polled.

    Args:
        ledger: the ledger, open when this starts.
        advanced: called with the new LAC, and with the entry that came along where the bookie sent it.
    """

    def __init__(self, ledger: LedgerReader, advanced: Callable[[int, Entry | None], None]) -> None:
        self._ledger = ledger
        self._advanced = advanced
        self.lac = NO_LAC
        self._ensemble: tuple[str, ...] = ()
        self._tasks: list[asyncio.Task[None]] = []
        self._refresher = asyncio.create_task(self._refresh())
        self.update()

    def update(self) -> None:
        """Poll the bookies of the ledger's last ensemble, and no others."""
        ensemble = self._ledger.metadata.ensembles[-1][1]
        if ensemble == self._ensemble:
            return
        self._ensemble = ensemble
        for task in self._tasks:
            task.cancel()
        self._tasks = [asyncio.create_task(self._poll(bookie_id)) for bookie_id in ensemble]

    def confirm(self, lac: int, entry: Entry | None = None) -> None:
        """Take a LAC from wherever it came; a lower one than before is ignored."""
        if lac > self.lac:
            self.lac = lac
            self._advanced(lac, entry)

    def stop(self) -> None:
        """Poll no more."""
        self._refresher.cancel()
        for task in self._tasks:
            task.cancel()

    async def _refresh(self) -> None:
        while True:
            try:
                self.confirm(await self._ledger.read_lac())
            except (BookKeeperError, DigestMismatchError) as error:
                log.info("ledger %d: %s", self._ledger.ledger_id, error)
            await asyncio.sleep(REFRESH_S)

    async def _poll(self, bookie_id: str) -> None:
        pause, empty_pause = BACKOFF_S[0], EMPTY_LEDGER_WAIT_S[0]
        while True:
            previous = self.lac
            try:
                lac, entry = await self._ledger.long_poll(bookie_id, previous, POLL_TIMEOUT_S)
                pause = BACKOFF_S[0]
            except NoSuchLedgerError:
                await asyncio.sleep(empty_pause)
                empty_pause = min(2 * empty_pause, EMPTY_LEDGER_WAIT_S[1])
                continue
            except BookKeeperError as error:
                log.info("ledger %d: %s; polling it again in %.1f s", self._ledger.ledger_id, error, pause)
                await asyncio.sleep(pause)
                pause = min(2 * pause, BACKOFF_S[1])
                continue
            self.confirm(lac, entry)
