"""Follow the LAC of an open ledger: by long polls, or by batch reads at a high rate of entries."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Protocol

from readonly_engine.background import end_with, run_forever
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
    from collections.abc import Mapping, Sequence

    from readonly_engine.bookkeeper.ledger import LedgerReader
    from readonly_engine.wire.entry import Entry

log = logging.getLogger(__name__)

EMPTY_WAIT_S = (0.05, 0.5)
"""First and longest wait before the next attempt at a bookie without data of the ledger, which cannot be polled."""

BACKOFF_S = (0.1, 5.0)


class _Polling:
    """The polls of the bookies of one ensemble.

    Args:
        ensemble: the bookies.
        target: decides which bookie sends the entries; None if all do.
        schedules: the waits at each bookie.
        idle_probe: decides when to look for an unconfirmed entry.

    Attributes:
        tasks: one for each bookie; none once they were stopped.
    """

    __slots__ = ("ensemble", "idle_probe", "schedules", "target", "tasks")

    def __init__(
        self,
        ensemble: tuple[str, ...],
        target: PollTarget | None,
        schedules: Mapping[str, LongPollSchedule],
        idle_probe: IdleProbe,
    ) -> None:
        self.ensemble = ensemble
        self.target = target
        self.schedules = schedules
        self.idle_probe = idle_probe
        self.tasks: Sequence[asyncio.Task[None]] = ()


class FollowedLog(Protocol):
    """The log of an open ledger.

    Attributes:
        pause: seconds without need for new entries; those of the meantime are requested together.
        wants_entries: whether entries are needed, and not only the LAC. If not, polls stay at a high rate, at the same pace: the
            reply to each has the LAC, and one entry.
    """

    @property
    def pause(self) -> float:
        """See above."""

    @property
    def wants_entries(self) -> bool:
        """See above."""

    def lac_advanced(self, ledger_id: int, lac: int, entries: Sequence[Entry]) -> None:
        """Accept the LAC and the entries of a reply. Entries may be beyond the LAC, and the LAC may be unchanged."""

    async def ask_owner(self) -> None:
        """Ask the topic's owner broker for its last entry, and confirm it at the follower."""


