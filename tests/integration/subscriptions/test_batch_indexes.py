"""Batches that are acked in part, where the owner counts such acks: handed on from broker to broker of a pool."""

import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pulsar
import pytest

from devstack.pool import Pool
from devstack.pulsar.cluster import PulsarCluster
from tests.support.pulsar.fleet import quiet_client

pytestmark = [pytest.mark.nightly, pytest.mark.own_stack]

KINDS = [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared]
SIZE = 10
ACKED = 4
RECEIVE_MS = 20_000
QUIET_MS = 700
"""A message that must not come would have come by then."""
TRIES = 20


@pytest.fixture(scope="module")
def pair(txn_stack: PulsarCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """Two brokers on the stack whose owner counts acks of single messages of a batch."""
    folder: Path = tmp_path_factory.mktemp("batches")
    topics = ["--topics", "persistent://public/default/test-.*"]
    with closing(Pool(txn_stack.endpoints, folder, f"batches-{uuid.uuid4().hex}", topics)) as pool:
        pool.start(2)
        yield pool


def subscribe(client: pulsar.Client, topic: str, kind: pulsar.ConsumerType) -> pulsar.Consumer:
    earliest = pulsar.InitialPosition.Earliest
    return client.subscribe(topic, "s", kind, initial_position=earliest, batch_index_ack_enabled=True)


def publish_batch(client: pulsar.Client, topic: str) -> pulsar.MessageId:
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_messages=SIZE, batching_max_publish_delay_ms=10_000
    )
    for value in range(SIZE):
        producer.send_async(str(value).encode(), lambda *_: None, partition_key="k")
    producer.flush()
    last = producer.last_sequence_id()
    assert last == SIZE - 1
    producer.close()
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    first = reader.read_next(RECEIVE_MS).message_id()
    reader.close()
    return first


def ack_some(consumer: pulsar.Consumer) -> None:
    messages = [consumer.receive(RECEIVE_MS) for _ in range(SIZE)]
    for message in messages[:ACKED]:
        consumer.acknowledge(message)


def rest(consumer: pulsar.Consumer) -> list[int]:
    """What comes until nothing does."""
    values = [int(consumer.receive(RECEIVE_MS).data())]
    try:
        while True:
            values.append(int(consumer.receive(QUIET_MS).data()))
    except pulsar.Timeout:
        return sorted(values)


def serving(pool: Pool, topic: str) -> int:
    """Which broker serves the topic's subscription now."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for index, broker in enumerate(pool.brokers):
            subscription = broker.stats()["topics"].get(topic, {"subscriptions": {}})["subscriptions"].get("s", {})
            if subscription.get("consumers") and "servedBy" not in subscription:
                return index
        time.sleep(0.05)
    raise AssertionError(f"no broker serves {topic}")


def subscribe_elsewhere(
    pool: Pool, client: pulsar.Client, topic: str, kind: pulsar.ConsumerType, not_at: int
) -> pulsar.Consumer:
    """Subscribe until it is at another broker than before; they take turns."""
    for _ in range(TRIES):
        consumer = subscribe(client, topic, kind)
        if serving(pool, topic) != not_at:
            return consumer
        consumer.close()
    raise AssertionError(f"every consumer of {topic} came to the same broker")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("reset", [False, True], ids=["kept", "reset at the owner"])
def test_another_broker_delivers_what_the_owner_would(
    txn_stack: PulsarCluster, pair: Pool, topic: str, kind: pulsar.ConsumerType, reset: bool
) -> None:
    owner, through = quiet_client(txn_stack.endpoints.writer_url), quiet_client(pair.url)
    try:
        first = publish_batch(owner, topic)
        consumer = subscribe(through, topic, kind)
        before = serving(pair, topic)
        ack_some(consumer)
        consumer.close()
        if reset:
            direct = subscribe(owner, topic, kind)
            direct.seek(first)
            direct.close()
        consumer = subscribe_elsewhere(pair, through, topic, kind, before)
        at_pool = rest(consumer)
        consumer.close()
        consumer = subscribe(owner, topic, kind)
        at_owner = rest(consumer)
        if reset:
            # Told to go back, the owner may still know what was acked of the batch before. The pool never delivers less.
            assert set(at_owner) <= set(at_pool), (at_owner, at_pool)
            assert at_pool[-(SIZE - ACKED) :] == list(range(ACKED, SIZE))
        else:
            assert at_pool == at_owner == list(range(ACKED, SIZE))
    finally:
        through.close()
        owner.close()
