"""A reader of the storage layer that stays at the tail during writes and disturbances."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Final

from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.topic.reading import TopicReader

from longtests.oracle.storage import READ_ENTRIES, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_engine.topic.entries import TopicEntry

    from longtests.oracle.compare import Comparison, StoredFrame
    from longtests.oracle.storage import Floor

CONSUMER_ID: Final = 0
_RETRY_S: Final = 0.2


class LogFollower:
    """Reads one log from its beginning, and records the entries.

    Args:
        floor: the storage layer.
        topic: the log's name.
        iterate: whether to use TopicLog's iterator; else it requests entries as a broker's subscription does.
    """

    def __init__(self, floor: Floor, topic: str, *, iterate: bool = False) -> None:
        self.topic = topic
        self.seen: list[tuple[Position, bytes]] = []
        self.failures = 0
        self._log = floor.log(topic)
        self._moved = asyncio.Event()
        self._log.listen(self._moved.set)
        self._grew = asyncio.Condition()
        self._task = asyncio.create_task(self._iterate() if iterate else self._follow())

    async def reach(self, position: Position, seconds: float) -> None:
        """Wait until it has read up to a position.

        Raises:
            StorageError: it has not done so in time.
        """
        deadline = asyncio.get_running_loop().time() + seconds
        async with self._grew:
            while self._reached < position:
                if self._task.done():
                    self._task.result()
                rest = deadline - asyncio.get_running_loop().time()
                try:
                    await asyncio.wait_for(self._grew.wait(), max(rest, 0))
                except TimeoutError as error:
                    raise StorageError(
                        f"{self.topic}: the reader at the tail stopped at {self._reached}, the last entry is {position}"
                    ) from error

    def compare(self, stored: list[StoredFrame], result: Comparison) -> None:
        """Compare the entries read at the tail with those read afterwards: the same ones, once each, in order."""
        expected = [(entry.position, _digest(entry.frame)) for entry in stored]
        if self.seen == expected:
            return
        missing = [position for position, _ in expected if position not in dict(self.seen)]
        twice = len(self.seen) - len({position for position, _ in self.seen})
        result.differ(
            f"{self.topic}: read {len(self.seen)} entries at the tail, the log has {len(expected)}; "
            f"missing {len(missing)} {missing[:3]}, duplicated {twice}"
        )

    async def close(self) -> None:
        """Stop following."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._log.close()

    @property
    def _reached(self) -> Position:
        return self.seen[-1][0] if self.seen else EARLIEST

    async def _saw(self, entries: Iterable[TopicEntry]) -> None:
        async with self._grew:
            for entry in entries:
                frame = entry.frame(CONSUMER_ID, self._log.topic.partition)
                self.seen.append((entry.position, _digest(frame)))
            self._grew.notify_all()

    async def _iterate(self) -> None:
        await self._log.opened()
        async for entry in TopicReader(self._log).entries(follow=True):
            await self._saw([entry])

    async def _follow(self) -> None:
        await self._log.opened()
        position = self._log.chain.after(EARLIEST)
        while True:
            self._moved.clear()
            try:
                entries = await self._log.read(position, READ_ENTRIES)
            except (BookKeeperError, MetadataError):
                # A bookie is down, and its replica is busy. Retry, as a broker does.
                self.failures += 1
                await asyncio.sleep(_RETRY_S)
                continue
            if entries:
                await self._saw(entries)
                position = self._log.chain.after(self._reached)
                continue
            onward = self._log.chain.at_or_after(position)
            if self._log.chain.readable(onward):
                position = onward
                continue
            position = onward if self._log.chain.ledger_ids else position
            await self._moved.wait()


def _digest(frame: bytes) -> bytes:
    return hashlib.blake2b(frame, digest_size=16).digest()
