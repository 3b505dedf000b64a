"""Places in a topic of a replay: its begin, where the clock is, and where a client wants to begin."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.wire.errors import MalformedFrameError, WireError
from readonly_engine.wire.message import decode_metadata
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandSubscribe, ServerError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.replay.log import ReplayLog
    from readonly_engine.topic.replay.shared import SharedClock

OPEN_TIMEOUT_S: Final = 20.0
"""Limit of the time to find where the clock is in a topic, below the 30 s after which clients give up a request."""

MAX_MARKERS: Final = 100
"""Markers at the end of a topic that are passed over in search of its last message."""

MS_PER_S: Final = 1000


def before(position: Position) -> Position:
    """Return the mark-delete position of a cursor that reads a position next."""
    return Position(position.ledger_id, max(position.entry_id, 0) - 1)


class ReplayPositions:
    """Finds places in the topics of a replay, from the metadata store and from storage.

    Args:
        cluster: the metadata.
        open_log: opens a topic, and keeps it open.
        replay: the clock.
    """

    def __init__(
        self,
        cluster: ClusterMetadata,
        open_log: Callable[[TopicName], AbstractAsyncContextManager[ReplayLog]],
        replay: SharedClock,
    ) -> None:
        self._cluster = cluster
        self._open_log = open_log
        self._replay = replay

    @asynccontextmanager
    async def _opened(self, topic: TopicName) -> AsyncIterator[ReplayLog]:
        """Open a topic.

        Raises:
            OwnerRefusedError: the topic does not exist.
            OwnerUnavailableError: its entries cannot be read now.
        """
        try:
            async with self._open_log(topic) as log:
                if not log.chain.stored.ledger_ids:
                    why = f"topic {topic} does not exist, and a replay creates none"
                    raise OwnerRefusedError(ServerError.TopicNotFound, why)
                async with asyncio.timeout(OPEN_TIMEOUT_S):
                    await log.located()
                yield log
        except (BookKeeperError, MetadataError, WireError, TimeoutError) as error:
            raise OwnerUnavailableError(f"{topic} cannot be read now: {error or 'no answer in time'}") from error

    async def start_of(self, topic: TopicName, subscribe: CommandSubscribe) -> Position:
        """Return the mark-delete position of a new subscription.

        Raises:
            OwnerRefusedError: the topic does not exist, or the begin of the replay is trimmed there.
            OwnerUnavailableError: its entries cannot be read now.
        """
        async with self._opened(topic) as log:
            await self._check_kept(topic, log)
            rollback = subscribe.start_message_rollback_duration_sec
            if rollback > 0:
                now = self._replay.clock.position(self._replay.now_ms())
                return await self._at_time(log, now - rollback * MS_PER_S)
            if subscribe.HasField("start_message_id"):
                start = subscribe.start_message_id
                wanted = Position(start.ledger_id, start.entry_id)
                if start.batch_index >= 0 and start.entry_id >= 0:
                    wanted = before(
                        wanted
                    )  # the batch may be consumed in part (PersistentTopic.getNonDurableSubscription)
                return await self._clamped(log, wanted)
            clock = self._replay.clock
            if clock.round:  # a subscription of the round before goes on without a gap
                return await self._at_time(log, clock.round_ms)
            if subscribe.initial_position == CommandSubscribe.Earliest:
                return await self._begin(log)
            return self._latest(log, await self._begin(log))

    async def begin_at(self, topic: TopicName, position: Position) -> Position:
        """Return the mark-delete position of a cursor that reads a position next: within the replay, and up to its clock.

        Raises:
            RelayError: as `start_of`.
        """
        async with self._opened(topic) as log:
            return await self._clamped(log, position)

    async def at_time(self, topic: TopicName, publish_ms: float) -> Position:
        """Return the first position of a publish time or a later one: within the replay, and up to its clock.

        Raises:
            RelayError: as `start_of`.
        """
        async with self._opened(topic) as log:
            found = await self._at_time(log, publish_ms)
            return Position(found.ledger_id, found.entry_id + 1)

    async def last(self, topic: TopicName) -> BaseCommand:
        """Return the answer to GET_LAST_MESSAGE_ID: the last message that the clock has released.

        Raises:
            RelayError: as `start_of`.
        """
        async with self._opened(topic) as log:
            begin = await self._begin(log)
            position, entry = log.limit, None
            for _ in range(MAX_MARKERS):
                if position is None or position <= begin:
                    break
                found = await log.read(position, 1)
                if found and not found[0].marker:
                    entry = found[0]
                    break
                position = log.chain.before(position)
        answer = BaseCommand(type=BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE)
        last = answer.get_last_message_id_response.last_message_id
        last.ledger_id, last.entry_id = EARLIEST if entry is None else entry.position
        last.partition = topic.partition
        last.batch_index = -1 if entry is None else _last_batch_index(entry)
        return answer

    async def _at_time(self, log: ReplayLog, publish_ms: float) -> Position:
        return await self._clamped(log, await log.position_at(publish_ms))

    @staticmethod
    async def _begin(log: ReplayLog) -> Position:
        return before(await log.begin())

    @staticmethod
    def _latest(log: ReplayLog, begin: Position) -> Position:
        return max(begin, log.limit or EARLIEST)

    async def _clamped(self, log: ReplayLog, position: Position) -> Position:
        begin = await self._begin(log)
        return min(max(begin, before(position) if position >= (0, 0) else EARLIEST), self._latest(log, begin))

    async def _check_kept(self, topic: TopicName, log: ReplayLog) -> None:
        """Check that no entry of the replay was deleted by retention.

        The first remaining entry may be later than the replay's begin because nothing was published before it: then its ledger,
        or the topic, tells.

        Raises:
            OwnerRefusedError: the begin of the replay is trimmed.
        """
        begin = self._replay.clock.begin_ms
        first = log.chain.stored.first
        entries = [] if first is None else await log.read_stored(first, 1)
        if entries and entries[0].timestamp <= begin:
            return
        ledger_created = await self._cluster.ledger_created_ms(log.chain.stored.ledger_ids[0])
        if ledger_created is not None and ledger_created <= begin:
            return
        stored = await self._cluster.stored_topic(topic)
        if stored is None or stored.created_ms >= begin:
            return
        remaining = f"the first entry is of {_time(entries[0].timestamp)}" if entries else "it has no entries"
        raise OwnerRefusedError(
            ServerError.NotAllowedError,
            f"{topic} does not go back to {_time(begin)}, the begin of the replay: retention has deleted its ledgers of then, and"
            f" {remaining}. Set --replay-from to that time or a later one",
        )


def _last_batch_index(entry: TopicEntry) -> int:
    """Return the index of the last message in its batch; -1 for no batch (ServerCnx.getLargestBatchIndexWhenPossible)."""
    try:
        metadata = decode_metadata(entry.payload)
    except MalformedFrameError:
        return -1
    return metadata.num_messages_in_batch - 1 if metadata.HasField("num_messages_in_batch") else -1


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
