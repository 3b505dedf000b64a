"""What a client hears of consumers while one broker of the pool sends them on to another, frame by frame."""

import time
import uuid
from pathlib import Path
from typing import Any

import pulsar as pulsar_lib
import pytest
from readonly_engine.broker.consumer.relay_marks import RELAYED_BY
from readonly_engine.broker.pool.pending_redirects import ARRIVAL_TIMEOUT_S
from readonly_engine.wire.commands import body_of
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandConsumerStats,
    CommandSubscribe,
    CommandUnsubscribe,
    KeyValue,
    ServerError,
)

from devstack.common.ports import free_port
from devstack.pool import BrokerProcess, Pool
from devstack.pulsar.security import Credentials
from devstack.pulsar.status import Endpoints
from tests.support.pulsar.fleet import TESTS
from tests.support.pulsar.raw_client import RawClient, RefusedError
from tests.support.waiting import wait_until

pytestmark = pytest.mark.second_stack

MOVES: dict[str, Any] = {"client_version": "Pulsar-Java-v4.0.8"}
"""Goes where it is told."""
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


@pytest.mark.nightly
def test_unsubscribe_is_refused_while_another_consumer_is_on_its_way(
    pulsar: Endpoints, pool: Pool, pulsar_client: pulsar_lib.Client, topic: str
) -> None:
    pulsar_client.create_producer(topic).close()
    first, second = pool.brokers
    options = {"sub_type": CommandSubscribe.Shared}
    with RawClient(first.url) as stays, RawClient(second.url, **MOVES) as moved, RawClient(first.url, **MOVES) as again:
        stays.subscribe(topic, "s", **options)
        moved.subscribe(topic, "s", **options)
        moved.flow(10)  # a client that asks for nothing stays
        close, _ = moved.wait(lambda command: command.type == BaseCommand.CLOSE_CONSUMER)
        assert close.close_consumer.assigned_broker_service_url == first.url
        unsubscribe = BaseCommand(
            type=BaseCommand.UNSUBSCRIBE, unsubscribe=CommandUnsubscribe(consumer_id=0, request_id=77)
        )
        stays.send(unsubscribe)
        again.subscribe(topic, "s", **options)
        answer, _ = stays.wait(lambda command: command.type in {BaseCommand.SUCCESS, BaseCommand.ERROR})
        assert answer.type == BaseCommand.ERROR
        assert body_of(answer).request_id == 77
        refusal = (ServerError.Name(answer.error.error), answer.error.message)

        owner = owner_of(pulsar, topic)
        with RawClient(owner) as one, RawClient(owner) as other:
            one.subscribe(topic, "direct", **options)
            other.subscribe(topic, "direct", **options)
            with pytest.raises(RefusedError) as refused:
                one.request(unsubscribe)
            assert refused.value.args[1:] == refusal
        again.close()
        wait_until(lambda: first.stats()["topics"][topic]["subscriptions"]["s"]["consumers"][1:] == [])
        assert stays.request(unsubscribe).type == BaseCommand.SUCCESS


@pytest.mark.nightly
def test_an_unsubscribe_does_not_wait_for_liars_that_the_owner_refuses(pool: Pool, topic: str) -> None:
    """They pretend that another broker of the pool has brought them, and their subscription type does not fit."""
    url = pool.brokers[0].url
    with RawClient(url) as honest, RawClient(url) as liar:
        honest.subscribe(topic, "s", sub_type=CommandSubscribe.Shared)
        for value in ("pulsar://127.0.0.1:1", ""):
            mark = [KeyValue(key=RELAYED_BY, value=value)]
            with pytest.raises(RefusedError, match="ConsumerBusy"):
                liar.subscribe(topic, "s", sub_type=CommandSubscribe.Key_Shared, metadata=mark)
        unsubscribe = CommandUnsubscribe(consumer_id=0, request_id=77)
        begin = time.monotonic()
        honest.request(BaseCommand(type=BaseCommand.UNSUBSCRIBE, unsubscribe=unsubscribe))
        assert time.monotonic() - begin < ARRIVAL_TIMEOUT_S - 1


def test_a_liar_is_refused_where_another_broker_serves_its_subscription(pool: Pool, topic: str) -> None:
    """Then it cannot have brokers relay it to each other without end. The others are served as before."""
    first, second = pool.brokers
    with RawClient(first.url) as serves, RawClient(second.url) as relayed, RawClient(second.url) as liar:
        serves.subscribe(topic, "s", sub_type=CommandSubscribe.Shared)
        relayed.subscribe(topic, "s", sub_type=CommandSubscribe.Shared)
        for marks in ([""], [first.url]):
            mark = [KeyValue(key=RELAYED_BY, value=value) for value in marks]
            with pytest.raises(RefusedError, match="but another broker of the pool serves it"):
                liar.subscribe(topic, "s", sub_type=CommandSubscribe.Shared, metadata=mark)
        assert "CLOSE_CONSUMER" not in serves.seen + relayed.seen
        assert len(first.stats()["topics"][topic]["subscriptions"]["s"]["consumers"]) == 2
