"""Stock consumers and readers on a read-only broker get what the owner would give them, and the owner sends next to nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pulsar
import pytest
from readonly_engine.broker.tail.budget import SUBSCRIPTION_PREFIX
from readonly_engine.owner.partial_batches import FIRST_PERMITS

from devstack.pulsar.admin import MessageId
from tests.support.messages import numbers_of, publish_numbers
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from devstack.pool import Pool
    from devstack.pulsar.admin import PulsarAdmin

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


def test_a_consumer_goes_on_where_it_stopped(pool_client, pulsar_client, topic: str) -> None:
    publish(pulsar_client, topic, range(250))
    consumer = pool_client.subscribe(topic, "s", initial_position=EARLIEST)
    assert numbers_of(drain(consumer, 120)) == list(range(120))
    consumer.close()
    again = pool_client.subscribe(topic, "s", initial_position=EARLIEST)
    assert numbers_of(drain(again, 130)) == list(range(120, 250))


def test_holes_of_a_shared_subscription_are_not_delivered_again(pool_client, pulsar_client, topic: str) -> None:
    publish(pulsar_client, topic, range(300), batching_enabled=False)
    shared = pulsar.ConsumerType.Shared
    consumer = pool_client.subscribe(topic, "s", consumer_type=shared, initial_position=EARLIEST)
    for message in drain(consumer, 300, ack=False):
        if int(message.data()) % 3:
            consumer.acknowledge(message)
    consumer.close()
    again = pool_client.subscribe(topic, "s", consumer_type=shared, initial_position=EARLIEST)
    assert numbers_of(drain(again, 100)) == list(range(0, 300, 3))
    with pytest.raises(pulsar.Timeout):
        again.receive(500)


def test_rolls_and_an_unload_while_a_consumer_is_connected(
    pool_client, pulsar_client, admin: PulsarAdmin, topic: str
) -> None:
    publish(pulsar_client, topic, range(50))
    consumer = pool_client.subscribe(topic, "s", initial_position=EARLIEST)
    reader = pool_client.create_reader(topic, pulsar.MessageId.earliest)
    assert numbers_of(drain(consumer, 50)) == list(range(50))
    sent = 50
    for _ in range(3):
        publish(pulsar_client, topic, range(sent, sent + 150), batching_enabled=False)  # more than one ledger
        sent += 150
        admin.unload(topic)
        publish(pulsar_client, topic, range(sent, sent + 10))
        sent += 10
    assert numbers_of(drain(consumer, sent - 50)) == list(range(50, sent))
    assert [int(reader.read_next(RECEIVE_MS).data()) for _ in range(sent)] == list(range(sent))
    wait_until(lambda: owner_subscription(admin, topic, "s")["msgBacklog"] == 0)
    with pytest.raises(pulsar.Timeout):
        consumer.receive(300)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_a_subscription_that_is_reset_by_an_administrator_starts_over(
    pool_client, pulsar_client, admin: PulsarAdmin, topic: str, kind
) -> None:
    publish(pulsar_client, topic, range(150), batching_enabled=False)
    consumer = pool_client.subscribe(topic, "s", consumer_type=kind, initial_position=EARLIEST)
    assert numbers_of(drain(consumer, 150)) == list(range(150))
    wait_until(lambda: owner_subscription(admin, topic, "s")["msgBacklog"] == 0)
    first = admin.internal_stats(topic)["ledgers"][0]["ledgerId"]
    admin.reset_cursor(topic, "s", MessageId(first, 20))
    assert numbers_of(drain(consumer, 130)) == list(range(20, 150))


def test_three_shared_consumers_share_the_work(pool_client, pulsar_client, admin: PulsarAdmin, topic: str) -> None:
    publish(pulsar_client, topic, range(900), batching_enabled=False)
    shared = pulsar.ConsumerType.Shared
    admin.create_subscription(topic, "s")
    consumers = [
        pool_client.subscribe(topic, "s", consumer_type=shared, receiver_queue_size=10, consumer_name=f"c{i}")
        for i in range(3)
    ]

    def take(consumer: pulsar.Consumer) -> list[int]:
        got = []
        while True:
            try:
                message = consumer.receive(1500)
            except pulsar.Timeout:
                return got
            consumer.acknowledge(message)
            got.append(int(message.data()))

    with ThreadPoolExecutor(3) as threads:
        shares = list(threads.map(take, consumers))
    assert sorted(number for share in shares for number in share) == list(range(900))
    assert min(map(len, shares)) > 0
    wait_until(lambda: owner_subscription(admin, topic, "s")["msgBacklog"] == 0)


def test_what_a_shared_consumer_leaves_goes_to_another(pool_client, pulsar_client, topic: str) -> None:
    publish(pulsar_client, topic, range(60), batching_enabled=False)
    shared = pulsar.ConsumerType.Shared
    first = pool_client.subscribe(topic, "s", consumer_type=shared, initial_position=EARLIEST)
    held = drain(first, 60, ack=False)
    second = pool_client.subscribe(topic, "s", consumer_type=shared)
    for message in held[:20]:
        first.acknowledge(message)
    first.close()
    taken = drain(second, 40)
    assert sorted(numbers_of(taken)) == numbers_of(held[20:])
    assert {message.redelivery_count() for message in taken} == {0}, "a consumer that leaves does not count"


def test_negative_acks_are_delivered_again(pool_client, pulsar_client, topic: str) -> None:
    publish(pulsar_client, topic, range(10), batching_enabled=False)
    consumer = pool_client.subscribe(
        topic,
        "s",
        consumer_type=pulsar.ConsumerType.Shared,
        initial_position=EARLIEST,
        negative_ack_redelivery_delay_ms=100,
    )
    for message in drain(consumer, 10, ack=False):
        if int(message.data()) in {3, 7}:
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
    again = drain(consumer, 2)
    assert sorted(numbers_of(again)) == [3, 7]
    assert [message.redelivery_count() for message in again] == [1, 1]


def test_failover_moves_to_the_next_consumer(pool_client, pulsar_client, topic: str) -> None:
    publish(pulsar_client, topic, range(20))
    failover = pulsar.ConsumerType.Failover
    first = pool_client.subscribe(topic, "s", consumer_type=failover, consumer_name="a", initial_position=EARLIEST)
    assert numbers_of(drain(first, 20)) == list(range(20))
    second = pool_client.subscribe(topic, "s", consumer_type=failover, consumer_name="b")
    publish(pulsar_client, topic, range(20, 40))
    taken = []
    consumers = {"a": first, "b": second}
    active = next(name for name, consumer in consumers.items() if _gets_one(consumer, taken))
    consumers.pop(active).close()
    (rest,) = consumers.values()
    # What the first had not acked comes to the second: all but the one message that was acked above.
    assert numbers_of(drain(rest, 19)) == [number for number in range(20, 40) if number not in taken]


def _gets_one(consumer: pulsar.Consumer, taken: list[int]) -> bool:
    try:
        message = consumer.receive(3000)
    except pulsar.Timeout:
        return False
    consumer.acknowledge(message)
    taken.append(int(message.data()))
    return True


def test_only_one_exclusive_consumer_wherever_it_connects(pool_client, pulsar_client, topic: str) -> None:
    publish(pulsar_client, topic, range(1))
    through = pool_client.subscribe(topic, "s", initial_position=EARLIEST)
    with pytest.raises(pulsar.ConsumerBusy):
        pulsar_client.subscribe(topic, "s")
    through.close()
    direct = pulsar_client.subscribe(topic, "s")
    with pytest.raises(pulsar.ConsumerBusy):
        pool_client.subscribe(topic, "s")
    direct.close()


def test_readers(pool_client, pulsar_client, topic: str) -> None:
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    ids = [producer.send(b"%d" % number) for number in range(250)]
    reader = pool_client.create_reader(topic, pulsar.MessageId.earliest)
    got = []
    while reader.has_message_available():
        got.append(int(reader.read_next(RECEIVE_MS).data()))
    assert got == list(range(250))
    middle = pool_client.create_reader(topic, ids[120])
    assert int(middle.read_next(RECEIVE_MS).data()) == 121
    inclusive = pool_client.create_reader(topic, ids[120], start_message_id_inclusive=True)
    assert int(inclusive.read_next(RECEIVE_MS).data()) == 120
    latest = pool_client.create_reader(topic, pulsar.MessageId.latest)
    assert not latest.has_message_available()
    producer.send(b"250")
    assert int(latest.read_next(RECEIVE_MS).data()) == 250


def test_seek_by_id_and_by_time(pool_client, pulsar_client, topic: str) -> None:
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    ids = [producer.send(b"%d" % number) for number in range(200)]
    consumer = pool_client.subscribe(topic, "s", initial_position=EARLIEST)
    assert numbers_of(drain(consumer, 200)) == list(range(200))
    consumer.seek(ids[150])
    assert numbers_of(drain(consumer, 49, ack=False)) == list(range(151, 200))  # the client leaves out the very message
    consumer.seek(1)  # the epoch: everything is later
    assert numbers_of(drain(consumer, 200)) == list(range(200))


def test_unsubscribe_removes_the_subscription_at_the_owner(
    pool_client, pulsar_client, admin: PulsarAdmin, topic: str
) -> None:
    publish(pulsar_client, topic, range(5))
    consumer = pool_client.subscribe(topic, "s", initial_position=EARLIEST)
    drain(consumer, 2)
    assert [name for name in admin.subscriptions(topic) if not name.startswith(SUBSCRIPTION_PREFIX)] == ["s"]
    consumer.unsubscribe()
    wait_until(lambda: admin.subscriptions(topic) == [])  # that of the broker itself ends with the last consumer


def test_producers_on_the_pools_url_end_at_the_owner(pool_client, pulsar_client, topic: str) -> None:
    publish(pool_client, topic, range(100))
    consumer = pulsar_client.subscribe(topic, "s", initial_position=EARLIEST)
    assert numbers_of(drain(consumer, 100)) == list(range(100))


def test_topics_that_are_not_bound_are_served_by_the_owner(
    pool: Pool, pool_client, admin: PulsarAdmin, topic: str
) -> None:
    unbound = topic.replace("/test-", "/other-")
    publish(pool_client, unbound, range(20))
    consumer = pool_client.subscribe(unbound, "s", initial_position=EARLIEST)
    assert numbers_of(drain(consumer, 20)) == list(range(20))
    assert owner_subscription(admin, unbound, "s")["msgOutCounter"] == 20
    assert all(unbound not in broker.stats()["topics"] for broker in pool.brokers)


def test_partitions_are_shared_out_among_the_brokers(
    pool: Pool, pool_client, pulsar_client, admin: PulsarAdmin, topic: str
) -> None:
    admin.create_partitioned_topic(topic, 8)
    publish(pulsar_client, topic, range(400))
    consumer = pool_client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared, initial_position=EARLIEST)
    assert sorted(numbers_of(drain(consumer, 400))) == list(range(400))
    serving = [
        [name for name in broker.stats()["topics"] if name.startswith(f"{topic}-partition-")] for broker in pool.brokers
    ]
    assert sorted(name for names in serving for name in names) == [f"{topic}-partition-{i}" for i in range(8)]
    assert all(serving)


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
