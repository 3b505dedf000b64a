"""Local cursors while brokers of the pool die and come: each subscription is at one broker, and continues at the next one."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pulsar
import pytest
from readonly_engine.broker.cursors.partitions import partition_of
from readonly_engine.metadata.topic_name import parse_topic_name

from devstack.pool import BrokerProcess, Pool
from tests.support.pulsar.fleet import TESTS, Feed, Sink, quiet_client
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.second_stack]

LOCAL = ("--topics", TESTS, "--cursors", "local", "--cursor-partitions", "4")
PARTITIONS = 4
TAKE_OVER_S = 15.0
"""A session of ZooKeeper lasts 10 s."""

COMMITTED_S = 2.0
"""Messages whose acks a killed broker may not have stored: those of so many seconds, and some of a loaded machine."""

PAUSE_S = 0.01


def partitions_of(broker: BrokerProcess) -> set[str]:
    """The partitions of local cursors that a broker has."""
    return {one["topic"] for one in broker.stats()["localCursors"]}


def names_for(topic: str) -> list[str]:
    """Two names for each partition."""
    of: dict[int, list[str]] = {number: [] for number in range(PARTITIONS)}
    for number in range(1_000):
        found = of[partition_of(parse_topic_name(topic), f"s{number}", PARTITIONS)]
        if len(found) < 2:
            found.append(f"s{number}")
    return [name for names in of.values() for name in names]


def subscribe_all(client: pulsar.Client, topic: str, **options: Any) -> dict[str, pulsar.Consumer]:
    return {name: client.subscribe(topic, name, **options) for name in names_for(topic)}


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """Ends sinks, feeds and clients after the test, the newest first."""
    with ExitStack() as stack:
        yield stack


def client_of(opened: ExitStack, url: str) -> pulsar.Client:
    client = quiet_client(url)

    def close() -> None:
        with suppress(pulsar.AlreadyClosed):
            client.close()

    opened.callback(close)
    return client


def sink_of(opened: ExitStack, consumer: pulsar.Consumer) -> Sink:
    sink = Sink(consumer)
    opened.callback(sink.stop)
    return sink


def feed_of(opened: ExitStack, client: pulsar.Client, topic: str) -> Feed:
    feed = Feed(client, topic, PAUSE_S)
    opened.callback(feed.stop)
    return feed


@pytest.mark.parametrize("end", ["killed", "stopped", "frozen"])
def test_another_broker_takes_over(
    own_pool: Callable[..., Pool], pulsar_client: pulsar.Client, opened: ExitStack, topic: str, end: str
) -> None:
    pool = own_pool(2, *LOCAL)
    client = client_of(opened, pool.url)
    consumers = subscribe_all(client, topic, consumer_type=pulsar.ConsumerType.Exclusive)
    victim, other = pool.brokers
    assert partitions_of(victim)
    assert partitions_of(other)
    assert not partitions_of(victim) & partitions_of(other)
    sinks = {name: sink_of(opened, consumer) for name, consumer in consumers.items()}
    feed = feed_of(opened, pulsar_client, topic)
    try:
        wait_until(lambda: all(len(sink.got) > 50 for sink in sinks.values()), 30)
        ended = time.monotonic()
        if end == "killed":
            victim.kill()
        elif end == "stopped":
            victim.stop()
        else:
            # Its clients notice nothing, but its session ends.
            os.kill(victim.process.pid, signal.SIGSTOP)
            wait_until(lambda: len(other.stats()["brokers"]) == 1, 60)
            os.kill(victim.process.pid, signal.SIGCONT)
        wait_until(lambda: end == "frozen" or len(partitions_of(other)) == PARTITIONS, 60)
        now = feed.sent
        wait_until(lambda: all(sink.got[-1] >= now for sink in sinks.values()), 60)
        gap = time.monotonic() - ended
    finally:
        sent = feed.stop()
    wait_until(lambda: all(sink.got and max(sink.got) == sent - 1 for sink in sinks.values()), 60)
    got = {name: sink.stop() for name, sink in sinks.items()}
    allowed = 0 if end == "stopped" else COMMITTED_S / PAUSE_S
    for name, numbers in got.items():
        assert set(numbers) == set(range(sent)), f"{name} has lost messages"
        assert sum(Counter(numbers).values()) - sent <= allowed, f"{name} got too many again"
    assert gap < (60 if end == "frozen" else TAKE_OVER_S + 5), "the machine is slow, or the take-over"
