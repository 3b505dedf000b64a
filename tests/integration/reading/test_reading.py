"""Stock consumers and readers on a read-only broker get what the owner would give them, and the owner sends next to nothing."""

from functools import partial
from pathlib import Path

import pulsar
import pytest
from readonly_engine.owner.partial_batches import FIRST_PERMITS

from devstack.pool import Pool
from devstack.pulsar.admin import PulsarAdmin
from tests.support.messages import numbers_of, publish_numbers
from tests.support.waiting import wait_until

RECEIVE_MS = 20_000
BATCH = 3
EARLIEST = pulsar.InitialPosition.Earliest
TYPES = [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared, pulsar.ConsumerType.Failover]


publish = partial(publish_numbers, key=lambda number: f"key-{number % 7}", properties=lambda number: {"n": str(number)})


def drain(consumer: pulsar.Consumer, count: int, ack: bool = True) -> list[pulsar.Message]:
    messages = []
    for _ in range(count):
        message = consumer.receive(RECEIVE_MS)
        if ack:
            consumer.acknowledge(message)
        messages.append(message)
    return messages


def seen(message: pulsar.Message) -> tuple[object, ...]:
    return (
        str(message.message_id()),
        message.data(),
        message.properties(),
        message.partition_key(),
        message.publish_timestamp(),
        message.redelivery_count(),
    )


def asked_at_most(admin: PulsarAdmin, *, batched: bool) -> int:
    """Return how many messages a broker may let the owner send, to learn which messages of the first batches are acked."""
    counted = admin.runtime_configuration()["acknowledgmentAtBatchIndexLevelEnabled"] == "true"
    return FIRST_PERMITS * BATCH if batched and counted else 0


def owner_subscription(admin: PulsarAdmin, topic: str, name: str) -> dict[str, object]:
    return admin.stats(topic)["subscriptions"][name]


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("batched", [False, True], ids=["unbatched", "batched"])
def test_a_topic_of_several_ledgers_from_the_first_message_to_the_tail(
    pool: Pool, pool_client, pulsar_client, admin: PulsarAdmin, topic: str, kind, batched: bool
) -> None:
    publish(pulsar_client, topic, range(1000), batching_enabled=batched, batching_max_messages=BATCH)
    assert len(admin.internal_stats(topic)["ledgers"]) > 3
    direct = pulsar_client.subscribe(topic, "direct", consumer_type=kind, initial_position=EARLIEST)
    through = pool_client.subscribe(topic, "through", consumer_type=kind, initial_position=EARLIEST)
    expected = drain(direct, 1000)
    got = drain(through, 1000)
    assert [seen(message) for message in got] == [seen(message) for message in expected]
    publish(pulsar_client, topic, range(1000, 1100), batching_enabled=batched)
    assert numbers_of(drain(through, 100)) == list(range(1000, 1100))
    wait_until(lambda: owner_subscription(admin, topic, "through")["msgBacklog"] == 0)
    assert owner_subscription(admin, topic, "through")["msgOutCounter"] <= asked_at_most(admin, batched=batched)
    assert owner_subscription(admin, topic, "direct")["msgOutCounter"] >= 1000
    assert sum(broker.dispatched(topic) for broker in pool.brokers) == 1100


@pytest.mark.nightly
def test_a_producer_that_is_faster_than_the_owner_takes_up_no_memory(pool: Pool, pool_client, topic: str) -> None:
    producer = pool_client.create_producer(
        topic, batching_enabled=False, block_if_queue_full=True, max_pending_messages=2000
    )
    failures = []
    for _ in range(600):
        producer.send_async(bytes(500_000), lambda result, _id: result == pulsar.Result.Ok or failures.append(result))
    producer.flush()
    assert failures == []
    resident = [_resident_mb(broker.process.pid) for broker in pool.brokers]
    assert max(resident) < 250, "300 MB went through"


def _resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
