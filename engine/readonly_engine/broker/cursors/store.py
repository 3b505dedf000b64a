"""Local cursors in a compacted topic of the source cluster: the asyncio shell around topic_cursors.py and commits.py."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

import pulsar
from pulsar.asyncio import PulsarException

from readonly_engine.background import end_with, ends
from readonly_engine.broker.cursors.commits import CommitSchedule, CompactionSchedule
from readonly_engine.broker.cursors.records import MAX_KEPT_BYTES, read_messages
from readonly_engine.broker.cursors.topic_cursors import TopicCursors, by_topic
from readonly_engine.owner.errors import RelayError
from readonly_engine.wire.cursor_records import decode_key
from readonly_engine.wire.errors import MalformedFrameError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pulsar.asyncio import Client, Producer

    from readonly_engine.broker.cursors.topic_cursors import LocalCursor
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.cursor_admin import CursorAdmin
    from readonly_engine.topic.position import Position

log = logging.getLogger(__name__)

SENDS: Final = 500
"""Records under way at the same time. The client refuses more than 1,000 (max_pending_messages)."""

OPEN_TIMEOUT_S: Final = 60.0
"""Limit of the time to fence the last writer and to read all records."""

CLOSE_TIMEOUT_S: Final = 10.0
"""Limit of the time to store the last changes, and of that to close the producer."""

MAX_CALLS: Final = 100_000
"""Receipts of acks that wait for commits. While the source cluster stores nothing, clients could ask for any number."""

STORE_TIMEOUT_S: Final = 20.0
"""Limit of a wait for a commit, below the 30 s after which clients give up a request (operationTimeoutMs)."""


class CursorStoreError(Exception):
    """The cursors are not readable or writable here: another broker has them, or the source cluster does not answer."""


class CursorStore:
    """The local cursors of one group of subscriptions, which one broker of the pool stores at a time.

    The records are written by a producer with ExclusiveWithFencing, so the owner refuses what a former writer sends later.

    Args:
        client: client of the source cluster, with the broker's own credentials.
        topic: name of the topic of the records.
        admin: compacts the topic.
        on_lost: called with the reason when nothing can be stored any more, not after `close`.
    """

    def __init__(self, client: Client, topic: TopicName, admin: CursorAdmin, on_lost: Callable[[str], None]) -> None:
        self._client = client
        self._topic = topic
        self._admin = admin
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._producer: Producer | None = None
        self._topics: dict[str, TopicCursors] = {}
        self._changed: dict[TopicCursors, None] = {}
        self._stored_topics: set[str] = set()
        self._commits = CommitSchedule()
        self._compactions = CompactionSchedule()
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
            CursorStoreError: the topic cannot be written or read; or its records are damaged.
        """
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                await self._open()
        except (PulsarException, RelayError, TimeoutError, MalformedFrameError) as error:
            await self.close()
            raise CursorStoreError(
                f"the local cursors in {self._topic} cannot be read: {error or 'no answer'}"
            ) from error
        except asyncio.CancelledError:
            await self.close()
            raise

    async def _open(self) -> None:
        await self._check_ours()
        # The first compaction makes the cursor that keeps the records until the next one, also in an empty topic.
        await self._admin.compact(self._topic)
        self._producer = await self._client.create_producer(
            str(self._topic),
            access_mode=pulsar.ProducerAccessMode.ExclusiveWithFencing,
            batching_enabled=True,
            batching_max_publish_delay_ms=1,
            send_timeout_millis=0,
        )
        records = await self._read()
        for topic, of_topic in by_topic(records.items()).items():
            self.of(topic).restore(of_topic.items())
        for cursors in self._topics.values():
            if cursors.has_changes:
                self.changed(cursors)

    async def _check_ours(self) -> None:
        """Check the first message, before anything changes the topic or disconnects its producers.

        Raises:
            MalformedFrameError: it is none of these records.
        """
        async with aclosing(read_messages(self._client, self._topic)) as messages:
            async for key, _ in messages:
                decode_key(key)
                return

    async def _read(self) -> dict[str, bytes]:
        """Read the last records of all keys."""
        records: dict[str, bytes] = {}
        async with aclosing(read_messages(self._client, self._topic)) as messages:
            async for key, value in messages:
                records[key] = value
                self._compactions.written(key, len(value))
                if self._compactions.kept > MAX_KEPT_BYTES:
                    raise MalformedFrameError(f"the last records of all keys have more than {MAX_KEPT_BYTES:,} bytes")
        return records

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
                f"{self._topic} did not store a change of a cursor in {STORE_TIMEOUT_S:g} s"
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
                while not self._lost and self._producer is not None and (self._changed or self._committing is not None):
                    self._begin()
                    if self._committing is not None:
                        await asyncio.wait([self._committing])
                    else:
                        await asyncio.sleep(0)  # so that the timeout can end it
        except TimeoutError:
            log.warning("the last changes of local cursors were not stored: topic=%s", self._topic)
        self._end(self._lost or "the store is closed")
        for task in (self._committing, self._compacting):
            if task is not None:
                task.cancel()
        producer, self._producer = self._producer, None
        if producer is not None:
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await producer.close()
            except (PulsarException, TimeoutError) as error:
                log.info(
                    "the producer of local cursors was not closed: topic=%s error=%s", self._topic, error or "no answer"
                )

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
            log.exception("local cursors cannot be encoded: topic=%s", self._topic)
            self._end(f"the local cursors in {self._topic} cannot be encoded: {error}")
            return
        self._cost = self._loop.time() - began
        self._committing = self._loop.create_task(self._store(records))
        self._committing.add_done_callback(self._committed)

    async def _store(self, records: Sequence[tuple[str, bytes | Callable[[], bytes]]]) -> None:
        producer = self._producer
        assert producer is not None
        for begin in range(0, len(records), SENDS):
            encoded = [(key, await self._encoded(value)) for key, value in records[begin : begin + SENDS]]
            sends = [producer.send(value, partition_key=key, disable_replication=True) for key, value in encoded]
            await asyncio.gather(*sends)
            for key, value in encoded:
                self._compactions.written(key, len(value))

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
            self._end(f"the local cursors in {self._topic} cannot be stored here any more: {error or 'cancelled'}")
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
        if self._compactions.due and self._compacting is None:
            self._compacting = self._loop.create_task(self._compact())
            end_with(self._compacting, lambda _: self._end_after_error())

    async def _compact(self) -> None:
        try:
            self._compactions.begun()
            await self._admin.compact(self._topic)
        except RelayError as error:
            log.warning("the topic of local cursors was not compacted: topic=%s error=%s", self._topic, error)
        finally:
            self._compacting = None

    def _end_after_error(self) -> None:
        self._end(f"the local cursors in {self._topic} cannot be stored here any more: internal error")

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
