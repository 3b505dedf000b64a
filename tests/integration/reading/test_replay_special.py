"""Replays of messages that consumers do not get one by one: delayed ones, chunks, transactions, keys of compacted topics."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import pulsar as pulsar_lib
import pytest

from devstack.pool import Pool
from tests.integration.reading.test_replay import iso, replay_command
from tests.support.pulsar.fleet import TESTS, quiet_client
from tests.support.pulsar.java_client import JavaClient

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from devstack.pulsar.cluster import PulsarCluster

pytestmark = [pytest.mark.nightly, pytest.mark.own_stack]


def publish_delayed(client: pulsar_lib.Client, _: JavaClient, topic: str) -> None:
    producer = client.create_producer(topic, batching_enabled=False)
    producer.send(b"late", deliver_after=timedelta(seconds=3))
    producer.send(b"early")


def publish_chunks(client: pulsar_lib.Client, _: JavaClient, topic: str) -> None:
    producer = client.create_producer(topic, batching_enabled=False, chunking_enabled=True)
    producer.send(b"x" * (6 << 20))
    producer.send(b"y")


def publish_transactions(_: pulsar_lib.Client, java: JavaClient, topic: str) -> None:
    for name, end in (("a", "commit"), ("b", "abort")):
        java.do("begin", name, 300)
        java.do("send", topic, name, f"in-{name}")
        java.do("send", topic, "-", f"beside-{name}")
        java.do(end, name)


def publish_keys(client: pulsar_lib.Client, _: JavaClient, topic: str) -> None:
    producer = client.create_producer(topic, batching_enabled=False)
    for value in (b"old", b"new"):
        producer.send(value, partition_key="k")


@pytest.mark.parametrize(
    ("publish", "kind", "speed", "expected"),
    [
        (publish_delayed, pulsar_lib.ConsumerType.Shared, "2", ["early", "late"]),
        (publish_delayed, pulsar_lib.ConsumerType.Shared, "unlimited", ["late", "early"]),
        (publish_delayed, pulsar_lib.ConsumerType.Exclusive, "2", ["late", "early"]),
        (publish_chunks, pulsar_lib.ConsumerType.Exclusive, "2", ["x" * (6 << 20), "y"]),
        (publish_transactions, pulsar_lib.ConsumerType.Exclusive, "2", ["in-a", "beside-a", "beside-b"]),
        (publish_transactions, pulsar_lib.ConsumerType.Shared, "unlimited", ["in-a", "beside-a", "beside-b"]),
        (publish_keys, pulsar_lib.ConsumerType.Exclusive, "2", ["old", "new"]),
    ],
)
def test_special_messages_are_as_they_were(
    txn_stack: PulsarCluster,
    tmp_path: Path,
    topic: str,
    publish: Callable[[pulsar_lib.Client, JavaClient, str], None],
    kind: pulsar_lib.ConsumerType,
    speed: str,
    expected: list[str],
) -> None:
    """Without an end, so that the last delay and the last transaction are within the replay."""
    admin = txn_stack.admin()
    admin.create_topic(topic)
    began = time.time()
    with (
        closing(quiet_client(txn_stack.endpoints.writer_url)) as client,
        JavaClient(txn_stack, txn_stack.endpoints.writer_url) as java,
    ):
        publish(client, java, topic)
    if publish is publish_keys:
        admin.compact(topic)
    options = ["--topics", TESTS, "--replay-from", iso(began - 1), "--replay-speed", "0.01"]
    with closing(Pool(txn_stack.endpoints, tmp_path, f"special-{time.time_ns()}", options)) as pool:
        pool.start(1)
        with closing(quiet_client(pool.url)) as client:
            earliest, compacted = pulsar_lib.InitialPosition.Earliest, publish is publish_keys
            consumer = client.subscribe(
                topic,
                "s",
                consumer_type=kind,
                initial_position=earliest,
                is_read_compacted=compacted,
            )
            replay_command(txn_stack.endpoints, pool, "speed", speed)  # now that the consumer is there
            received = []
            for _ in expected:
                message = consumer.receive(60_000)
                received.append(message.data().decode())
                consumer.acknowledge(message)
            with pytest.raises(pulsar_lib.Timeout):
                consumer.receive(1000)
    assert received == expected
