"""Brokers of several localities: a client is sent to one of its own, however it gives it."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from devstack.pool import BrokerProcess
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.status import Endpoints
from tests.support.messages import publish_numbers
from tests.support.pulsar.fleet import SHARED, TESTS, Sink, claims_of, consumers_at, quiet_client
from tests.support.pulsar.java_client import JavaClient
from tests.support.pulsar.raw_client import RawClient
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nightly

Zoned = dict[str, BrokerProcess]


@pytest.fixture
def zoned(pulsar: Endpoints, tmp_path: Path) -> Iterator[Zoned]:
    """Two brokers of a pool by their zone; that of zone b learns its locality from a file."""
    pool, place = uuid.uuid4().hex, tmp_path / "locality"
    place.write_text("/b")
    options = {"a": ("--locality", "/a"), "b": ("--locality-file", str(place))}
    made = {
        zone: BrokerProcess(pulsar, tmp_path / f"{zone}.log", ["--pool", pool, "--topics", TESTS, *words])
        for zone, words in options.items()
    }
    try:
        for broker in made.values():
            broker.wait_ready()
        wait_until(lambda: all(len(broker.stats()["brokers"]) == 2 for broker in made.values()))
        yield made
    finally:
        for broker in made.values():
            if broker.process.poll() is None:
                broker.kill()


def answers(broker: BrokerProcess, topic: str, listener: str | None = None, rack: str | None = None) -> set[str]:
    """The answers to several lookups over one connection."""
    with RawClient(broker.url) as client:
        return {client.lookup(topic, listener, rack) for _ in range(4)}


def wait_known(zoned: Zoned, topic: str) -> None:
    """Wait until the other broker knows the locality of that of zone b, which publishes it within seconds."""
    wait_until(lambda: answers(zoned["a"], topic, rack="/b") == {zoned["b"].url}, what="the record has the locality")


def client_of(broker: BrokerProcess, listener: str) -> pulsar.Client:
    return quiet_client(broker.url, listener_name=listener)


def test_stock_clients_are_served_in_their_zone(
    zoned: Zoned, pulsar_stack: PulsarCluster, pulsar_client, topic: str
) -> None:
    publish_numbers(pulsar_client, topic, range(20))
    wait_known(zoned, topic)
    python = client_of(zoned["a"], "/b")
    reader = python.create_reader(topic, pulsar.MessageId.earliest)
    assert [int(reader.read_next(10_000).data()) for _ in range(20)] == list(range(20))
    assert [consumers_at(zoned[zone], topic) for zone in "ab"] == [0, 1]
    other = f"{topic}-java"
    with JavaClient(pulsar_stack, zoned["a"].url, rack="b") as java:
        java.do("subscribe", "c", other, "s", "Exclusive", "Earliest")
        for number in range(3):
            java.do("send", other, "-", number)
        assert java.values("c", 3) == ["0", "1", "2"]
        assert [consumers_at(zoned[zone], other) for zone in "ab"] == [0, 1]
    python.close()


def test_a_claim_wins_over_the_locality(zoned: Zoned, pulsar_client, topic: str) -> None:
    publish_numbers(pulsar_client, topic, range(1))
    wait_known(zoned, topic)
    clients = [client_of(zoned["a"], f"/{zone}") for zone in "ab"]
    sinks = []
    for client in clients:
        sinks.append(Sink(client.subscribe(topic, "s", consumer_type=SHARED)))
        assert claims_of(zoned["a"], topic) == ["s"], "the first consumer is of zone a"
    # Broker b relays the second consumer for a moment, and it gets nothing on its way from there to broker a.
    wait_until(lambda: [consumers_at(zoned[zone], topic) for zone in "ab"] == [2, 0])
    publish_numbers(pulsar_client, topic, range(40), batching_enabled=False)
    wait_until(lambda: sum(len(sink.got) for sink in sinks) >= 40)
    got = [sink.stop() for sink in sinks]
    assert all(got), "both zones get messages"
    assert sorted(number for one in got for number in one) == list(range(40))
    assert claims_of(zoned["b"], topic) == []
    for client in clients:
        client.close()
