"""Replays on a real Pulsar, to stock clients: order, pace, cursors of their own, and nothing at the owners."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import pulsar as pulsar_lib
import pytest

from devstack.errors import DevstackError
from tests.support.pulsar.fleet import TESTS, quiet_client
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from devstack.pool import Pool
    from devstack.pulsar.admin import PulsarAdmin
    from devstack.pulsar.status import Endpoints

log = logging.getLogger(__name__)

EARLIEST = pulsar_lib.InitialPosition.Earliest
PARTITIONS = 3

PAUSES_S = [0.05, 0.0, 0.02, 0.3, 0.0, 0.01, 0.1, 0.0, 0.5, 0.02] * 6
"""Pauses between the messages of the recording: 60 messages in some 6 s."""

LEAD_S = 8.0
"""Time of the replay before the first message: the clients are connected then."""


class Message(NamedTuple):
    """A message, with the times of its publication and its arrival in s since the epoch."""

    number: int
    published: float
    arrived: float
    partition: str


class Recording(NamedTuple):
    """Messages of two topics, numbered in the order of their publication over both."""

    topics: tuple[str, str]
    times: list[float]

    def window(self, lead_s: float = 0.0, last: int | None = None) -> list[str]:
        """Options of a replay that begins some time before the first message, and ends with the last one or another one."""
        end = self.times[-1 if last is None else last]
        return ["--replay-from", iso(self.times[0] - lead_s), "--replay-to", iso(end)]


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


@pytest.fixture(scope="module")
def recording(pulsar: Endpoints, admin: PulsarAdmin) -> Recording:
    plain, partitioned = (f"persistent://public/default/test-replay-{kind}-{time.time_ns()}" for kind in "ab")
    admin.create_topic(plain)
    admin.create_partitioned_topic(partitioned, PARTITIONS)
    times = []
    with closing(quiet_client(pulsar.writer_url)) as client:
        producers = [client.create_producer(plain), client.create_producer(partitioned, batching_enabled=False)]
        for number, pause in enumerate(PAUSES_S):
            time.sleep(pause)
            times.append(producers[number % 2].send(b"%d" % number) and time.time())
        with closing(client.create_reader(plain, pulsar_lib.MessageId.earliest)) as reader:
            stored = {int(message.data()): message.publish_timestamp() / 1000 for message in read_all(reader)}
        for partition in range(PARTITIONS):
            name = f"{partitioned}-partition-{partition}"
            with closing(client.create_reader(name, pulsar_lib.MessageId.earliest)) as reader:
                stored |= {int(message.data()): message.publish_timestamp() / 1000 for message in read_all(reader)}
    assert len(stored) == len(PAUSES_S)
    return Recording((plain, partitioned), [stored[number] for number in sorted(stored)])


def read_all(reader: pulsar_lib.Reader) -> Iterator[pulsar_lib.Message]:
    while reader.has_message_available():
        yield reader.read_next(10_000)


class MessageCollector:
    """Receives and acks until it has enough messages."""

    def __init__(self, consumer: pulsar_lib.Consumer, *, acks: bool = True) -> None:
        self.got: list[Message] = []
        self._consumer = consumer
        self._acks = acks
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                message = self._consumer.receive(200)
            except pulsar_lib.Timeout:
                continue
            now = time.time()
            self.got.append(Message(int(message.data()), message.publish_timestamp() / 1000, now, message.topic_name()))
            if self._acks:
                self._consumer.acknowledge(message)

    def stop(self) -> list[Message]:
        self._stop.set()
        self._thread.join()
        return self.got


def received(collectors: Iterable[MessageCollector]) -> set[int]:
    return {message.number for one in collectors for message in one.got}


def merged(collectors: Iterable[MessageCollector]) -> list[Message]:
    return sorted((message for one in collectors for message in one.stop()), key=lambda message: message.arrived)


def drifts(messages: list[Message], speed: float) -> list[float]:
    """How much later than the clock each message came, in seconds: the earliest one is the measure."""
    offsets = [message.arrived - message.published / speed for message in messages]
    return sorted(offset - min(offsets) for offset in offsets)


def assert_in_order(messages: list[Message]) -> None:
    for partition in {message.partition for message in messages}:
        numbers = [message.number for message in messages if message.partition == partition]
        assert numbers == sorted(numbers), partition


def subscribed(
    client: pulsar_lib.Client, recording: Recording, name: str, kind: pulsar_lib.ConsumerType
) -> list[MessageCollector]:
    return [
        MessageCollector(client.subscribe(topic, name, consumer_type=kind, initial_position=EARLIEST))
        for topic in recording.topics
    ]


@pytest.mark.parametrize("speed", [pytest.param(1.0, marks=pytest.mark.nightly), 10.0])
def test_messages_come_in_their_order_at_the_pace_of_their_publication(
    own_pool: Callable[..., Pool], recording: Recording, speed: float
) -> None:
    pool = own_pool(2, "--topics", TESTS, *recording.window(LEAD_S * speed), "--replay-speed", str(speed))
    with closing(quiet_client(pool.url)) as client:
        collectors = subscribed(client, recording, "paced", pulsar_lib.ConsumerType.Failover)
        try:
            wait_until(lambda: len(received(collectors)) == len(recording.times), 60, "all messages")
        finally:
            messages = merged(collectors)
    assert_in_order(messages)
    late = drifts(messages, speed)
    p50, p99 = late[len(late) // 2], late[int(len(late) * 0.99)]
    log.info("drift: speed=%g p50_ms=%.1f p99_ms=%.1f", speed, p50 * 1000, p99 * 1000)
    assert p50 < 0.05
    assert p99 < 1.0, "a busy machine delays some messages, but not the replay as a whole"
    span = messages[-1].arrived - messages[0].arrived
    assert span > 0.9 * (recording.times[-1] - recording.times[0]) / speed


def test_all_messages_of_the_window_come_at_once_and_no_others(
    own_pool: Callable[..., Pool], recording: Recording
) -> None:
    last = len(recording.times) // 2
    pool = own_pool(1, "--topics", TESTS, *recording.window(last=last), "--replay-speed", "unlimited")
    with closing(quiet_client(pool.url)) as client:
        collectors = subscribed(client, recording, "all", pulsar_lib.ConsumerType.Shared)
        try:
            wait_until(lambda: len(received(collectors)) == last + 1, 30, "all messages of the window")
            reader = client.create_reader(recording.topics[0], pulsar_lib.MessageId.earliest)
            read = [int(message.data()) for message in read_all(reader)]
        finally:
            messages = merged(collectors)
    assert_in_order(messages)
    assert sorted(message.number for message in messages) == list(range(last + 1))
    assert read == list(range(0, last + 1, 2))


@pytest.mark.nightly
def test_a_replay_survives_the_death_of_a_broker_and_touches_no_owner(
    own_pool: Callable[..., Pool], recording: Recording, admin: PulsarAdmin
) -> None:
    topics = [recording.topics[0], *(f"{recording.topics[1]}-partition-{one}" for one in range(PARTITIONS))]
    before = [admin.stats(topic) for topic in topics]
    pool = own_pool(2, "--topics", TESTS, *recording.window(LEAD_S), "--replay-speed", "2")
    with closing(quiet_client(pool.url)) as client:
        kinds = (pulsar_lib.ConsumerType.Shared, pulsar_lib.ConsumerType.Failover)
        sets = [subscribed(client, recording, f"killed-{number}", kind) for number, kind in enumerate(kinds)]
        try:
            wait_until(lambda: len(received(sets[0])) >= 10, 30, "the first messages")
            pool.brokers[0].kill()
            for collectors in sets:
                wait_until(lambda one=collectors: len(received(one)) == len(recording.times), 60, "all messages")
            assert sum(one["active"] for one in pool.brokers[1].stats()["localCursors"]) == 2 * len(topics)
        finally:
            for collectors in sets:
                merged(collectors)
        pool.brokers[1].stop()
        pool.restart(1)
        with closing(quiet_client(pool.url)) as again:
            for number, kind in enumerate(kinds):
                for topic in recording.topics:
                    consumer = again.subscribe(topic, f"killed-{number}", consumer_type=kind, initial_position=EARLIEST)
                    with pytest.raises(pulsar_lib.Timeout):
                        consumer.receive(1000)
    for topic, earlier in zip(topics, before, strict=True):
        stats = admin.stats(topic)
        assert stats["subscriptions"] == earlier["subscriptions"]
        assert stats["msgOutCounter"] == earlier["msgOutCounter"]
    assert not [name for name in admin.topics() if "__readonly_cursors" in name and pool.name in name]


def replay_command(pulsar: Endpoints, pool: Pool, *words: str) -> str:
    """What `pulsar-readonly replay` says."""
    command = [sys.executable, "-m", "readonly_engine.command", "replay", *words, "--pool", pool.name]
    command += ["--metadata-store-url", pulsar.pool_store]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def test_the_clock_is_shown_paused_and_changed_while_it_runs(
    own_pool: Callable[..., Pool], recording: Recording, pulsar: Endpoints
) -> None:
    pool = own_pool(1, "--topics", TESTS, *recording.window(3600.0))
    (broker,) = pool.brokers

    def state() -> Any:
        return json.loads(broker.get("/status"))["broker"]

    assert " speed 1 running" in replay_command(pulsar, pool, "show")
    with closing(quiet_client(pool.url)) as client:
        collectors = subscribed(client, recording, "paused", pulsar_lib.ConsumerType.Exclusive)
        try:
            assert " speed 1 paused" in replay_command(pulsar, pool, "pause")
            wait_until(lambda: state()["replay_paused"], 10, "a paused clock")
            stands = state()["replay_ms"]
            assert " speed 1000 paused" in replay_command(pulsar, pool, "speed", "1000")
            assert " speed 1000 running" in replay_command(pulsar, pool, "resume")
            wait_until(lambda: len(received(collectors)) == len(recording.times), 30, "all messages")
            assert stands < recording.times[0] * 1000 < state()["replay_ms"]
            assert " ended" in replay_command(pulsar, pool, "show")
        finally:
            assert_in_order(merged(collectors))
        metrics = broker.get("/metrics").splitlines()
    asked = [line for line in metrics if line.startswith("pulsar_readonly_owner_request_duration_seconds_count")]
    assert asked == []
    assert "has live brokers: end them first" in replay_command(pulsar, pool, "delete")
    broker.stop()
    assert replay_command(pulsar, pool, "delete").startswith("deleted 20")
    assert "has no replay in this metadata store" in replay_command(pulsar, pool, "show")


@pytest.mark.parametrize("loop", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_jump_and_a_loop_bring_the_same_messages_again(
    own_pool: Callable[..., Pool], recording: Recording, pulsar: Endpoints, loop: bool
) -> None:
    """Consumers must find their way into each round, so a loop has some time for it."""
    pace = ["--replay-speed", "0.5", "--replay-loop", "true"] if loop else ["--replay-speed", "unlimited"]
    pool = own_pool(2, "--topics", TESTS, *recording.window(), *pace)
    numbers, middle = range(len(recording.times)), len(recording.times) // 2
    with closing(quiet_client(pool.url)) as client:
        collectors = subscribed(client, recording, "again", pulsar_lib.ConsumerType.Shared)

        def wait_for(first: int, rounds: int) -> None:
            wait_until(
                lambda: all(
                    sum(message.number == one for some in collectors for message in some.got) >= rounds
                    for one in numbers[first:]
                ),
                120,
                f"all from {first} on, {rounds} times",
            )

        try:
            wait_for(0, 1)
            if loop:
                wait_for(0, 2)
                assert " speed 0.5 running loop round " in replay_command(pulsar, pool, "show")
                assert "must be a number" in replay_command(pulsar, pool, "speed", "unlimited")
            else:
                assert " ended round 1" in replay_command(pulsar, pool, "seek", iso(recording.times[middle]))
                wait_for(middle, 2)
                replay_command(pulsar, pool, "pause")
                assert " paused round 2" in replay_command(pulsar, pool, "seek", iso(recording.times[0]))
                assert "must be a time from 20" in replay_command(pulsar, pool, "seek", "2026-01-01T00:00:00Z")
                assert " ended round 2" in replay_command(pulsar, pool, "resume")
                wait_for(0, 2)
        finally:
            messages = merged(collectors)
    assert {message.number for message in messages} == set(numbers)


def test_a_broker_of_the_present_does_not_join_a_replay(own_pool: Callable[..., Pool], recording: Recording) -> None:
    replay = own_pool(1, "--topics", TESTS, *recording.window())
    other = own_pool(0, "--topics", TESTS, "--pool", replay.name)
    with pytest.raises(DevstackError, match="exited with status 1"):
        other.start(1)
    assert "uid none): another pool of this name (uid replay-" in other.brokers[0].log_end()
