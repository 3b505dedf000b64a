"""Following the LAC of an open ledger: by long polls, of which one brings new entries along, or by reading on while they flow."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from readonly_engine.background import run_forever
from readonly_engine.bookkeeper.errors import BatchUnsupportedError, BookKeeperError, NoSuchLedgerError
from readonly_engine.bookkeeper.ledger import NO_LAC
from readonly_engine.bookkeeper.tail_state import (
    EXPLICIT_LAC_WAIT_S,
    FLOWING_S,
    GRACE_S,
    IDLE_S,
    POLL_S,
    ArrivalRate,
    IdleProbe,
    LongPollSchedule,
    PollTarget,
)
from readonly_engine.wire.errors import DigestMismatchError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from readonly_engine.bookkeeper.ledger import LedgerReader
    from readonly_engine.wire.entry import Entry

log = logging.getLogger(__name__)

EMPTY_WAIT_S = (0.05, 0.5)
"""A bookie that holds nothing of the ledger cannot be polled: look again after the first, in the end after the second."""

BACKOFF_S = (0.1, 5.0)


class LacFollower:
    """Keeps the highest LAC of one ledger that any bookie has told, and tells of every rise.

    Where the ensemble is as large as the write quorum, each of its bookies has every entry and every explicit LAC: one is polled
    so that it sends the next entry along, and the others only tell that there is something new (Leader). Else an explicit LAC
    is written to the bookies of one write set only (PendingWriteLacOp), and all are polled for entries.

    While entries come quickly (Flow) the one is not polled, but read on at, some entries at a time and at the pace of those who
    wait: each tells the LAC that its writer knew, as a poll would. What is not confirmed yet is kept until it is.

    Without explicit LAC the last entry of a ledger stays unconfirmed until the next one comes (entry N carries LAC N-1):
    when the LAC has come to rest it is looked whether there is one, and the owner is asked (Rest).

    Args:
        ledger: the ledger, open when this starts.
        advanced: called with the LAC, and with entries that came along: of those some may lie behind the LAC, and it may be the
            same as before.
        ask_owner: asks the topic's owner how far the topic goes, and confirms it here.
        pause: seconds for which nothing new needs to be asked for: what comes meanwhile is asked for together.
    """

    def __init__(
        self,
        ledger: LedgerReader,
        advanced: Callable[[int, Sequence[Entry]], None],
        ask_owner: Callable[[], Awaitable[None]],
        pause: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._ledger = ledger
        self._advanced = advanced
        self._ask_owner = ask_owner
        self._pause = pause
        self._loop = asyncio.get_running_loop()
        self._ensemble: tuple[str, ...] = ()
        self._poll_target: PollTarget | None = None
        self._polls: dict[str, LongPollSchedule] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._idle_probe = IdleProbe(self._loop.time())
        self._arrival_rate = ArrivalRate()
        self._read_to = NO_LAC
        self._idle = asyncio.Event()
        self._idle.set()
        self._explicit = False
        self._probe_task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.lac = NO_LAC
        self.update()

    def update(self) -> None:
        """Poll the bookies of the ledger's last ensemble, and no others."""
        ensemble = self._ledger.metadata.ensembles[-1][1]
        if ensemble == self._ensemble:
            return
        self._ensemble = ensemble
        self._end_polls()
        striped = self._ledger.metadata.write_quorum < len(ensemble)
        self._poll_target = None if striped else PollTarget(self._ledger.best_first(), self._loop.time())
        self._polls = {bookie_id: LongPollSchedule(above_own=not striped) for bookie_id in ensemble}
        self._tasks = [
            run_forever(
                partial(self._follow, bookie_id, polls), f"ledger {self._ledger.ledger_id}: polling {bookie_id}"
            )
            for bookie_id, polls in self._polls.items()
        ]

    def confirm(self, lac: int, entries: Sequence[Entry] = ()) -> None:
        """Take a LAC from wherever it came, and what came along; a lower one than before is ignored."""
        if lac > self.lac:
            self._arrival_rate.on_entries(lac - self.lac, self._loop.time())
            self.lac = lac
            self._read_to = max(self._read_to, lac)
        elif not entries:
            return
        self._on_answer()
        self._advanced(self.lac, entries)

    def stop(self) -> None:
        """Poll no more."""
        self._end_polls()
        if self._timer is not None:
            self._timer.cancel()
        if self._probe_task is not None:
            self._probe_task.cancel()

    def _end_polls(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks = []

    # Long polls

    async def _follow(self, bookie_id: str, polls: LongPollSchedule) -> None:
        backoff, empty = BACKOFF_S[0], EMPTY_WAIT_S[0]
        primed = False
        while True:
            try:
                if self._poll_target is not None and self._poll_target.bookie != bookie_id:
                    await self._listen(bookie_id, self._poll_target, polls)
                elif not primed:
                    await self._await_entries(bookie_id)
                    primed = True
                else:
                    await self._poll(bookie_id, polls)
                backoff, empty = BACKOFF_S[0], EMPTY_WAIT_S[0]
            except NoSuchLedgerError:
                await asyncio.sleep(empty)
                empty = min(2 * empty, EMPTY_WAIT_S[1])
            except (BookKeeperError, DigestMismatchError) as error:
                log.info("ledger %d: %s; polling it again in %.1f s", self._ledger.ledger_id, error, backoff)
                primed = False
                polls.forget()
                if self._poll_target is not None:
                    self._poll_target.failed(bookie_id, self._ledger.best_first(), self._loop.time())
                await asyncio.sleep(backoff)
                backoff = min(2 * backoff, BACKOFF_S[1])

    async def _await_entries(self, bookie_id: str) -> None:
        """Wait until the bookie holds something of the ledger, and learn what was confirmed there.

        A poll would be answered at once before that. A bookie that has restarted learns its explicit LAC again by this.
        """
        pause = EMPTY_WAIT_S[0]
        found = await self._ledger.read_lac_at(bookie_id)
        while found is None:
            await asyncio.sleep(pause)
            pause = min(2 * pause, EMPTY_WAIT_S[1])
            found = await self._ledger.read_lac_at(bookie_id)
        self._explicit |= found.explicit
        self._on_answer()
        self.confirm(found.lac)

    async def _poll(self, bookie_id: str, polls: LongPollSchedule) -> None:
        """Wait for the next entry at the leader, or at each bookie where entries are striped."""
        await asyncio.sleep(0)  # those who wait are told first, and then need nothing new for a while
        if pause := self._pause():
            await asyncio.sleep(pause)
        flows = False
        if self._poll_target is not None:
            now = self._loop.time()
            self._poll_target.switch_to_best(self._ledger.best_first, now)
            flows = self._arrival_rate.quick(now)
            if flows and await self._read_tail_batch(bookie_id, polls):
                return
        previous, wait_s = polls.next(self.lac)
        if flows and wait_s and self._read_to > self.lac:
            # A poll would bring the entry again that was read before it was confirmed; what is new confirms it, too.
            if await self._ledger.long_poll_lac(bookie_id, previous, wait_s) and await self._read_tail_batch(
                bookie_id, polls
            ):
                return
            wait_s = 0.0
        lac, entry = await self._ledger.long_poll(bookie_id, previous, wait_s)
        polls.on_lac(lac)
        if lac > previous or wait_s == POLL_S[1]:
            self._on_answer()
        self.confirm(lac, () if entry is None else (entry,))
        if self._poll_target is not None:
            self._poll_target.answered(bookie_id)

    async def _read_tail_batch(self, bookie_id: str, polls: LongPollSchedule) -> bool:
        """Read what has come at the leader; False where nothing has, or where it cannot be read like this."""
        try:
            entries = await self._ledger.read_tail_batch(bookie_id, self._read_to + 1)
        except BatchUnsupportedError:
            return False
        if not entries:
            return False
        lac = max([entry.last_add_confirmed for entry in entries])
        polls.on_lac(lac)
        self._read_to = max(self._read_to, entries[-1].entry_id)
        self.confirm(lac, entries)
        if self._poll_target is not None:
            self._poll_target.answered(bookie_id)
        return True

    async def _listen(self, bookie_id: str, leader: PollTarget, polls: LongPollSchedule) -> None:
        """Hear from a bookie that does not lead that there is more; where the leader has not told so soon after, it leads."""
        await self._idle.wait()
        lac, leading = self.lac, leader.bookie
        more = await self._ledger.long_poll_lac(bookie_id, lac, polls.wait(lac))
        leader.answered(bookie_id)
        if not more:
            return
        await asyncio.sleep(GRACE_S)
        if leader.overdue(bookie_id, lac, self.lac, self._loop.time()):
            log.info("ledger %d: bookie %s is late; polling %s instead", self._ledger.ledger_id, leading, bookie_id)
            self._ledger.was_late(leading)

    # Looking beyond the LAC when it has come to rest

    def _on_answer(self) -> None:
        self._idle_probe.on_answer(self._loop.time())
        self._idle.clear()
        if self._timer is None and self._tasks:  # else it was stopped
            self._timer = self._loop.call_later(IDLE_S, self._tick)

    def _tick(self) -> None:
        """Called now and then while entries flow, and at the times that Rest says."""
        now = self._loop.time()
        self._timer = None
        if self._idle_probe.flows(now):
            self._timer = self._loop.call_later(FLOWING_S if self._explicit else IDLE_S, self._tick)
            return
        self._idle.set()
        if self._probe_task is None and self._idle_probe.due(now, explicit=self._explicit):
            self._probe_task = asyncio.create_task(self._probe_unconfirmed())
            return
        self._arm()

    def _arm(self) -> None:
        at = self._idle_probe.next(explicit=self._explicit)
        if self._timer is None and at is not None:
            self._timer = self._loop.call_at(max(at, self._loop.time() + IDLE_S), self._tick)

    async def _probe_unconfirmed(self) -> None:
        unconfirmed = False
        began, lac = self._loop.time(), self.lac
        try:
            if self._poll_target is None:
                unconfirmed = await self._left_unconfirmed()
            else:
                found = await self._ledger.peek(lac + 1, self._poll_target.bookie)
                polls = self._polls.get(found.bookie_id)
                if found.entry is not None and polls is not None:
                    polls.on_lac(found.lac)
                if found.entry is not None and found.lac > lac:
                    self.confirm(found.lac, (found.entry,))
                elif found.entry is not None:
                    unconfirmed = await self._left_unconfirmed()
                elif found.bookie_id == self._poll_target.bookie and polls is not None and NO_LAC < lac == polls.lac:
                    self._explicit = True  # the bookie knows that its last entry is confirmed, and no later one says so
        except (BookKeeperError, DigestMismatchError) as error:
            log.info("ledger %d: %s", self._ledger.ledger_id, error)
        finally:
            self._probe_task = None
        self._idle_probe.probed(began, self._loop.time(), unconfirmed=unconfirmed)
        self._arm()

    async def _left_unconfirmed(self) -> bool:
        """Ask all bookies, and the owner where there is an entry that they do not know to be confirmed."""
        rested = self._idle_probe.idle_for(self._loop.time())
        found = await self._ledger.read_lac()
        self._explicit |= found.explicit
        self.confirm(found.lac)
        if found.last_entry > self.lac and (not self._explicit or rested >= EXPLICIT_LAC_WAIT_S):
            await self._ask_owner()
        return found.last_entry > self.lac
