"""The producer and the readers that run during a fault; each records its messages with their times."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import pulsar
from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.topic.position import EARLIEST, Position

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.topic.log import TopicLog

MESSAGES_PER_S: Final = 100
SEND_TIMEOUT_MS: Final = 180_000
_RECEIVE_MS: Final = 200
_RETRY_S: Final = 0.1
_READ_ENTRIES: Final = 100
_PAYLOAD_BYTES: Final = 500


class Seen(NamedTuple):
    """A received entry: its position, and the time of receipt in seconds of the monotonic clock."""

    position: Position
    at: float


@dataclass(slots=True)
class Probe:
    """Record of one probe.

    Attributes:
        name: for the table.
        seen: entries in the order of receipt.
        furthest: the furthest entry so far.
    """

    name: str
    seen: list[Seen] = field(default_factory=list)
    furthest: Position = EARLIEST

    def took(self, ledger_id: int, entry_id: int) -> None:
        """Record an entry."""
        position = Position(ledger_id, entry_id)
        self.seen.append(Seen(position, time.monotonic()))
        self.furthest = max(self.furthest, position)

    @property
    def positions(self) -> list[Position]:
        """Positions of the entries, in the order of receipt."""
        return [seen.position for seen in self.seen]

    def longest_pause(self, begin: float, end: float) -> float:
        """Return the longest time between two entries in an interval, in seconds."""
        times = [begin, *(seen.at for seen in self.seen if begin < seen.at < end), end]
        return max(after - before for before, after in pairwise(times))

    def longest_lag(self, receipts: dict[Position, float]) -> float:
        """Return the longest time from the producer's receipt to the first delivery, in seconds, at least 0."""
        first: dict[Position, float] = {}
        for seen in self.seen:
            first.setdefault(seen.position, seen.at)
        return max((max(first[p] - at, 0.0) for p, at in receipts.items() if p in first), default=0.0)


class Producer:
    """Publishes numbered messages at a steady pace, unbatched, until it is stopped.

    Args:
        client: the stock client, on the source cluster.
        topic: the topic.
    """

    def __init__(self, client: pulsar.Client, topic: str) -> None:
        self.probe = Probe("producer")
        self.failures: list[str] = []
        self._producer = client.create_producer(
            topic, batching_enabled=False, block_if_queue_full=True, send_timeout_millis=SEND_TIMEOUT_MS
        )
        self._marker = topic.rpartition("/")[2].encode()
        self._stop = threading.Event()
        self._sent = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def payload(self, number: int) -> bytes:
        """Return the content of a message. Its marker makes it identifiable in a bookie's files."""
        return (b"%s %08d " % (self._marker, number)).ljust(_PAYLOAD_BYTES, b".")

    @property
    def receipts(self) -> dict[Position, float]:
        """Times at which the producer got its receipts, by entry."""
        return {seen.position: seen.at for seen in list(self.probe.seen)}

    def stop(self) -> None:
        """Stop publishing, and wait for all receipts; a second call does nothing."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._thread.join()
        self._producer.flush()
        self._producer.close()

    def _run(self) -> None:
        while not self._stop.wait(1 / MESSAGES_PER_S):
            self._producer.send_async(self.payload(self._sent), self._receipt)
            self._sent += 1

    def _receipt(self, result: pulsar.Result, message_id: pulsar.MessageId) -> None:
        if result == pulsar.Result.Ok:
            self.probe.took(message_id.ledger_id(), message_id.entry_id())
        else:
            self.failures.append(str(result))


class ClientProbe:
    """A stock client at a read-only broker, in a thread: a reader, or a consumer that acks each message.

    Args:
        name: for the table.
        receive: receives one message, with a timeout in milliseconds, and acks it if the probe is a consumer.
    """

    def __init__(self, name: str, receive: Callable[[int], pulsar.Message]) -> None:
        self.probe = Probe(name)
        self.error: Exception | None = None
        self._receive = receive
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop reading."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                message_id = self._receive(_RECEIVE_MS).message_id()
            except pulsar.Timeout:
                continue
            except Exception as error:  # noqa: BLE001 - the run must report any error
                self.error = error
                return
            self.probe.took(message_id.ledger_id(), message_id.entry_id())


def reader_probe(client: pulsar.Client, topic: str) -> ClientProbe:
    """Return a probe with a Reader that starts at the earliest message."""
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    return ClientProbe("Reader", reader.read_next)


def consumer_probe(client: pulsar.Client, topic: str) -> ClientProbe:
    """Return a probe with an Exclusive consumer of a durable subscription."""
    consumer = client.subscribe(topic, "faults", initial_position=pulsar.InitialPosition.Earliest)

    def receive(milliseconds: int) -> pulsar.Message:
        message = consumer.receive(milliseconds)
        consumer.acknowledge(message)
        return message

    return ClientProbe("consumer", receive)


class LogProbe:
    """A reader of TopicLog itself that reads as a subscription does.

    Args:
        log: the topic; closed at the end.
        name: for the table.
    """

    def __init__(self, log: TopicLog, name: str = "TopicLog") -> None:
        self.probe = Probe(name)
        self.failures: list[str] = []
        self._log = log
        self._moved = asyncio.Event()
        log.listen(self._moved.set)
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop reading."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._log.close()

    async def _run(self) -> None:
        await self._log.opened()
        position = self._log.chain.after(EARLIEST)
        while True:
            self._moved.clear()
            try:
                entries = await self._log.read(position, _READ_ENTRIES)
            except (BookKeeperError, MetadataError) as error:
                self.failures.append(str(error))
                await asyncio.sleep(_RETRY_S)
                continue
            for entry in entries:
                self.probe.took(*entry.position)
            if entries:
                position = self._log.chain.after(entries[-1].position)
                continue
            position = self._log.chain.at_or_after(position)
            if not self._log.chain.readable(position):
                await self._moved.wait()
