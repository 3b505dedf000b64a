"""What a client hears of consumers while one broker of the pool sends them on to another, frame by frame."""

import uuid
from pathlib import Path

import pulsar as pulsar_lib
import pytest
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandConsumerStats,
    CommandSubscribe,
)

from devstack.common.ports import free_port
from devstack.pool import BrokerProcess, Pool
from devstack.pulsar.security import Credentials
from devstack.pulsar.status import Endpoints
from tests.support.pulsar.fleet import TESTS
from tests.support.pulsar.raw_client import RawClient
from tests.support.waiting import wait_until

pytestmark = pytest.mark.second_stack

EARLIEST = CommandSubscribe.Earliest


def owner_of(pulsar: Endpoints, topic: str) -> str:
    with RawClient(pulsar.writer_url) as client:
        return client.lookup(topic)


def statistics(client: RawClient) -> BaseCommand:
    return client.request(
        BaseCommand(type=BaseCommand.CONSUMER_STATS, consumer_stats=CommandConsumerStats(consumer_id=0))
    )


@pytest.mark.parametrize("kind", [CommandSubscribe.Exclusive, CommandSubscribe.Shared], ids=["Exclusive", "Shared"])
def test_statistics_of_a_consumer_are_those_that_the_owner_would_have(
    pulsar: Endpoints, pool: Pool, pulsar_client: pulsar_lib.Client, topic: str, kind: CommandSubscribe.SubType
) -> None:
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    for value in range(10):
        producer.send(bytes([value]))
    seen = []
    for url, subscription in ((owner_of(pulsar, topic), "direct"), (pool.brokers[0].url, "through")):
        with RawClient(url) as client:
            client.subscribe(topic, subscription, sub_type=kind, initial_position=EARLIEST, consumer_name="me")
            client.flow(100)
            for _ in range(10):
                client.receive()
            answer = statistics(client).consumer_stats_response
            host, _, port = answer.address.rpartition(":")
            assert port.isdigit()
            seen.append(
                (
                    answer.available_permits,
                    answer.unacked_messages,
                    answer.blocked_consumer_on_unacked_msgs,
                    answer.consumer_name,
                    answer.type,
                    answer.msg_backlog,
                    host,
                )
            )
    assert seen[0] == seen[1]
    assert seen[0][0] == 90


@pytest.mark.nightly
def test_brokers_of_a_pool_bring_consumers_to_each_other_with_tls(
    pulsar: Endpoints, pulsar_client: pulsar_lib.Client, topic: str, tmp_path: Path
) -> None:
    credentials = Credentials.make(tmp_path / "credentials")
    certificate, key = credentials.certificate("pool")
    name = uuid.uuid4().hex
    brokers: list[BrokerProcess] = []
    try:
        for number in range(2):
            options = ["--topics", TESTS, "--tls-listen", f"127.0.0.1:{free_port()}"]
            options += ["--tls-certificate", str(certificate), "--tls-key", str(key)]
            # Nobody answers there, so that only TLS is left.
            options += ["--advertised-url", f"pulsar://127.0.0.1:{free_port()}"]
            options += ["--peer-tls-trust-certificates", str(credentials.authority)]
            brokers.append(BrokerProcess(pulsar, tmp_path / f"{number}.log", ["--pool", name, *options]))
        first, second = brokers
        for broker in brokers:
            broker.wait_ready()
        wait_until(lambda: all(len(broker.stats()["brokers"]) == len(brokers) for broker in brokers))
        with RawClient(first.url) as serves, RawClient(second.url) as relayed:
            serves.subscribe(topic, "s", sub_type=CommandSubscribe.Shared)
            relayed.subscribe(topic, "s", sub_type=CommandSubscribe.Shared)
            assert "servedBy" in second.stats()["topics"][topic]["subscriptions"]["s"]
            relayed.flow(10)
            pulsar_client.create_producer(topic).send(b"over there")
            assert relayed.receive().endswith(b"over there")
    finally:
        for broker in brokers:
            broker.stop()
