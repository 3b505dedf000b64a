"""The store of local cursors: the asyncio shell around topic_cursors.py and commits.py."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

from readonly_engine.background import end_with, ends
from readonly_engine.broker.cursors.commits import COMMIT_S, CommitSchedule
from readonly_engine.broker.cursors.topic_cursors import TopicCursors, by_topic
from readonly_engine.wire.errors import MalformedFrameError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from readonly_engine.broker.cursors.local_cursor import LocalCursor
    from readonly_engine.topic.position import Position

log = logging.getLogger(__name__)

WRITES: Final = 500
"""Records that are written together."""

OPEN_TIMEOUT_S: Final = 60.0
"""Limit of the time to fence the last writer and to read all records."""

CLOSE_TIMEOUT_S: Final = 10.0
"""Limit of the time to store the last changes, and of that to close the records."""

MAX_CALLS: Final = 100_000
"""Receipts of acks that wait for commits. While the source cluster stores nothing, clients could ask for any number."""

STORE_TIMEOUT_S: Final = 20.0
"""Limit of a wait for a commit, below the 30 s after which clients give up a request (operationTimeoutMs)."""


class CursorStoreError(Exception):
    """The cursors are not readable or writable here: another broker has them, or the source cluster does not answer."""


class CursorRecords(Protocol):
    """The records of one group of subscriptions (wire/cursor_records.py), which one broker of the pool writes at a time."""

    @property
    def name(self) -> str:
        """Where they are, for errors."""

    async def open(self) -> Mapping[str, bytes]:
        """Fence the last writer; return the last records of all keys.

        Raises:
            CursorStoreError: they cannot be read or written.
        """

    async def write(self, records: Sequence[tuple[str, bytes]]) -> None:
        """Store records in their order; an empty one removes its key.

        Raises:
            Exception: they cannot be stored, or another broker writes.
        """

    @property
    def compaction_due(self) -> bool:
        """Whether earlier records take so much room that `compact` is worth it."""

    async def compact(self) -> None:
        """Remove earlier records."""

    async def close(self) -> None:
        """Let other brokers write."""


class CursorStore:
    """The local cursors of one group of subscriptions, which one broker of the pool stores at a time.

    Args:
        records: stores them.
        on_lost: called with the reason when nothing can be stored any more, not after `close`.
        interval_s: longest wait of a change before its commit begins.
    """

    def __init__(self, records: CursorRecords, on_lost: Callable[[str], None], interval_s: float = COMMIT_S) -> None:
        self._records = records
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._open = False
        self._topics: dict[str, TopicCursors] = {}
        self._changed: dict[TopicCursors, None] = {}
        self._stored_topics: set[str] = set()
        self._commits = CommitSchedule(interval_s)
        self._timer: asyncio.TimerHandle | None = None
        self._committing: asyncio.Task[None] | None = None
        self._compacting: asyncio.Task[None] | None = None
        self._waiting: dict[asyncio.Future[None], int] = {}  # the numbers of their commits
        self._calls: list[tuple[int, Callable[[bool], None]]] = []
        self._cost = 0.0  # seconds that the last commit took to encode
        self._lost = ""
        self._closing = False

    async def open(self) -> None:
        """Fence the last writer, and read all records.

        Raises:
            CursorStoreError: the records cannot be written or read, or are damaged.
        """
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                records = await self._records.open()
            self._open = True
            for topic, of_topic in by_topic(records.items()).items():
                self.of(topic).restore(of_topic.items())
        except (TimeoutError, MalformedFrameError) as error:
            await self.close()
            raise CursorStoreError(
                f"the local cursors in {self._records.name} cannot be read: {error or 'no answer'}"
            ) from error
        except BaseException:
            await self.close()
            raise
        for cursors in self._topics.values():
            if cursors.has_changes:
                self.changed(cursors)

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))

    def of(self, topic: str) -> TopicCursors:
        """Return the cursors of a topic, which may have none."""
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = TopicCursors(topic)
        return found

    def has(self, topic: str) -> bool:
        """Return whether a topic has cursors."""
        found = self._topics.get(topic)
        return found is not None and len(found) > 0

    def slowest(self, topic: str) -> Position | None:
        """Return the lowest mark-delete position in a topic (TopicCursors.slowest); None without a cursor."""
        found = self._topics.get(topic)
        return None if found is None else found.slowest

    def forget_empty(self) -> None:
        """Forget topics that have no cursors, and no records any more. Nobody may keep their empty TopicCursors over an await."""
        if self._committing is None:
            for topic, cursors in list(self._topics.items()):
                if not len(cursors) and not cursors.has_changes and cursors not in self._changed:
                    del self._topics[topic]

    def find(self, topic: str, subscription: str) -> LocalCursor | None:
        """Return the cursor of a subscription; None without one."""
        found = self._topics.get(topic)
        return None if found is None else found.find(subscription)

    def changed(self, cursors: TopicCursors) -> int:
        """Store the changes of a topic's cursors soon; return the number of the commit, for `wait_stored`."""
        self._changed[cursors] = None
        number = self._commits.changed(self._loop.time())
        self._schedule()
        return number

    @property
    def lost(self) -> str:
        """Why nothing can be stored here any more; empty while it can."""
        return self._lost

    @property
    def topics(self) -> list[str]:
        """Names of the topics with cursors."""
        return [topic for topic, cursors in self._topics.items() if len(cursors)]

    def take_stored(self) -> set[str]:
        """Return the names of topics whose cursors have changed since the last call."""
        found, self._stored_topics = self._stored_topics, set()
        return found

    @property
    def commits(self) -> CommitSchedule:
        """The commits, with their latencies."""
        return self._commits

    @property
    def unstored(self) -> bool:
        """Whether changes are not stored yet."""
        return bool(self._changed) or self._committing is not None

    def commit_of(self, topic: str) -> int:
        """Return the number of the commit that has all changes of a topic's cursors until now."""
        return self._commits.begun + (self._topics.get(topic) in self._changed)

    async def wait_stored(self, number: int) -> None:
        """Wait until a commit is complete.

        Raises:
            CursorStoreError: it cannot be stored here any more, or the source cluster does not store it in STORE_TIMEOUT_S.
        """
        if number <= self._commits.stored:
            return
        if self._lost:
            raise CursorStoreError(self._lost)
        stored: asyncio.Future[None] = self._loop.create_future()
        self._waiting[stored] = number
        try:
            async with asyncio.timeout(STORE_TIMEOUT_S):
                await stored
        except TimeoutError as error:
            raise CursorStoreError(
                f"{self._records.name} did not store a change of a cursor in {STORE_TIMEOUT_S:g} s"
            ) from error
        finally:
            self._waiting.pop(stored, None)

    def call_when_stored(self, number: int, call: Callable[[bool], None]) -> None:
        """Call back when a commit is complete, with True; or with False when nothing can be stored here, or MAX_CALLS wait."""
        if number <= self._commits.stored or self._lost or len(self._calls) >= MAX_CALLS:
            self._loop.call_soon(self._call, call, not self._lost and number <= self._commits.stored)
        else:
            self._calls.append((number, call))

    @ends("_end_after_error")
    def _call(self, call: Callable[[bool], None], stored: bool) -> None:
        call(stored)

    async def close(self) -> None:
        """Store the last changes, and let other brokers write."""
        self._closing = True
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                while not self._lost and self._open and (self._changed or self._committing is not None):
                    self._begin()
                    if self._committing is not None:
                        await asyncio.wait([self._committing])
                    else:
                        await asyncio.sleep(0)  # so that the timeout can end it
        except TimeoutError:
            log.warning("the last changes of local cursors were not stored: topic=%s", self._records.name)
        self._end(self._lost or "the store is closed")
        for task in (self._committing, self._compacting):
            if task is not None:
                task.cancel()
        self._open = False
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._records.close()
        except TimeoutError:
            log.info("the records of local cursors were not closed: topic=%s error=no answer", self._records.name)

    # Commits

    def _schedule(self) -> None:
        due = self._commits.due
        if due is not None and self._timer is None and not self._lost:
            self._timer = self._loop.call_at(due, self._begin)

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._lost or self._committing is not None or self._commits.due is None:
            return
        self._commits.begin()
        changed, self._changed = self._changed, {}
        self._stored_topics.update(cursors.topic for cursors in changed)
        began = self._loop.time()
        try:
            records = [record for cursors in changed for record in cursors.begin_changes()]
        except Exception as error:
            # It is a defect. Nothing of this commit is stored, so the next holder begins with the commit before.
            log.exception("local cursors cannot be encoded: topic=%s", self._records.name)
            self._end(f"the local cursors in {self._records.name} cannot be encoded: {error}")
            return
        self._cost = self._loop.time() - began
        self._committing = self._loop.create_task(self._store(records))
        self._committing.add_done_callback(self._committed)

    async def _store(self, records: Sequence[tuple[str, bytes | Callable[[], bytes]]]) -> None:
        for begin in range(0, len(records), WRITES):
            await self._records.write(
                [(key, await self._encoded(value)) for key, value in records[begin : begin + WRITES]]
            )

    async def _encoded(self, value: bytes | Callable[[], bytes]) -> bytes:
        """Return a record; after the work for one of acks, let others have their turn."""
        if isinstance(value, bytes):
            return value
        began = self._loop.time()
        made = value()
        self._cost += self._loop.time() - began
        await asyncio.sleep(0)
        return made

    @ends("_end_after_error")
    def _committed(self, task: asyncio.Task[None]) -> None:
        self._committing = None
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            self._end(
                f"the local cursors in {self._records.name} cannot be stored here any more: {error or 'cancelled'}"
            )
            return
        self._commits.completed(self._loop.time(), self._cost)
        for stored, number in self._waiting.items():
            if number <= self._commits.stored and not stored.done():
                stored.set_result(None)
        calls, self._calls = self._calls, []
        for number, call in calls:
            if number > self._commits.stored:
                self._calls.append((number, call))
            else:
                call(True)
        self._schedule()
        if self._records.compaction_due and self._compacting is None:
            self._compacting = self._loop.create_task(self._compact())
            end_with(self._compacting, lambda _: self._end_after_error())

    async def _compact(self) -> None:
        try:
            await self._records.compact()
        finally:
            self._compacting = None

    def _end_after_error(self) -> None:
        self._end(f"the local cursors in {self._records.name} cannot be stored here any more: internal error")

    def _end(self, reason: str) -> None:
        """Refuse all further changes."""
        first, self._lost = not self._lost, self._lost or reason
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for stored in self._waiting:
            if not stored.done():
                stored.set_exception(CursorStoreError(reason))
        calls, self._calls = self._calls, []
        for _, call in calls:
            call(False)
        if first and not self._closing:
            self._on_lost(reason)
