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
from devstack.pulsar.admin import PulsarAdmin
from tests.support.messages import publish_numbers
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


def test_a_broker_that_comes_gets_its_share(
    own_pool: Callable[..., Pool], pulsar_client: pulsar.Client, opened: ExitStack, topic: str
) -> None:
    pool = own_pool(1, *LOCAL)
    client = client_of(opened, pool.url)
    sinks = {name: sink_of(opened, consumer) for name, consumer in subscribe_all(client, topic).items()}
    (first,) = pool.brokers
    assert len(partitions_of(first)) == PARTITIONS
    feed = feed_of(opened, pulsar_client, topic)
    (second,) = pool.start(1)
    wait_until(lambda: len(partitions_of(second)) == len(partitions_of(first)) == PARTITIONS // 2, 90)
    sent = feed.stop()
    wait_until(lambda: all(sink.got and max(sink.got) == sent - 1 for sink in sinks.values()), 60)
    for name, sink in sinks.items():
        assert set(sink.stop()) == set(range(sent)), f"{name} has lost messages"


def test_partitions_that_an_administrator_adds_change_nothing(
    own_pool: Callable[..., Pool],
    pulsar_client: pulsar.Client,
    admin: PulsarAdmin,
    opened: ExitStack,
    topic: str,
) -> None:
    pool = own_pool(1, *LOCAL)
    client = client_of(opened, pool.url)
    consumers = subscribe_all(client, topic, initial_position=pulsar.InitialPosition.Earliest)
    publish_numbers(pulsar_client, topic, range(3))
    for consumer in consumers.values():
        for _ in range(3):
            consumer.acknowledge(consumer.receive(20_000))
    before = partitions_of(pool.brokers[0])
    wait_until(lambda: not any(one["unstored"] for one in pool.brokers[0].stats()["localCursors"]), 20)
    admin.update_partitions(str(parse_topic_name(next(iter(before))).base), 2 * PARTITIONS)
    pool.brokers[0].stop()
    pool.restart(0)
    publish_numbers(pulsar_client, topic, [3])
    for consumer in consumers.values():
        assert int(consumer.receive(30_000).data()) == 3
    assert partitions_of(pool.brokers[0]) == before


def test_failover_goes_on_at_the_next_consumer(
    own_pool: Callable[..., Pool], pulsar_client: pulsar.Client, opened: ExitStack, topic: str
) -> None:
    pool = own_pool(2, *LOCAL)
    clients = [client_of(opened, broker.url) for broker in pool.brokers]
    sinks = []
    for number, client in enumerate(clients):
        consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Failover, consumer_name=f"c{number}")
        sinks.append(sink_of(opened, consumer))
    feed = feed_of(opened, pulsar_client, topic)
    wait_until(lambda: any(len(sink.got) > 50 for sink in sinks), 30)
    active, passive = sorted(sinks, key=lambda sink: -len(sink.got))
    assert passive.got == []
    clients[sinks.index(active)].close()
    wait_until(lambda: len(passive.got) > 50, 30)
    sent = feed.stop()
    wait_until(lambda: passive.got[-1] == sent - 1, 30)
    assert set(active.stop()) | set(passive.stop()) == set(range(sent))
