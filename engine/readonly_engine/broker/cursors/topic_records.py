"""Records of local cursors in a compacted topic of the source cluster."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING

import pulsar
from pulsar.asyncio import PulsarException

from readonly_engine.broker.cursors.commits import CompactionSchedule
from readonly_engine.broker.cursors.records import MAX_KEPT_BYTES, read_messages
from readonly_engine.broker.cursors.store import CursorStoreError
from readonly_engine.owner.errors import RelayError
from readonly_engine.wire.cursor_records import decode_key
from readonly_engine.wire.errors import MalformedFrameError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pulsar.asyncio import Client, Producer

    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.cursor_admin import CursorAdmin

log = logging.getLogger(__name__)


class TopicRecords:
    """The records of one partition of a topic (CursorRecords).

    They are written by a producer with ExclusiveWithFencing, so the owner refuses what a former writer sends later. The client
    refuses more than 1,000 sends under way (max_pending_messages), and the store writes fewer.

    Args:
        client: client of the source cluster, with the broker's own credentials.
        topic: name of the partition.
        admin: compacts the topic.
    """

    def __init__(self, client: Client, topic: TopicName, admin: CursorAdmin) -> None:
        self._client = client
        self._topic = topic
        self._admin = admin
        self._producer: Producer | None = None
        self._compactions = CompactionSchedule()

    @property
    def name(self) -> str:
        """The topic."""
        return str(self._topic)

    async def open(self) -> dict[str, bytes]:
        """Fence the last writer; return the last records of all keys.

        Raises:
            CursorStoreError: the topic cannot be written or read.
            MalformedFrameError: its records are damaged, or it has other messages.
        """
        try:
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
            return await self._read()
        except (PulsarException, RelayError) as error:
            raise CursorStoreError(f"the local cursors in {self._topic} cannot be read: {error}") from error

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

    async def write(self, records: Sequence[tuple[str, bytes]]) -> None:
        """Store records in their order; an empty one removes its key.

        Raises:
            PulsarException: the owner does not accept them: another broker writes.
        """
        producer = self._producer
        assert producer is not None
        await asyncio.gather(
            *(producer.send(value, partition_key=key, disable_replication=True) for key, value in records)
        )
        for key, value in records:
            self._compactions.written(key, len(value))

    @property
    def compaction_due(self) -> bool:
        """Whether to compact the topic now."""
        return self._compactions.due

    async def compact(self) -> None:
        """Compact the topic."""
        try:
            self._compactions.begun()
            await self._admin.compact(self._topic)
        except RelayError as error:
            log.warning("the topic of local cursors was not compacted: topic=%s error=%s", self._topic, error)

    async def close(self) -> None:
        """Close the producer, so that other brokers can write."""
        producer, self._producer = self._producer, None
        if producer is not None:
            try:
                await producer.close()
            except PulsarException as error:
                log.info("the producer of local cursors was not closed: topic=%s error=%s", self._topic, error)
