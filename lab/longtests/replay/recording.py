"""A recording: messages over some topics, with publish times of a week, in part in tiered storage."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from devstack.errors import DevstackError
from devstack.pulsar.admin import MessageId
from devstack.pulsar.distribution import ensure_distribution, ensure_offloaders
from devstack.pulsar.spec import DEFAULT_VERSION
from tests.support.pulsar.raw_client import RawClient, RefusedError, message_frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from devstack.pulsar.admin import PulsarAdmin
    from devstack.pulsar.cluster import PulsarCluster

NAMESPACE: Final = "public/recorded"
TOPICS: Final = 4
PARTITIONS: Final = 2
"""Of each topic."""

DAY_MS: Final = 86_400_000
SPAN_MS: Final = 7 * DAY_MS
AGE_MS: Final = 8 * DAY_MS
"""How long before the recording the first message was published, as its publish time says."""

BODY_BYTES: Final = 200
MAX_PENDING_SENDS: Final = 500
PATIENCE_S: Final = 300.0


class Busy(NamedTuple):
    """A stretch of the week with many messages, to measure the drift.

    Attributes:
        begin_ms: its begin, after that of the week.
        span_ms: its length.
        count: its messages.
    """

    begin_ms: int
    span_ms: int
    count: int


BUSY: Final = {1.0: Busy(2 * DAY_MS, 60_000, 3000), 10.0: Busy(4 * DAY_MS, 600_000, 6000)}
"""A stretch for each speed. Each lasts a minute, with 50 or 100 messages in a second."""


class Recording(NamedTuple):
    """What was published.

    Attributes:
        topics: partitioned topics.
        begin_ms: publish time from which the week counts, ms since the epoch.
        times: publish time of each message, ascending.
        partitions: number of the partition of each message, over all topics.
    """

    topics: tuple[str, ...]
    begin_ms: int
    times: list[int]
    partitions: list[int]

    def between(self, begin_ms: int, end_ms: int) -> set[int]:
        """Return the numbers of the messages of a window."""
        return {number for number, time_ms in enumerate(self.times) if begin_ms <= time_ms <= end_ms}

    def partition_name(self, partition: int) -> str:
        """Return the name of a partition, by its number over all topics."""
        return f"{self.topics[partition // PARTITIONS]}-partition-{partition % PARTITIONS}"


def plan(count: int, begin_ms: int, seed: int) -> Recording:
    """Return a recording of at least `count` messages: spread evenly over a week, besides the busy stretches."""
    generator = random.Random(seed)
    times = [begin_ms + SPAN_MS * number // count for number in range(count)]
    for busy in BUSY.values():
        times += [begin_ms + busy.begin_ms + busy.span_ms * number // busy.count for number in range(busy.count)]
    times.sort()
    topics = tuple(f"persistent://{NAMESPACE}/topic-{number}" for number in range(TOPICS))
    return Recording(topics, begin_ms, times, [generator.randrange(TOPICS * PARTITIONS) for _ in times])


def publish(stack: PulsarCluster, recording: Recording, folder: Path) -> int:
    """Publish a recording, with its publish times, by a client of our own; offload half of the topics.

    Returns:
        Number of messages in tiered storage.

    Raises:
        DevstackError: something is not offloaded in time.
    """
    admin = stack.admin()
    admin.create_namespace(NAMESPACE, bundles=1)
    admin.set_retention(NAMESPACE, minutes=600, megabytes=20_000)
    conf = ensure_distribution(DEFAULT_VERSION) / "conf" / "filesystem_offload_core_site.xml"
    policies = {
        "managedLedgerOffloadDriver": "filesystem",
        "offloadersDirectory": str(ensure_offloaders(DEFAULT_VERSION)),
        "fileSystemProfilePath": str(conf),
        "fileSystemURI": f"file://{folder}",
        "managedLedgerOffloadDeletionLagInMillis": 0,
    }
    admin.set_offload_policies(NAMESPACE, policies)
    for topic in recording.topics:
        admin.create_partitioned_topic(topic, PARTITIONS)
    for partition in range(TOPICS * PARTITIONS):
        numbers = [number for number, one in enumerate(recording.partitions) if one == partition]
        _publish(stack.endpoints.writer_url, recording.partition_name(partition), recording.times, numbers)
    return sum(_offload(admin, recording.partition_name(one)) for one in range(TOPICS * PARTITIONS // 2))


def _publish(url: str, topic: str, times: Sequence[int], numbers: Sequence[int]) -> None:
    with _producer(url, topic) as client:
        for begin in range(0, len(numbers), MAX_PENDING_SENDS):
            some = numbers[begin : begin + MAX_PENDING_SENDS]
            client.socket.sendall(b"".join(_frames(some, times, begin)))
            for _ in some:
                client.receipt(PATIENCE_S)


def _producer(url: str, topic: str) -> RawClient:
    """Return a client with a producer. On a busy machine an owner may need some attempts to load the topic."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        client = RawClient(url)
        try:
            client.lookup(topic)
            client.produce(topic)
        except (TimeoutError, RefusedError):
            client.close()
            if time.monotonic() > deadline:
                raise
        else:
            return client


def _frames(numbers: Sequence[int], times: Sequence[int], sequence_id: int) -> Iterator[bytes]:
    for index, number in enumerate(numbers, sequence_id):
        yield message_frame((b"%d " % number).ljust(BODY_BYTES, b"."), index, publish_time=times[number])


def _offload(admin: PulsarAdmin, topic: str) -> int:
    admin.unload(topic)
    in_use = admin.internal_stats(topic)["ledgers"][-1]
    admin.offload(topic, MessageId(in_use["ledgerId"], 0))
    deadline = time.monotonic() + PATIENCE_S
    while (status := admin.offload_status(topic))["status"] != "SUCCESS":
        if status["status"] == "ERROR" or time.monotonic() > deadline:
            raise DevstackError(f"{topic} was not offloaded: {status}", "see the broker's log")
        time.sleep(0.2)  # the admin API does not tell when it ends
    return sum(one["entries"] for one in admin.internal_stats(topic)["ledgers"] if one["offloaded"])
