"""Dispatches new entries at a topic's tail to all listeners in one batch, with a minimum interval."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final, Protocol

from readonly_engine.background import RESTART_DELAY_S
from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.small_map import SmallMap
from readonly_engine.topic.dispatch_hold import DispatchHold
from readonly_engine.topic.max_read_position import SPACING_S
from readonly_engine.topic.position import Position
from readonly_engine.topic.tail_batch import FlushInterval, TailBatch
from readonly_engine.topic.view import Follow
from readonly_engine.wire.entry_view import summarize

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.dispatch_hold import DispatchLimit
    from readonly_engine.topic.entries import TopicEntry

log = logging.getLogger(__name__)

PREFETCH_ENTRIES: Final = 300
"""Limit of new entries in one batch; they are read before the listeners are called, so these find them in the cache."""

TAIL_BATCH_BYTES: Final = 1 << 20
"""Limit of the bytes in one batch."""

GATHER_S: Final = 1e-3
"""Wait of the first pushed entries at a high rate. Bookies sync many entries at once, and owners send them within a moment."""

MEASURE_EVERY: Final = 4
"""Number of dispatches of which the cost of one is measured: the clock of CPU time is a system call."""


SLICE_S: Final = 0.02
"""Time after which calls of listeners go on later, so that very many of them do not hold up everything else."""

SLICE_CALLS: Final = 64
"""Calls of listeners between two looks at the clock."""


class _Notification:
    """Calls of listeners that are under way.

    Attributes:
        listeners: the listeners, the next one to be called last.
        batch: the new entries.
        limit: the last readable entry.
        cost: CPU seconds so far; None if they are not measured.
    """

    __slots__ = ("batch", "cost", "limit", "listeners")

    def __init__(
        self,
        listeners: list[Callable[[], None]],
        batch: TailBatch | None,
        limit: Position | None,
        cost: float | None,
    ) -> None:
        self.listeners = listeners
        self.batch = batch
        self.limit = limit
        self.cost = cost


class ReadLog(Protocol):
    """One topic, which the notifier reads (TopicLog).

    Attributes:
        topic: its name.
        chain: its ledgers.
    """

    topic: TopicName
    chain: LedgerChain

    async def read(self, first: Position, count: int) -> list[TopicEntry]:
        """Read some entries from a position on."""


_NOBODY: Final[frozenset[Callable[[], None]]] = frozenset()
_NO_ENTRIES: Final[list[TopicEntry]] = []
_UNUSED: Final = FlushInterval()
"""Those of topics without any news yet; nothing changes them."""


class TailNotifier:
    """Calls the listeners of one topic with new entries.

    Entries that have just come from a bookie are dispatched as they are. Only missing entries are read first, in a separate task.

    Args:
        log_: the topic.

    Attributes:
        latest_batch: batch of the last call; None without readable new entries.
        notifying: whether listeners are being called.
        follow: the most that any listener needs.
    """

    __slots__ = (
        "_asked",
        "_at_once",
        "_awaited",
        "_chain",
        "_closed",
        "_continuation",
        "_due",
        "_flush_interval",
        "_fresh",
        "_gathering",
        "_handle",
        "_hold",
        "_latency_tolerant",
        "_listeners",
        "_log",
        "_loop",
        "_notified",
        "_owner_limit",
        "_unmeasured",
        "follow",
        "latest_batch",
        "notifying",
    )

    def __init__(self, log_: ReadLog) -> None:
        self.latest_batch: TailBatch | None = None
        self.notifying = False
        self.follow = Follow.ENTRIES
        self._log = log_
        self._chain = log_.chain
        self._listeners: SmallMap[Callable[[], None], Follow] = SmallMap()
        self._latency_tolerant: set[Callable[[], None]] | frozenset[Callable[[], None]] = _NOBODY
        self._loop = asyncio.get_running_loop()
        self._flush_interval = _UNUSED
        self._notified: Position | None = None
        self._awaited = False
        self._fresh = _NO_ENTRIES
        self._due = False
        self._at_once = False
        self._handle: asyncio.Handle | None = None
        self._gathering: asyncio.Task[None] | None = None
        self._owner_limit: DispatchLimit | None = None
        self._hold: DispatchHold | None = None  # with a limit only
        self._asked = False
        self._closed = False
        self._unmeasured = 0
        self._continuation: asyncio.Handle | None = None

    def listen(
        self, listener: Callable[[], None], *, latency_tolerant: bool = False, follow: Follow = Follow.ENTRIES
    ) -> None:
        """As TopicLog.listen."""
        self._listeners[listener] = follow
        if latency_tolerant:
            if isinstance(self._latency_tolerant, frozenset):
                self._latency_tolerant = set()
            self._latency_tolerant.add(listener)
        self._follow()

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Remove a listener."""
        self._listeners.pop(listener, None)
        if isinstance(self._latency_tolerant, set):
            self._latency_tolerant.discard(listener)
        self._follow()

    def _follow(self) -> None:
        before, self.follow = self.follow, max(self._listeners.values(), default=Follow.ENTRIES)
        if before is Follow.LEDGERS < self.follow:
            # What has come meanwhile is no news: listeners have read it, or will by themselves.
            self.latest_batch = self._notified = None
            self._fresh = _NO_ENTRIES

    @property
    def listeners(self) -> int:
        """Number of listeners."""
        return len(self._listeners)

    def close(self) -> None:
        """Remove all listeners and stop."""
        self._closed = True
        self._listeners.clear()
        self._latency_tolerant = _NOBODY
        for handle in (self._handle, self._continuation):
            if handle is not None:
                handle.cancel()
        if self._gathering is not None:
            self._gathering.cancel()

    def set_limit(self, limit: DispatchLimit) -> None:
        """As TopicLog.limit_dispatches."""
        self._owner_limit = limit
        self._hold = DispatchHold()
        limit.on_answer = self._on_owner_answer

    @property
    def pause(self) -> float:
        """Seconds without need for new entries."""
        if self._holds:
            return SPACING_S[0]  # entries that arrive before the answer can wait for the next one
        return self._flush_interval.pause(self._loop.time())

    @property
    def _holds(self) -> bool:
        """Whether a dispatch waits for an answer of the owner."""
        return self._hold is not None and self._hold.pending

    def defer_to_notification(self, position: Position) -> bool:
        """Whether the listeners will be called for an entry that is readable now: one read serves all of them."""
        if self._notified is None or position <= self._notified or self.follow < Follow.ENTRIES:
            return False
        self._awaited = True
        return True

    # New entries

    def on_entries(self, entries: list[TopicEntry]) -> None:
        """Keep new entries, which may be unconfirmed; `on_limit_changed` follows their confirmation."""
        fresh, first = self._fresh, entries[0]
        goes_on = fresh and (fresh[-1].ledger_id, fresh[-1].entry_id + 1) == (first.ledger_id, first.entry_id)
        self._fresh = fresh + entries if goes_on and len(fresh) < PREFETCH_ENTRIES else entries

    def can_splice(self, last: Position, listener: Callable[[], None]) -> bool:
        """Return whether nothing waits after this entry, and only this listener would be called for the next ones."""
        return (
            self._notified == last
            and len(self._listeners) == 1
            and listener in self._listeners
            and not (self._due or self._fresh or self._closed)
            and self._handle is None
            and self._gathering is None
            and self._continuation is None
            and (self._owner_limit is None or not self._owner_limit.active)
        )

    def on_spliced(self, batch: TailBatch) -> None:
        """Continue after a batch that the only listener has got already."""
        self.latest_batch, self._notified = batch, batch.last

    def on_limit_changed(self, *, at_once: bool = False) -> None:
        """Schedule a dispatch: more entries may be readable, or fewer.

        Args:
            at_once: whether to ignore the interval, after a change of the topic's ledgers.
        """
        self._due = True
        self._at_once |= at_once
        self._schedule()

    def on_pushed(self, entries: list[TopicEntry], now: float, *, flows: bool, at_once: bool = False) -> None:
        """Dispatch readable entries at once if they are the next ones and nothing else waits, as mostly; else soon.

        Args:
            entries: entries of one ledger, without a gap.
            now: the loop's time.
            flows: whether entries come at a high rate. Then the first ones wait GATHER_S for those right behind them.
            at_once: whether to ignore the rate and the interval.
        """
        ledger_id, entry_id = last = entries[-1].position
        owner = self._owner_limit
        if (
            (at_once or not flows)
            and self._listeners
            and self._notified == (ledger_id, entry_id - len(entries))
            and not (self._due or self._fresh or self._closed)
            and self._handle is None
            and self._gathering is None
            and (owner is None or not owner.active or (last <= owner.limit and not self._holds))
            and (at_once or now >= self._flush_interval.early)
            and (len(entries) == 1 or summarize(entries)[1] <= TAIL_BATCH_BYTES)
        ):
            try:
                self._notify(TailBatch(entries, Position(ledger_id, entry_id + 1), complete=True), last)
            except Exception as error:  # noqa: BLE001 - listeners may raise any error
                self._failed(error)
        else:
            self.on_entries(entries)
            self._due = True
            self._schedule(GATHER_S if flows else 0.0, at_once=at_once)

    def _schedule(self, least: float = 0.0, *, at_once: bool = False) -> None:
        if not self._due or self._closed or self._gathering is not None or (self._holds and not self._at_once):
            return
        hold = 0.0 if self._at_once or at_once else max(self._flush_interval.hold(self._loop.time()), least)
        if self._handle is not None:
            if hold:
                return
            self._handle.cancel()
        self._handle = self._loop.call_later(hold, self._run) if hold else self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._handle = None
        self._due = self._at_once = False
        try:
            self._dispatch()
        except Exception as error:  # noqa: BLE001 - listeners may raise any error
            self._failed(error)

    def _dispatch(self) -> None:
        limit = self._chain.limit
        if not self._listeners or self._notified is None or limit is None or limit <= self._notified:
            self._end_hold()
            self._notify(None, limit)
            return
        if self.follow < Follow.ENTRIES:
            self._end_hold()
            self._notify(None, limit, paced=True)
            return
        first = self._chain.after(self._notified)
        last = self._permitted(self._notified, first, limit)
        if last is None:
            return
        self._due |= last < limit
        batch = self._in_hand(first, last)
        if batch is None:
            self._gathering = self._loop.create_task(self._gather(first, last))
            self._gathering.add_done_callback(self._gathered)
        else:
            self._notify(batch, last)
            self._schedule()

    def _permitted(self, notified: Position, first: Position, limit: Position) -> Position | None:
        """Return the last entry of the dispatch; None while the owner is asked."""
        owner, hold = self._owner_limit, self._hold
        if owner is None or hold is None or not owner.active:
            return limit
        last = hold.decide(notified, first, limit, owner.limit, self._loop.time())
        if (at := hold.next_timer()) is not None:
            self._asked = True
            owner.request(limit, limit)
            self._handle = self._loop.call_at(at, self._run)
        return last

    def _on_owner_answer(self, awaited: Position) -> None:
        """Continue a held dispatch after an answer of the owner."""
        if self._hold is not None and self._hold.pending:
            self._hold.answered(awaited)
            self.on_limit_changed(at_once=True)

    def _end_hold(self) -> None:
        if self._hold is not None:
            self._hold.end()

    def _in_hand(self, first: Position, limit: Position) -> TailBatch | None:
        """Return a batch of all new entries if all of them have just arrived; else None."""
        fresh = self._fresh
        if not fresh or fresh[0].ledger_id != first.ledger_id or first.ledger_id != limit.ledger_id:
            return None
        begin, end = first.entry_id - fresh[0].entry_id, limit.entry_id - fresh[0].entry_id + 1
        if begin < 0 or end > len(fresh) or end - begin > PREFETCH_ENTRIES:
            return None
        entries = fresh[begin:end]
        if fresh[-1].entry_id - fresh[0].entry_id != len(fresh) - 1 or summarize(entries)[1] > TAIL_BATCH_BYTES:
            return None
        return TailBatch(entries, self._chain.after(limit), complete=True)

    def _keep_pending(self) -> None:
        """Drop dispatched entries from the fresh ones, and keep unconfirmed ones."""
        notified, fresh = self._notified, self._fresh
        if notified is None or not fresh:
            return
        if fresh[-1].position <= notified:
            self._fresh = _NO_ENTRIES
        elif fresh[0].ledger_id == notified.ledger_id:
            self._fresh = fresh[max(notified.entry_id + 1 - fresh[0].entry_id, 0) :]

    async def _gather(self, first: Position, limit: Position) -> None:
        """Read one batch of new entries and call the listeners; without a batch if they cannot be read now."""
        entries: list[TopicEntry] = []
        position, size = first, 0
        try:
            while position <= limit and len(entries) < PREFETCH_ENTRIES and size < TAIL_BATCH_BYTES:
                found = await self._log.read(position, PREFETCH_ENTRIES - len(entries))
                if not found:
                    break
                owner = self._owner_limit
                if owner is not None and owner.active and found[-1].position > limit:
                    found = [entry for entry in found if entry.position <= limit]
                if not found:
                    break
                entries += found
                size += summarize(found)[1]
                position = self._chain.after(found[-1].position)
        except BookKeeperError as error:
            log.info("read of new entries failed: topic=%s error=%s", self._log.topic, error)
        batch = TailBatch(entries, position, complete=entries[-1].position >= limit) if entries else None
        self._notify(batch, limit)

    def _gathered(self, task: asyncio.Task[None]) -> None:
        self._gathering = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._schedule()
        else:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        """Log an unexpected error and continue later: it must neither end the dispatch nor become a busy loop."""
        log.error(
            "dispatch of new entries failed unexpectedly, retrying: topic=%s retry_s=%g",
            self._log.topic,
            RESTART_DELAY_S,
            exc_info=error,
        )
        if self._handle is not None:
            self._handle.cancel()
        if not self._closed:
            self._handle = self._loop.call_later(RESTART_DELAY_S, self._run)

    def _notify(self, batch: TailBatch | None, limit: Position | None, *, paced: bool = False) -> None:
        """Call the listeners; with all new entries, or if `paced`, not again before the interval has passed."""
        self.latest_batch, self._awaited = batch, False
        self._notified = limit if batch is None else batch.last
        if self._fresh:
            self._keep_pending()
        if paced or (batch is not None and batch.complete):
            self._own_interval().notified(
                self._loop.time(),
                latency_tolerant=len(self._latency_tolerant) == len(self._listeners),
                least=SPACING_S[0] if self._asked else 0.0,  # the next request is not sent earlier
                end_only=self.follow < Follow.ENTRIES,
            )
            self._asked = False
        self._unmeasured += 1
        measured = batch is not None and self._unmeasured >= MEASURE_EVERY
        if self._continuation is not None:
            self._continuation.cancel()  # its listeners are called now
            self._continuation = None
        self._call(_Notification(list(self._listeners), batch, limit, 0.0 if measured else None))

    def _own_interval(self) -> FlushInterval:
        """Return the interval of this topic, for a change."""
        if self._flush_interval is _UNUSED:
            self._flush_interval = FlushInterval()
        return self._flush_interval

    def _call(self, notification: _Notification) -> None:
        """Call listeners for SLICE_S, and the others soon."""
        listeners, began = notification.listeners, time.thread_time() if notification.cost is not None else 0.0
        until = self._loop.time() + SLICE_S if len(listeners) > SLICE_CALLS else 0.0
        self.notifying = True
        try:
            while listeners:
                slice_, listeners[-SLICE_CALLS:] = listeners[-SLICE_CALLS:], []
                for listener in slice_:
                    if listener in self._listeners:
                        listener()
                if listeners and self._loop.time() >= until:
                    break
        finally:
            self.notifying = False
        if notification.cost is not None:
            notification.cost += time.thread_time() - began
        if listeners and not self._closed:
            self._continuation = self._loop.call_soon(self._continue_notifying, notification)
        else:
            self._called(notification)

    def _continue_notifying(self, notification: _Notification) -> None:
        self._continuation = None
        try:
            self._call(notification)
        except Exception as error:  # noqa: BLE001 - listeners may raise any error
            self._failed(error)

    def _called(self, notification: _Notification) -> None:
        if notification.cost is not None:
            self._unmeasured = 0
            self._own_interval().cost(notification.cost)
        batch = notification.batch
        if batch is not None and not batch.complete:
            if self._awaited:
                self.on_limit_changed()
            else:
                self._notified = notification.limit
