"""Traffic of a small shop, by stock clients, through a pool."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pulsar

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

SHARED: Final = pulsar.ConsumerType.Shared
KEY_SHARED: Final = pulsar.ConsumerType.KeyShared
FAILOVER: Final = pulsar.ConsumerType.Failover
EXCLUSIVE: Final = pulsar.ConsumerType.Exclusive

PREFIX: Final = "persistent://public/default/"
TICK_S: Final = 0.05
RECEIVE_MS: Final = 200


@dataclass(frozen=True, slots=True)
class Readers:
    """Consumers of one subscription.

    Attributes:
        name: name of the subscription.
        kind: its type.
        count: number of consumers.
        acks: whether they ack what they receive; a subscription without acks has a lag.
        at_owner: whether another consumer is directly on the owner broker.
    """

    name: str
    kind: Any = SHARED
    count: int = 1
    acks: bool = True
    at_owner: bool = False


@dataclass(frozen=True, slots=True)
class Stream:
    """One topic.

    Attributes:
        name: name below PREFIX.
        rate: messages per tick.
        size: bytes of a message.
        readers: its subscriptions.
    """

    name: str
    rate: int
    size: int
    readers: tuple[Readers, ...]

    @property
    def topic(self) -> str:
        """The full name."""
        return PREFIX + self.name


STREAMS: Final = (
    Stream(
        "orders",
        4,
        900,
        (
            Readers("billing", count=3),
            Readers("fulfilment", KEY_SHARED, count=2),
            Readers("fraud-check", FAILOVER, count=2),
            Readers("audit", EXCLUSIVE),
            Readers("reporting", acks=False),
            Readers("legacy-export", at_owner=True),
        ),
    ),
    Stream("payments", 2, 700, (Readers("ledger", EXCLUSIVE), Readers("fraud-check", KEY_SHARED, count=2))),
    Stream("clicks", 6, 300, (Readers("recommendations", count=4), Readers("sessions", KEY_SHARED, count=2))),
    Stream("stock-levels", 1, 200, (Readers("web-shop", count=2), Readers("purchasing", FAILOVER))),
    Stream("shipments", 1, 1200, (Readers("tracking"), Readers("customer-mail"))),
)


class Traffic:
    """Producers at the owner and consumers at a pool, until its end.

    Args:
        owner: service URL of the owner brokers.
        pool: service URLs of the pool's brokers; the consumers' connections are spread over them.
        streams: the topics.
    """

    def __init__(self, owner: str, pool: list[str], streams: tuple[Stream, ...] = STREAMS) -> None:
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._owner = _client(owner)
        self._pool = [_client(url) for url in pool]
        self._streams = streams

    def __enter__(self) -> Self:
        number = 0
        for stream in self._streams:
            producer = self._owner.create_producer(stream.topic, block_if_queue_full=True)
            for readers in stream.readers:
                if readers.at_owner:
                    self._read(self._owner, stream, readers, f"{readers.name}-old")
                for index in range(readers.count):
                    self._read(self._pool[number % len(self._pool)], stream, readers, f"{readers.name}-{index}")
                    number += 1
            self._start(self._publish, producer, stream)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for client in (*self._pool, self._owner):
            client.close()

    def _read(self, client: pulsar.Client, stream: Stream, readers: Readers, name: str) -> None:
        consumer = client.subscribe(
            stream.topic, readers.name, readers.kind, consumer_name=name, receiver_queue_size=200
        )
        self._start(self._receive, consumer, readers.acks)

    def _start(self, work: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _publish(self, producer: Any, stream: Stream) -> None:
        number = 0
        while not self._stop.wait(TICK_S):
            for _ in range(stream.rate):
                producer.send_async(bytes(stream.size), None, partition_key=f"customer-{number % 50}")
                number += 1

    def _receive(self, consumer: Any, acks: bool) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(pulsar.Timeout):
                message = consumer.receive(RECEIVE_MS)
                if acks:
                    consumer.acknowledge(message)


def _client(url: str) -> pulsar.Client:
    return pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
