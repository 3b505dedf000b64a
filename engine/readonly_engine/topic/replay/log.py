"""A topic in a replay: the log of what the replay's clock has released."""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from readonly_engine.background import run_forever
from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.topic.chain import NONE_READABLE
from readonly_engine.topic.log import TopicLog
from readonly_engine.topic.reading import first_entry
from readonly_engine.topic.replay.chain import ReleasedChain
from readonly_engine.topic.replay.gate import AheadEntry, ReplayGate
from readonly_engine.waiting import await_shared

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.bookkeeper.pool import BookiePool
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.tiered.storage import TieredStorage
    from readonly_engine.topic.cache import EntryCache
    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.position import Position
    from readonly_engine.topic.replay.shared import SharedClock
    from readonly_engine.wire.managed_ledger_pb2 import ManagedLedgerInfo

log = logging.getLogger(__name__)

RETRY_S: Final = (0.1, 5.0)
"""First and longest pause after a failed read."""

RELEASE_INTERVAL_S: Final = 0.002
"""Shortest interval of two releases: entries of the meantime are released together."""

MS_PER_S: Final = 1000


class _StoredLog:
    """All stored entries of a topic, released or not (Searched)."""

    def __init__(self, log_: ReplayLog) -> None:
        self._log = log_

    @property
    def chain(self) -> LedgerChain:
        return self._log.chain.stored

    async def read(self, first: Position, count: int) -> list[TopicEntry]:
        return await self._log.read_stored(first, count)


