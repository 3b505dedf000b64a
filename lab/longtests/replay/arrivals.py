"""Arrivals of a replay's messages at stock Python consumers, and their figures."""

from __future__ import annotations

import math
import threading
import time
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

import pulsar

from devstack.errors import DevstackError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from longtests.replay.recording import Recording

POLL_S: Final = 0.02
QUIET: Final = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
MS_PER_S: Final = 1000


class ReceivedMessage(NamedTuple):
    """One delivery of a message.

    Attributes:
        number: of the message.
        arrived_ms: when it came, ms since the epoch.
    """

    number: int
    arrived_ms: float


class Consumers:
    """An Exclusive or Failover consumer of each topic, which acks each message by itself.

    Args:
        url: service URL of a pool.
        topics: the topics.
        subscription: its name.
    """

    def __init__(self, url: str, topics: Sequence[str], subscription: str) -> None:
        self.arrivals: list[ReceivedMessage] = []
        self._seen: set[int] = set()
        self._lock = threading.Lock()
        self._client = pulsar.Client(url, logger=QUIET, message_listener_threads=1, operation_timeout_seconds=60)
        try:
            for topic in topics:
                self._client.subscribe(
                    topic,
                    subscription,
                    consumer_type=pulsar.ConsumerType.Failover,
                    initial_position=pulsar.InitialPosition.Earliest,
                    message_listener=self._received,
                )
        except BaseException:
            self._client.close()
            raise

    def _received(self, consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        now = time.time() * MS_PER_S
        number = int(message.data().split(b" ", 1)[0])
        with self._lock:
            self.arrivals.append(ReceivedMessage(number, now))
            self._seen.add(number)
        consumer.acknowledge(message)

    @property
    def seen(self) -> int:
        """Number of different messages that came."""
        return len(self._seen)

    def wait(self, count: int, seconds: float, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Wait for a number of different messages.

        Raises:
            DevstackError: they do not come in time.
        """
        deadline = time.monotonic() + seconds
        while self.seen < count:
            if time.monotonic() > deadline:
                raise DevstackError(f"{self.seen} of {count} messages came in {seconds:g} s")
            meanwhile()
            time.sleep(POLL_S)

    def close(self) -> None:
        """Close the consumers."""
        self._client.close()


class Judged(NamedTuple):
    """What is wrong with arrivals, and how late they were.

    Attributes:
        messages: number of different ones.
        lost: messages of the window that did not come.
        foreign: messages that are not of the window.
        twice: deliveries after the first one.
        disordered: first deliveries after that of a later message of the same partition.
        across_ms: how much later a message came than one of a later publish time of another partition: p99 and worst, in ms.
        drift_ms: how much later than the clock messages came, p50 and p99 until a kill, and worst, in ms; empty for no pace.
    """

    messages: int
    lost: int
    foreign: int
    twice: int
    disordered: int
    across_ms: tuple[float, float]
    drift_ms: tuple[float, ...]

    @property
    def wrong(self) -> int:
        """Number of defects."""
        return self.lost + self.foreign + self.disordered


def judge(
    recording: Recording,
    window: Collection[int],
    arrivals: Sequence[ReceivedMessage],
    clock: tuple[float, float, float] | None,
    until_ms: float = math.inf,
) -> Judged:
    """Judge the arrivals of a replay.

    Args:
        recording: what was published.
        window: numbers of the messages of the replay.
        arrivals: in their order.
        clock: publish time and time of the machine at the clock's start, in ms, and its speed; None for no pace.
        until_ms: time of the machine at which a broker was killed: the percentiles are of messages that were due before.
    """
    first: dict[int, float] = {}
    last_of: dict[int, int] = {}
    disordered = 0
    for number, arrived in arrivals:
        if number in first:
            continue
        first[number] = arrived
        partition = recording.partitions[number]
        disordered += number < last_of.get(partition, -1)
        last_of[partition] = max(number, last_of.get(partition, -1))
    drift: tuple[float, ...] = ()
    undisturbed = first
    if clock is not None:
        at_ms, since_ms, speed = clock
        due = {number: since_ms + (recording.times[number] - at_ms) / speed for number in first}
        undisturbed = {number: arrived for number, arrived in first.items() if due[number] < until_ms}
        late = sorted(arrived - due[number] for number, arrived in undisturbed.items())
        drift = (median(late), late[int(len(late) * 0.99)], max(first[number] - due[number] for number in first))
    return Judged(
        messages=len(first),
        lost=len(set(window) - first.keys()),
        foreign=len(first.keys() - set(window)),
        twice=len(arrivals) - len(first),
        disordered=disordered,
        across_ms=_across(undisturbed),
        drift_ms=drift,
    )


def _across(first: dict[int, float]) -> tuple[float, float]:
    """Return how much later messages came than the earliest one of a later number, p99 and worst, in ms."""
    earliest, late = float("inf"), []
    for number in sorted(first, reverse=True):
        late.append(max(first[number] - earliest, 0.0))
        earliest = min(earliest, first[number])
    late.sort()
    return (late[int(len(late) * 0.99)], late[-1]) if late else (0.0, 0.0)
