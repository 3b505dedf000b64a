"""`topic read`: the messages of a topic, or of all its partitions, in one stream."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from readonly_engine.tool.errors import ToolError
from readonly_engine.tool.messages import Unpacker
from readonly_engine.tool.start import find_start
from readonly_engine.topic.position import Position
from readonly_engine.topic.reading import TopicReader

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.tool.messages import Item
    from readonly_engine.tool.start import Start
    from readonly_engine.tool.storage import Storage
    from readonly_engine.topic.entries import TopicEntry

QUEUED_ENTRIES = 100


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a read.

    Attributes:
        start: first message.
        follow: whether to wait for new messages at the end.
        count: limit of messages; None for all.
        join: whether chunks are joined.
    """

    start: Start
    follow: bool = False
    count: int | None = None
    join: bool = True


@dataclass(slots=True)
class Outcome:
    """Counts of a read.

    Attributes:
        total: entries to read at its start.
        lost: entries that were trimmed before they were read.
        incomplete: chunked messages with a missing chunk.
    """

    total: int = 0
    lost: int = 0
    incomplete: int = 0


class _Part:
    """A topic or partition that is read."""

    def __init__(self, reader: TopicReader, partition: int, join: bool) -> None:
        self.reader = reader
        self.unpacker = Unpacker(partition, join=join)


async def read_topic(
    storage: Storage,
    parts: list[TopicName],
    options: ReadOptions,
    outcome: Outcome,
    read: Callable[[TopicEntry], None],
) -> AsyncGenerator[Item, None]:
    """Yield the items of a topic in order; those of several partitions by publish time, and at the tail by arrival.

    Args:
        storage: storage of the cluster.
        parts: the topic, or its partitions.
        options: options of the read.
        outcome: counts, updated during the read.
        read: called with every entry.

    Raises:
        ToolError: the start is a position, and there are several partitions.
        MetadataError: the metadata store does not answer.
        BookKeeperError: an entry cannot be read.
    """
    if isinstance(options.start, Position) and len(parts) > 1:
        raise ToolError(f"--from {options.start}: a position belongs to one partition; name it, as in {parts[0]}")
    async with AsyncExitStack() as stack:
        opened = []
        for topic in parts:
            log = await stack.enter_async_context(storage.log(topic))
            begin = await find_start(log, options.start)
            if log.limit is not None:
                outcome.total += max(log.chain.distance(Position(begin.ledger_id, begin.entry_id - 1), log.limit), 0)
            partition = topic.partition if len(parts) > 1 else -1
            opened.append(_Part(TopicReader(log, begin), partition, options.join))
        left = options.count
        try:
            async for part, entry in _entries(opened, follow=options.follow):
                read(entry)
                for item in part.unpacker.items(entry):
                    yield item
                    if left is not None:
                        left -= 1
                        if left <= 0:
                            return
        finally:
            outcome.lost = sum(part.reader.lost for part in opened)
            outcome.incomplete = sum(part.unpacker.incomplete for part in opened)


async def _entries(parts: list[_Part], *, follow: bool) -> AsyncGenerator[tuple[_Part, TopicEntry], None]:
    if len(parts) == 1:
        async for entry in parts[0].reader.entries(follow=follow):
            yield parts[0], entry
        return
    async for pair in _by_time(parts):
        yield pair
    if follow:
        async for pair in _as_they_come(parts):
            yield pair


async def _by_time(parts: list[_Part]) -> AsyncGenerator[tuple[_Part, TopicEntry], None]:
    """Yield the present entries of all partitions by publish time. Each partition keeps its own order."""
    waiting: list[tuple[int, int, TopicEntry]] = []
    iterators = [part.reader.entries() for part in parts]
    try:
        for index in range(len(parts)):
            await _advance(iterators[index], index, waiting)
        while waiting:
            first = min(waiting, key=lambda head: head[:2])
            waiting.remove(first)
            _, index, entry = first
            yield parts[index], entry
            await _advance(iterators[index], index, waiting)
    finally:
        for iterator in iterators:
            await iterator.aclose()


async def _advance(iterator: AsyncIterator[TopicEntry], index: int, waiting: list[tuple[int, int, TopicEntry]]) -> None:
    with suppress(StopAsyncIteration):
        entry = await anext(iterator)
        waiting.append((entry.timestamp, index, entry))


async def _as_they_come(parts: list[_Part]) -> AsyncGenerator[tuple[_Part, TopicEntry], None]:
    queue: asyncio.Queue[tuple[_Part, TopicEntry]] = asyncio.Queue(QUEUED_ENTRIES)

    async def read_part(part: _Part) -> None:
        async for entry in part.reader.entries(follow=True):
            await queue.put((part, entry))

    tasks = [asyncio.create_task(read_part(part)) for part in parts]
    ended: asyncio.Future[list[None]] = asyncio.gather(*tasks)
    try:
        while True:
            getter = asyncio.create_task(queue.get())
            waited: list[asyncio.Future[Any]] = [getter, ended]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if getter.done():
                yield getter.result()
                continue
            getter.cancel()
            await ended  # raises the error of a partition; without one, all partitions are terminated
            while not queue.empty():
                yield queue.get_nowait()
            return
    finally:
        ended.cancel()
        await asyncio.gather(ended, *tasks, return_exceptions=True)