class LacFollower:
    """Keeps the highest LAC of one ledger that any bookie has reported, and passes on every rise.

    If the ensemble is as large as the write quorum, each of its bookies has every entry and every explicit LAC. Then the poll
    target sends the next entry in its reply, and the other bookies are polled for the LAC only (PollTarget). Otherwise an
    explicit LAC is written to the bookies of one write set only (PendingWriteLacOp), and all are polled for entries. If no
    entries are needed, far bookies send one only for a rise that no near one has reported GRACE_S later.

    At a high rate of entries (ArrivalRate) batch reads replace the polls of the poll target, at the pace of the subscribers.
    Each entry carries the LAC that its writer knew, as the reply to a poll does. Unconfirmed entries are kept.

    While it is suspended, at first and after `suspend`, it sends no requests, and LACs come by `confirm` only.

    Without explicit LAC the last entry of a ledger stays unconfirmed until the next one (entry N carries LAC N-1).
    Once the LAC is idle, the follower probes for such an entry and asks the owner broker (IdleProbe).

    Args:
        ledger: the ledger, open at first.
        log_: the log that it belongs to.

    Attributes:
        ledger: as above.
        lac: the LAC; NO_LAC for none yet.
    """

    __slots__ = (
        "_arrival_rate",
        "_explicit",
        "_flows",
        "_log",
        "_polling",
        "_probe_task",
        "_rated",
        "_read_to",
        "_suspended",
        "_timer",
        "lac",
        "ledger",
    )

    def __init__(self, ledger: LedgerReader, log_: FollowedLog) -> None:
        self.ledger = ledger
        self._log = log_
        self._polling: _Polling | None = None  # unless it is suspended: an idle topic has a follower that stays so
        self._arrival_rate: ArrivalRate | None = None  # since the first entry
        self._read_to = self._rated = NO_LAC
        self._flows: asyncio.Event | None = None  # while entries arrive; set when the LAC is idle
        self._explicit = False
        self._probe_task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._suspended = True
        self.lac = NO_LAC

    @property
    def explicit(self) -> bool:
        """Whether a bookie has returned an explicit LAC of the ledger."""
        return self._explicit

    def update(self) -> None:
        """Poll the bookies of the ledger's last ensemble, and no others."""
        ensemble = self.ledger.metadata.ensembles[-1][1]
        if self._suspended or (self._polling is not None and ensemble == self._polling.ensemble):
            return
        self._end_polls()
        striped = self.ledger.metadata.write_quorum < len(ensemble)
        now = self._loop.time()
        target = None if striped else PollTarget(self.ledger.best_first(), now)
        schedules = {bookie_id: LongPollSchedule(above_own=not striped) for bookie_id in ensemble}
        self._polling = _Polling(ensemble, target, schedules, IdleProbe(now))
        self._polling.tasks = [
            run_forever(partial(self._follow, bookie_id, polls), f"ledger {self.ledger.ledger_id}: polling {bookie_id}")
            for bookie_id, polls in schedules.items()
        ]

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    @property
    def _poll_target(self) -> PollTarget | None:
        return None if self._polling is None else self._polling.target

    @property
    def _idle_probe(self) -> IdleProbe | None:
        return None if self._polling is None else self._polling.idle_probe

    def confirm(self, lac: int, entries: Sequence[Entry] = ()) -> None:
        """Accept a LAC and the entries that came with it, from any source; ignore a lower LAC than before."""
        if not self._rise(lac) and not entries:
            return
        self._on_answer()
        self._log.lac_advanced(self.ledger.ledger_id, self.lac, entries)

    def accept(self, lac: int, *, together: bool) -> None:
        """Accept a LAC that the owner has pushed, without a callback; ignore a lower one than before.

        Args:
            lac: the LAC.
            together: whether several entries have arrived. Only then messages are so many that batch reads may follow.
        """
        if together:
            self._rise(lac)
        elif lac > self.lac:
            self.lac = lac
            self._read_to = max(self._read_to, lac)
        self._on_answer()

    def flows(self, now: float) -> bool:
        """Return whether entries come at a high rate (ArrivalRate)."""
        return self._arrival_rate is not None and self._arrival_rate.quick(now)

    def _rise(self, lac: int) -> bool:
        """Apply a LAC; return whether it is above the one before."""
        if lac <= self.lac:
            return False
        if self._arrival_rate is None:
            self._arrival_rate = ArrivalRate()
        self._arrival_rate.on_entries(lac - self._rated, self._loop.time())  # pushed ones too: polls may follow
        self.lac = self._rated = lac
        self._read_to = max(self._read_to, lac)
        return True

    def suspend(self) -> None:
        """Stop all polls and probes until `resume`."""
        self._suspended = True
        self.stop()
        self._polling = None
        if not self.flows(self._loop.time()):
            self._arrival_rate = None
        self._be_idle()

    def resume(self) -> None:
        """Poll the bookies again; nothing happens unless the follower is suspended."""
        if self._suspended:
            self._suspended = False
            self.update()

    def stop(self) -> None:
        """Stop all polls and probes."""
        self._end_polls()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._probe_task is not None:
            self._probe_task.cancel()

    def _end_polls(self) -> None:
        if self._polling is not None:
            for task in self._polling.tasks:
                task.cancel()
            self._polling.tasks = ()

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
                elif self._poll_target is None and not self._log.wants_entries and self.ledger.is_far(bookie_id):
                    await self._poll_far(bookie_id, polls)
                else:
                    await self._poll(bookie_id, polls)
                backoff, empty = BACKOFF_S[0], EMPTY_WAIT_S[0]
            except NoSuchLedgerError:
                await self.ledger.wait_for_data(empty)
                empty = min(2 * empty, EMPTY_WAIT_S[1])
            except (BookKeeperError, DigestMismatchError) as error:
                log.info("poll failed: ledger=%d error=%s retry_s=%.1f", self.ledger.ledger_id, error, backoff)
                primed = False
                polls.forget()
                if self._poll_target is not None:
                    self._poll_target.failed(bookie_id, self.ledger.best_first(), self._loop.time())
                await asyncio.sleep(backoff)
                backoff = min(2 * backoff, BACKOFF_S[1])

    async def _await_entries(self, bookie_id: str) -> None:
        """Wait until the bookie has data of the ledger, and confirm its LAC.

        Before that, a bookie answers polls immediately. This read also makes a restarted bookie load its explicit LAC.
        """
        pause = EMPTY_WAIT_S[0]
        found = await self.ledger.read_lac_at(bookie_id)
        while found is None:
            await self.ledger.wait_for_data(pause)
            pause = min(2 * pause, EMPTY_WAIT_S[1])
            found = await self.ledger.read_lac_at(bookie_id)
        self._explicit |= found.explicit
        self._on_answer()
        self.confirm(found.lac)

    async def _poll(self, bookie_id: str, polls: LongPollSchedule) -> None:
        """Wait for the next entry at the poll target, or at each bookie of a striped ledger."""
        await asyncio.sleep(0)  # dispatch to subscribers first: they then set the pause
        if pause := self._log.pause:
            await asyncio.sleep(pause)
        flows = False
        if self._poll_target is not None:
            now = self._loop.time()
            self._poll_target.switch_to_best(self.ledger.best_first, now)
            flows = self.flows(now) and self._log.wants_entries
            if flows and await self._read_tail_batch(bookie_id, polls):
                return
        previous, wait_s = polls.next(self.lac)
        if flows and wait_s and self._read_to > self.lac:
            # A poll would return again an unconfirmed entry of an earlier read. The next entry confirms it, too.
            if await self.ledger.long_poll_lac(bookie_id, previous, wait_s) and await self._read_tail_batch(
                bookie_id, polls
            ):
                return
            wait_s = 0.0
        lac, entry = await self.ledger.long_poll(bookie_id, previous, wait_s)
        polls.on_lac(lac)
        if lac > previous or wait_s == POLL_S[1]:
            self._on_answer()
        self.confirm(lac, () if entry is None else (entry,))
        if self._poll_target is not None:
            self._poll_target.answered(bookie_id)

    async def _poll_far(self, bookie_id: str, polls: LongPollSchedule) -> None:
        """Wait for a LAC of a far bookie of a striped ledger; get it, with an entry, unless a nearer one soon reports a rise."""
        lac = self.lac
        if polls.lac is not None:
            if not await self.ledger.long_poll_lac(bookie_id, lac, polls.wait(lac)):
                return
            await asyncio.sleep(GRACE_S)
            if self.lac > lac:
                return
        await self._poll(bookie_id, polls)

    async def _read_tail_batch(self, bookie_id: str, polls: LongPollSchedule) -> bool:
        """Read the new entries of the poll target in a batch; return False without any, or without support for batch reads."""
        try:
            entries = await self.ledger.read_tail_batch(bookie_id, self._read_to + 1)
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

    async def _listen(self, bookie_id: str, target: PollTarget, polls: LongPollSchedule) -> None:
        """Poll another bookie for the LAC only; it becomes the poll target if the present one reports a rise too late."""
        if self._flows is not None:
            await self._flows.wait()
        lac, leading = self.lac, target.bookie
        more = await self.ledger.long_poll_lac(bookie_id, lac, polls.wait(lac))
        target.answered(bookie_id)
        if not more:
            return
        await asyncio.sleep(GRACE_S)
        if target.overdue(bookie_id, lac, self.lac, self._loop.time()):
            log.info("poll target is late: ledger=%d bookie=%s next=%s", self.ledger.ledger_id, leading, bookie_id)
            self.ledger.was_late(leading)

    # Probes beyond an idle LAC

    def _on_answer(self) -> None:
        if self._polling is None or not self._polling.tasks:
            return  # it was stopped
        self._polling.idle_probe.on_answer(self._loop.time())
        if self._flows is None:
            self._flows = asyncio.Event()
        if self._timer is None:
            self._timer = self._loop.call_later(IDLE_S, self._tick)

    def _tick(self) -> None:
        """Check whether the LAC is idle: in intervals while entries arrive, and at the times of IdleProbe."""
        now, probe = self._loop.time(), self._idle_probe
        self._timer = None
        if probe is None:
            return
        if probe.flows(now):
            self._timer = self._loop.call_later(FLOWING_S if self._explicit else IDLE_S, self._tick)
            return
        self._be_idle()
        if (self._probe_task is None or self._probe_task.done()) and probe.due(now, explicit=self._explicit):
            self._probe_task = asyncio.create_task(self._probe_unconfirmed(probe))
            end_with(self._probe_task, lambda _: self._arm())
            return
        self._arm()

    def _be_idle(self) -> None:
        if self._flows is not None:
            self._flows.set()
            self._flows = None

    def _arm(self) -> None:
        at = None if self._idle_probe is None else self._idle_probe.next(explicit=self._explicit)
        if self._timer is None and at is not None:
            self._timer = self._loop.call_at(max(at, self._loop.time() + IDLE_S), self._tick)

    async def _probe_unconfirmed(self, probe: IdleProbe) -> None:
        unconfirmed = False
        began, lac = self._loop.time(), self.lac
        try:
            polling = self._polling
            if polling is None or polling.target is None:
                unconfirmed = await self._has_unconfirmed_entry(probe)
            else:
                found = await self.ledger.peek(lac + 1, polling.target.bookie)
                polls = polling.schedules.get(found.bookie_id)
                if found.entry is not None and polls is not None:
                    polls.on_lac(found.lac)
                if found.entry is not None and found.lac > lac:
                    self.confirm(found.lac, (found.entry,))
                elif found.entry is not None:
                    unconfirmed = await self._has_unconfirmed_entry(probe)
                elif found.bookie_id == polling.target.bookie and polls is not None and NO_LAC < lac == polls.lac:
                    self._explicit = True  # the last entry is confirmed without a later one: by an explicit LAC
        except (BookKeeperError, DigestMismatchError) as error:
            log.info("probe for an unconfirmed entry failed: ledger=%d error=%s", self.ledger.ledger_id, error)
        probe.probed(began, self._loop.time(), unconfirmed=unconfirmed)
        self._arm()

    async def _has_unconfirmed_entry(self, probe: IdleProbe) -> bool:
        """Read the LAC of all bookies, and ask the owner broker about an entry beyond it; return whether one stays beyond it."""
        rested = probe.idle_for(self._loop.time())
        found = await self.ledger.read_lac()
        self._explicit |= found.explicit
        self.confirm(found.lac)
        if found.last_entry > self.lac and (not self._explicit or rested >= EXPLICIT_LAC_WAIT_S):
            await self._log.ask_owner()
        return found.last_entry > self.lac