class ReplayLog(TopicLog):
    """Reads one topic up to the last released entry. It reads some entries ahead of their release, and waits with one timer.

    Args:
        topic: as in TopicLog.
        cluster: as in TopicLog.
        pool: as in TopicLog.
        cache: as in TopicLog.
        owner_last_entry: as in TopicLog.
        tiered: as in TopicLog.
        on_deleted: as in TopicLog.
        replay: the clock.
    """

    def __init__(
        self,
        topic: TopicName,
        cluster: ClusterMetadata,
        pool: BookiePool,
        cache: EntryCache,
        owner_last_entry: Callable[[], Awaitable[Position | None]],
        tiered: TieredStorage | None,
        on_deleted: Callable[[TopicName], None],
        replay: SharedClock,
    ) -> None:
        self._wake = asyncio.Event()
        self._released = ReleasedChain(self._wake.set)
        super().__init__(topic, cluster, pool, cache, owner_last_entry, tiered, on_deleted, self._released)
        self._replay = replay
        self._gate = ReplayGate()
        self._following: Position | None = None  # the next entry for the gate
        self._begin: Position | None = None
        self._located: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._round = replay.clock.round
        replay.listen(self._clock_changed)
        self._releasing = run_forever(self._release_entries, f"replay of {topic}")

    def close(self) -> None:
        """Stop following the topic, and the clock."""
        self._replay.unlisten(self._clock_changed)
        self._releasing.cancel()
        self._located.cancel()
        super().close()

    async def located(self) -> None:
        """Wait until everything is readable that the clock had released at the opening of the log, or at its last jump."""
        await await_shared(self._located)

    @property
    def behind_ms(self) -> float:
        """Publish time by which the next entry is overdue, in ms; 0 while all due entries are readable."""
        released, due = self._replay.released, self._gate.next_ms
        if released == math.inf or self._following is None:
            return 0.0
        if due is None:
            stored = self.chain.stored
            due = self._gate.newest_ms if stored.readable(stored.at_or_after(self._following)) else None
        return 0.0 if due is None else max(released - due, 0.0)

    async def begin(self) -> Position:
        """Return the first stored entry of the replay, released or not. It is searched once, as soon as it is stored.

        Raises:
            BookKeeperError: an entry on the way of the search cannot be read.
        """
        if self._begin is None:
            found = await self.position_at(self._replay.clock.begin_ms)
            if not self.chain.stored.readable(found):
                return found
            self._begin = found
        return self._begin

    async def position_at(self, publish_ms: float) -> Position:
        """Return the first stored entry of a publish time or a later one, released or not (`reading.position_at`).

        Raises:
            BookKeeperError: an entry on the way of the search cannot be read.
        """
        return await first_entry(_StoredLog(self), lambda entry: self._published_ms(entry) < publish_ms)

    async def read_stored(self, first: Position, count: int) -> list[TopicEntry]:
        """Read entries that need not be released, as TopicLog.read.

        Raises:
            BookKeeperError: the entry at `first` cannot be read now.
        """
        run = self.chain.stored.run(first, count)
        if run is None:
            return []
        found = self._cache.run(first.ledger_id, *run)
        if found:
            return found
        return await self._shared_reads().read_run(first, run, count)

    def _published_ms(self, entry: TopicEntry) -> int:
        """Return the publish time of an entry, at most the close of its ledger: a later one would mislead a search."""
        return min(entry.timestamp, self._closed_ms(entry) or entry.timestamp)

    def _closed_ms(self, entry: TopicEntry) -> int:
        ledger = self.chain.stored.ledger(entry.ledger_id)
        return 0 if ledger is None else ledger.closed_ms

    def topic_changed(self, info: ManagedLedgerInfo | None) -> None:
        """Apply the topic's list of ledgers."""
        known = {one: ledger for one in self.chain.stored.ledger_ids if (ledger := self.chain.stored.ledger(one))}
        super().topic_changed(info)
        end = self._released.end
        lost = sum(
            ledger.last_readable - (end.entry_id if end.ledger_id == one else NONE_READABLE)
            for one, ledger in known.items()
            if one >= end.ledger_id and self.chain.stored.ledger(one) is None
        )
        if lost > 0 and info is not None:
            log.warning(
                "retention has deleted entries that the replay had not released, its consumers do not get them: "
                "topic=%s entries=%d first=%s",
                self.topic,
                lost,
                self.chain.stored.first,
            )

    # Releases

    def _clock_changed(self) -> None:
        if self._replay.clock.round != self._round:
            self._round = self._replay.clock.round
            self._gate, self._following = ReplayGate(), None
            if self._located.done():
                self._located = asyncio.get_running_loop().create_future()
            self._released.restart()
        self._notifier.on_limit_changed(at_once=True)  # also for delayed messages, which the clock delivers
        self._wake.set()

    async def _release_entries(self) -> None:
        if self._opened is not None:
            await await_shared(self._opened)
        lacs_known = False
        self._gate, self._following = ReplayGate(), None
        pause = RETRY_S[0]
        while True:
            self._wake.clear()
            round_ = self._round
            try:
                if not lacs_known:  # else the search of the clock's place would end before the open ledger
                    await self.refresh()
                    lacs_known = True
                await self._release_due()
            except BookKeeperError as error:
                log.warning(
                    "read ahead of a replay failed, retrying: topic=%s error=%s retry_s=%.1f", self.topic, error, pause
                )
                await asyncio.sleep(pause)
                pause = min(2 * pause, RETRY_S[1])
                continue
            pause = RETRY_S[0]
            if round_ != self._round:
                continue
            if not self._located.done():
                self._located.set_result(None)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._next_release_s()):
                    await self._wake.wait()

    async def _release_due(self) -> None:
        """Release all entries that are due, and read ahead."""
        stored, round_ = self.chain.stored, self._round
        released = self._replay.released
        if released == math.inf:
            self._gate, self._following = ReplayGate(), None
            self._release(stored.limit)
            return
        if self._following is None:
            found = await first_entry(_StoredLog(self), lambda entry: self._published_ms(entry) <= released)
            if round_ != self._round:
                return
            self._release(stored.before(found))
            shown = self.chain.limit
            self._following = found if shown is None else max(found, stored.after(shown))
        while True:
            self._release(self._gate.release(self._replay.released))
            room, due = self._gate.room, self._gate.next_ms
            if not room or (due is not None and self._replay.clock.next_release(due) is None):
                return
            self._following = stored.at_or_after(self._following)
            entries = await self.read_stored(self._following, min(room, self._shared_reads().ahead_entries))
            if not entries or round_ != self._round:
                return
            ahead = [AheadEntry(entry.position, entry.timestamp, entry.size) for entry in entries]
            closed_ms = self._closed_ms(entries[0])
            self._gate.add_entries(ahead, closed_ms or self._replay.now_ms(), closed=closed_ms > 0)
            self._following = stored.after(entries[-1].position)
            await asyncio.sleep(0)  # cached entries of a long time may be due at once

    def _release(self, last: Position | None) -> None:
        if last is not None and self._released.release(last):
            self._notifier.on_limit_changed()

    def _next_release_s(self) -> float | None:
        """Return the seconds until the next release; None without one."""
        due = self._gate.next_ms
        at = None if due is None else self._replay.clock.next_release(due)
        return None if at is None else max((at - self._replay.now_ms()) / MS_PER_S, RELEASE_INTERVAL_S)
