"""Age of the oldest unacked entry of each subscription, measured when metrics are collected."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.bookkeeper.errors import BookKeeperError

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.broker.server.broker import Broker
    from readonly_engine.broker.subscription.served_topic import ServedTopic
    from readonly_engine.broker.subscription.subscription import Subscription
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.topic.position import Position

log = logging.getLogger(__name__)

MIN_INTERVAL_S: Final = 5.0
"""Shortest interval between two rounds of measurements, however often metrics are collected."""

MAX_READS: Final = 100
"""Entries that one round reads. The subscriptions whose last attempt is the oldest come first."""

MAX_READ_BYTES: Final = 16 << 20
"""Bytes after which a round begins no further read. The entries get into the cache and push others out of it, and an
entry may have 5 MiB."""

MAX_CONCURRENT_READS: Final = 8
WAIT_S: Final = 1.0
"""Longest wait of a collection for the round; then it gets the earlier measurements."""

ROUND_TIMEOUT_S: Final = 10.0
KEPT_S: Final = 300.0
"""Time for which a measurement is returned after the subscription has moved on."""

SUBSCRIPTIONS_PER_TURN: Final = 500
"""Subscriptions that are examined in one iteration of the event loop."""

_MS_PER_S: Final = 1000


class _Measurement(NamedTuple):
    """The oldest unacked entry of a subscription.

    Attributes:
        position: its position.
        published: its publish time in ms since the epoch; 0 for an entry without one.
        at: time of the measurement, in seconds since the epoch.
    """

    position: Position
    published: int
    at: float


class _Pending(NamedTuple):
    """A measurement to make; `attempted` is the time of the last attempt, 0 for none."""

    attempted: float
    key: tuple[TopicName, str]
    served: ServedTopic
    position: Position


class BacklogAges:
    """Measures how old the backlog of each subscription is.

    An entry is read once for all subscriptions whose backlog begins with it, from the cache if it is there. A subscription that
    stands still is not read again.

    Args:
        broker: the broker.
        clock: seconds since the epoch.
    """

    def __init__(self, broker: Broker, clock: Callable[[], float] = time.time) -> None:
        self._broker = broker
        self._clock = clock
        self._measured: dict[tuple[TopicName, str], _Measurement] = {}
        self._attempted: dict[tuple[TopicName, str], float] = {}
        self._round: asyncio.Task[None] | None = None
        self._began = float("-inf")
        self._room = 0

    async def measure(self) -> None:
        """Measure again if the last round is older than MIN_INTERVAL_S; wait for it up to WAIT_S."""
        now = asyncio.get_running_loop().time()
        if self._round is None or self._round.done():
            if now - self._began < MIN_INTERVAL_S:
                return
            self._began = now
            self._round = asyncio.create_task(self._measure_all())
            self._round.add_done_callback(_log_error)
        await asyncio.wait({self._round}, timeout=WAIT_S)

    def seconds(self, topic: TopicName, name: str, served: ServedTopic, subscription: Subscription) -> float | None:
        """Return the age of the oldest readable unacked entry of a subscription, in seconds.

        Returns:
            0 without backlog, also where the owner's clock is ahead. None while it is unknown.
        """
        if not subscription.has_backlog:
            return 0.0
        found = self._measured.get((topic, name))
        if found is None or not found.published:
            return None
        now = self._clock()
        if served.log.chain.after(subscription.mark_delete) != found.position:
            if now - found.at > KEPT_S:
                return None
            now = found.at
        return max(now - found.published / _MS_PER_S, 0.0)

    def close(self) -> None:
        """Cancel the round."""
        if self._round is not None:
            self._round.cancel()

    async def _measure_all(self) -> None:
        pending = await self._pending()
        free = asyncio.Semaphore(MAX_CONCURRENT_READS)
        self._room = MAX_READ_BYTES
        async with asyncio.timeout(ROUND_TIMEOUT_S):
            reads = (self._read(one, free) for one in pending)
            results = await asyncio.gather(*reads, return_exceptions=True)
        # The reads of a topic that closes are cancelled; that is not the end of the round.
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _pending(self) -> list[_Pending]:
        """Return the MAX_READS most overdue measurements, in order; forget subscriptions that have ended."""
        found: list[_Pending] = []
        kept: dict[tuple[TopicName, str], _Measurement] = {}
        attempted: dict[tuple[TopicName, str], float] = {}
        examined = 0
        for topic, served in self._broker.topics.all:
            chain = served.log.chain
            for name, subscription in list(served.subscriptions.items()):
                key = (topic, name)
                last, attempt = self._measured.get(key), self._attempted.get(key, 0.0)
                if last is not None:
                    kept[key] = last
                if attempt:
                    attempted[key] = attempt
                position = chain.after(subscription.mark_delete)
                if (last is None or last.position != position) and chain.readable(position):
                    found.append(_Pending(attempt, key, served, position))
                examined += 1
                if examined % SUBSCRIPTIONS_PER_TURN == 0:
                    found = _most_overdue(found)
                    await asyncio.sleep(0)
        self._measured, self._attempted = kept, attempted
        return _most_overdue(found)

    async def _read(self, pending: _Pending, free: asyncio.Semaphore) -> None:
        async with free:
            if self._room <= 0:
                return  # it comes first in the next round
            self._attempted[pending.key] = self._clock()
            try:
                entries = await pending.served.log.read(pending.position, 1)
            except BookKeeperError as error:
                log.debug("age of the backlog unknown: topic=%s error=%s", pending.key[0], error)
                return
            self._room -= sum(entry.size for entry in entries)
        if entries:
            self._measured[pending.key] = _Measurement(pending.position, entries[0].timestamp, self._clock())


def _most_overdue(pending: list[_Pending]) -> list[_Pending]:
    return sorted(pending, key=lambda one: one.attempted)[:MAX_READS]


def _log_error(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, TimeoutError):
        log.error("measuring the age of the backlog failed", exc_info=error)
