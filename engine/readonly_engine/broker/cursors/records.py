"""Messages of a topic with local cursors: read from its compacted ledger on."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Final

import pulsar

from readonly_engine.wire.cursor_records import decode_key
from readonly_engine.wire.errors import MalformedFrameError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from pulsar.asyncio import Client

    from readonly_engine.metadata.topic_name import TopicName

MAX_KEPT_BYTES: Final = 1 << 30
"""Bound of the last records of all keys, which are in memory while they are read. A million cursors have some 50 MB."""


async def read_messages(client: Client, topic: TopicName) -> AsyncGenerator[tuple[str, bytes]]:
    """Yield the keys and values of a topic, from its compacted ledger on, up to its last message.

    Raises:
        PulsarException: the topic cannot be read.
    """
    reader = await client.create_reader(str(topic), pulsar.MessageId.earliest, is_read_compacted=True)
    try:
        while await reader.has_message_available():
            message = await reader.read_next()
            key, value = message.partition_key(), message.data()
            if key or value:  # the client delivers what a compaction has removed from a batch as an empty message
                yield key, value
    finally:
        await reader.close()


async def read_topics_records(
    client: Client, partition: TopicName, topics: frozenset[str], count: Callable[[int], None]
) -> dict[str, bytes]:
    """Return the last records of some topics in one partition with cursors.

    The pool may write meanwhile. A mixture of older and newer records is a valid state (wire/cursor_records.py).

    Args:
        client: the client.
        partition: the partition.
        topics: the topics.
        count: called with the growth of the records in memory, in bytes.

    Raises:
        PulsarException: the partition cannot be read.
        MalformedFrameError: a message is no such record.
    """
    records: dict[str, bytes] = {}
    async with aclosing(read_messages(client, partition)) as messages:
        async for key, value in messages:
            if decode_key(key).topic not in topics:
                continue
            before = records.pop(key, None)
            if before is not None:
                count(-len(key) - len(before))
            if value:
                records[key] = value
                count(len(key) + len(value))
    return records


class KeptBytes:
    """Bounds the records in memory.

    Args:
        limit: the bound, in bytes.
    """

    def __init__(self, limit: int = MAX_KEPT_BYTES) -> None:
        self._limit = limit
        self._bytes = 0

    def add(self, size: int) -> None:
        """Count a change.

        Raises:
            MalformedFrameError: the records exceed the bound.
        """
        self._bytes += size
        if self._bytes > self._limit:
            raise MalformedFrameError(f"the last records of all keys have more than {self._limit:,} bytes")
