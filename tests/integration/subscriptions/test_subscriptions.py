"""Subscription types on read-only brokers: each scene is played at the owner and through the pool, with the same outcome."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pulsar import ConsumerType
from pulsar import MessageId as BatchMessageId

from devstack.pool import Pool
from devstack.pulsar.admin import MessageId, PulsarAdmin
from devstack.pulsar.status import Endpoints
from tests.support.messages import numbers_of, publish_numbers
from tests.support.pulsar.fleet import quiet_client

RECEIVE_MS = 20_000
TAIL = "pulsar-readonly-tail-"
QUIET_MS = 1_500
"""Nothing more is expected when nothing has come for so long."""
SHARED, KEY_SHARED, FAILOVER = ConsumerType.Shared, ConsumerType.KeyShared, ConsumerType.Failover
KEYS = 20


def subscribe(client: pulsar.Client, topic: str, kind: ConsumerType = SHARED, **options: Any) -> pulsar.Consumer:
    options.setdefault("subscription_name", "s")
    return client.subscribe(topic, consumer_type=kind, initial_position=pulsar.InitialPosition.Earliest, **options)


publish = partial(publish_numbers, key=lambda number: f"key-{number % KEYS}")


def rest(consumer: pulsar.Consumer, quiet_ms: int = QUIET_MS) -> list[pulsar.Message]:
    """What comes until nothing has come for a while; not acked."""
    found = []
    while True:
        try:
            found.append(consumer.receive(quiet_ms))
        except pulsar.Timeout:
            return found


def take(consumer: pulsar.Consumer, count: int, *, ack: bool = False) -> list[pulsar.Message]:
    found = [consumer.receive(RECEIVE_MS) for _ in range(count)]
    for message in found if ack else []:
        consumer.acknowledge(message)
    return found


@pytest.fixture(params=["owner", "local"])
def both(request: pytest.FixtureRequest, pulsar_client, admin: PulsarAdmin, topic: str) -> Callable[[Any], Any]:
    """Plays a scene at the owner and through the pool, each on a topic of its own, and returns the outcome, which is the same.

    The owner keeps the pool's cursors, or the pool itself does.
    """
    local = request.param == "local"
    pool: Pool = request.getfixturevalue("local_pool" if local else "pool")
    pool_client = request.getfixturevalue("local_client" if local else "pool_client")

    def play(scene: Callable[[pulsar.Client, pulsar.Client, str], Any]) -> Any:
        with ThreadPoolExecutor(2) as players:
            at_owner = players.submit(scene, pulsar_client, pulsar_client, f"{topic}-direct")
            in_pool = players.submit(scene, pool_client, pulsar_client, f"{topic}-through")
        direct, through = at_owner.result(), in_pool.result()
        assert through == direct
        subscriptions = admin.stats(f"{topic}-through")["subscriptions"]
        assert ("s" not in subscriptions) == local
        sent = {name: one["msgOutCounter"] for name, one in subscriptions.items() if not name.startswith(TAIL)}
        assert not any(sent.values()), "the owner has sent something"
        assert sum(broker.dispatched(f"{topic}-through") for broker in pool.brokers) > 0
        return direct

    return play


def by_consumer(consumers: dict[str, pulsar.Consumer], quiet_ms: int = QUIET_MS) -> dict[str, list[int]]:
    return {name: numbers_of(rest(consumer, quiet_ms)) for name, consumer in consumers.items()}


def test_key_shared_keeps_the_order_of_a_key_at_the_consumer_that_the_owner_would_choose(both) -> None:
    def scene(client: pulsar.Client, writer: pulsar.Client, topic: str) -> dict[str, list[int]]:
        consumers = {name: subscribe(client, topic, KEY_SHARED, consumer_name=name) for name in ("a", "b", "c")}
        assert not any(by_consumer(consumers, 500).values())  # all are at one broker of the pool then
        publish(writer, topic, range(300), batching_enabled=False)
        return by_consumer(consumers)

    got = both(scene)
    assert sorted(number for found in got.values() for number in found) == list(range(300))
    assert all(found == sorted(found) for found in got.values())
    assert len({(name, number % KEYS) for name, found in got.items() for number in found}) == KEYS


@pytest.mark.nightly
def test_a_key_with_something_unacked_stays_where_it_is_when_a_consumer_arrives(both) -> None:
    def scene(client: pulsar.Client, writer: pulsar.Client, topic: str) -> Any:
        first = subscribe(client, topic, KEY_SHARED, consumer_name="first")
        publish(writer, topic, range(KEYS), batching_enabled=False)
        held = take(first, KEYS)
        second = subscribe(client, topic, KEY_SHARED, consumer_name="second")
        assert rest(second) == []  # it may have to go to another broker of the pool first
        publish(writer, topic, range(KEYS, 3 * KEYS), batching_enabled=False)
        before = numbers_of(rest(second))
        stayed = rest(first)
        for message in [*held, *stayed]:
            first.acknowledge(message)
        after = numbers_of(rest(second))
        assert all(after.index(number) < after.index(number + KEYS) for number in after if number < 2 * KEYS)
        return before, numbers_of(stayed), sorted(after), numbers_of(rest(first))

    before, stayed, after, _ = both(scene)
    assert before == []
    assert sorted(stayed + after) == list(range(KEYS, 3 * KEYS))


def _client(url: str) -> pulsar.Client:
    return quiet_client(url)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [SHARED, KEY_SHARED], ids=lambda kind: kind.name)
def test_a_consumer_with_too_much_unacked_waits_until_it_has_acked(both, admin: PulsarAdmin, kind) -> None:
    def scene(client: pulsar.Client, writer: pulsar.Client, topic: str) -> Any:
        publish(writer, topic, range(100), batching_enabled=False)
        admin.set_max_unacked_on_consumer(topic, 20)
        consumer = subscribe(client, topic, kind)
        first = rest(consumer)
        for message in first[:10]:
            consumer.acknowledge(message)
        second = rest(consumer)
        consumer.redeliver_unacknowledged_messages()
        return numbers_of(first), len(second)

    first, _ = both(scene)
    assert first == list(range(20))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("both", "indexes"),
    [("owner", False), ("owner", True), ("local", False)],  # this owner does not count acks of single messages
    indirect=["both"],
)
def test_a_batch_that_is_acked_in_part_and_given_back(both, indexes: bool) -> None:
    def scene(client: pulsar.Client, writer: pulsar.Client, topic: str) -> Any:
        options = {"batch_index_ack_enabled": indexes, "negative_ack_redelivery_delay_ms": 200}
        consumer = subscribe(client, topic, **options)
        # Else a slow machine makes a batch of the first message alone, and batches differ between owner and pool.
        batches = {"batching_enabled": True, "batching_max_messages": 10, "batching_max_publish_delay_ms": 10_000}
        publish(writer, topic, range(20), **batches)
        first = take(consumer, 20)
        for message in first:
            if int(message.data()) % 10 < 6:
                consumer.acknowledge(message)
            elif int(message.data()) % 10 == 7:
                consumer.negative_acknowledge(message)
        again = rest(consumer)
        for message in [*first, *again]:
            consumer.acknowledge(message)
        counts = {message.redelivery_count() for message in again}
        return sorted(set(numbers_of(again))), counts, numbers_of(rest(consumer))

    both(scene)


@pytest.mark.nightly
@pytest.mark.parametrize("seek", [False, True], ids=["stays", "seeks"])
def test_a_batch_that_is_acked_in_part_comes_back_with_the_rest_of_it(
    pulsar: Endpoints, pulsar_client, topic: str, tmp_path: Path, seek: bool
) -> None:
    """Where the owner does not count such acks; test_batch_indexes.py is about those that do."""

    def scene(client: pulsar.Client, topic: str) -> list[int]:
        consumer = subscribe(client, topic, batch_index_ack_enabled=True)
        ids = publish(pulsar_client, topic, range(10), batching_enabled=True, batching_max_messages=10)
        for message in take(consumer, 10)[:4]:
            consumer.acknowledge(message)
        assert rest(consumer, 1000) == []  # the client sends acks every 100 ms
        if seek:
            consumer.seek(BatchMessageId(-1, ids[0].ledger_id(), ids[0].entry_id(), -1))
        consumer.close()
        return numbers_of(rest(subscribe(client, topic, batch_index_ack_enabled=True)))

    with closing(
        Pool(pulsar, tmp_path, f"batches-{time.time_ns()}", ["--topics", "persistent://public/default/test-.*"])
    ) as pool:
        pool.start()
        client = _client(pool.url)
        assert scene(client, f"{topic}-through") == scene(pulsar_client, f"{topic}-direct")
        client.close()


@pytest.mark.parametrize("kind", [ConsumerType.Exclusive, SHARED], ids=lambda kind: kind.name)
def test_seek_while_messages_are_on_their_way(both, kind) -> None:
    def scene(client: pulsar.Client, writer: pulsar.Client, topic: str) -> Any:
        consumer = subscribe(client, topic, kind, receiver_queue_size=10)
        ids = publish(writer, topic, range(300), batching_enabled=False)
        for message in take(consumer, 150):
            consumer.acknowledge(message)
        consumer.seek(ids[100])
        first = take(consumer, 50, ack=True)
        consumer.seek(ids[280])
        return numbers_of(first), numbers_of(rest(consumer))

    both(scene)


@pytest.mark.parametrize("both", ["owner"], indirect=True)
def test_a_cursor_that_is_reset_at_the_owner_delivers_again_also_what_was_acked_out_of_order(
    both, admin: PulsarAdmin
) -> None:
    def scene(client: pulsar.Client, writer: pulsar.Client, topic: str) -> Any:
        consumer = subscribe(client, topic)
        ids = publish(writer, topic, range(20), batching_enabled=False)
        for message in take(consumer, 20):
            if int(message.data()) in {5, 6, 12}:
                consumer.acknowledge(message)
        rest(consumer, 500)
        first = MessageId(ids[0].ledger_id(), ids[0].entry_id())
        admin.reset_cursor(topic, "s", first)
        return sorted(numbers_of(take(consumer, 20))), numbers_of(rest(consumer))

    again, more = both(scene)
    assert again == list(range(20))
    assert more == []


def test_failover_goes_on_at_another_read_only_broker_where_the_first_has_acked(
    pulsar: Endpoints, pulsar_client, topic: str, tmp_path: Path
) -> None:
    """Two pools with one broker each: the consumers of one subscription sit on different brokers."""
    options = ["--topics", "persistent://public/default/test-.*"]
    pools = [Pool(pulsar, tmp_path / name, f"{name}-{time.time_ns()}", options) for name in ("one", "two")]
    clients = []
    try:
        for name, pool in zip(("one", "two"), pools, strict=True):
            (tmp_path / name).mkdir()
            pool.start()
            clients.append(_client(pool.url))
        consumers = {
            name: subscribe(client, topic, FAILOVER, consumer_name=name)
            for name, client in zip(("a", "b"), clients, strict=True)
        }
        publish(pulsar_client, topic, range(100), batching_enabled=False)
        active = next(name for name, consumer in consumers.items() if _gets_something(consumer))
        consumer = consumers.pop(active)
        acked = {0, *range(2, 60)}
        held = {int(message.data()): message for message in rest(consumer)}
        for number in acked & set(held):
            consumer.acknowledge(held[number])
        acked &= set(held)
        assert len(acked) > 50
        consumer.close()
        (other,) = consumers.values()
        got = numbers_of(take(other, 100 - len(acked), ack=True))
        assert got == [number for number in range(100) if number not in acked]
        assert rest(other) == []
    finally:
        for client in clients:
            client.close()
        for pool in pools:
            pool.close()


def _gets_something(consumer: pulsar.Consumer) -> bool:
    """Whether a message comes; it is given back by being left unacked."""
    try:
        consumer.receive(5000)
    except pulsar.Timeout:
        return False
    consumer.redeliver_unacknowledged_messages()
    return True


@pytest.mark.nightly
def test_the_rate_of_a_subscription_is_limited(pulsar: Endpoints, pulsar_client, topic: str, tmp_path: Path) -> None:
    options = ["--topics", "persistent://public/default/test-.*", "--dispatch-rate-per-subscription", "{messages: 50}"]
    with closing(Pool(pulsar, tmp_path, f"rate-{time.time_ns()}", options)) as pool:
        pool.start()
        client = _client(pool.url)
        publish(pulsar_client, topic, range(200), batching_enabled=False)
        begin = time.monotonic()
        consumers = [subscribe(client, topic, subscription_name=name) for name in ("one", "two")]
        assert numbers_of(take(consumers[0], 200)) == list(range(200))
        assert time.monotonic() - begin > 2.5, "50 at once, then 50 a second"
        assert numbers_of(take(consumers[1], 200)) == list(range(200))
        assert time.monotonic() - begin < 15, "one does not wait for the other"
        client.close()


@pytest.mark.nightly
def test_large_messages_in_chunks_reach_one_consumer_each(both) -> None:
    def scene(client: pulsar.Client, writer: pulsar.Client, topic: str) -> list[int]:
        consumers = [subscribe(client, topic, consumer_name=name) for name in ("a", "b")]
        producer = writer.create_producer(topic, batching_enabled=False, chunking_enabled=True)
        sizes = [11_000_000, 6_000_000]
        for size in sizes:
            producer.send(bytes(size))
            producer.send(b"small")
        return sorted(len(message.data()) for consumer in consumers for message in rest(consumer, 4000))

    assert both(scene) == [5, 5, 6_000_000, 11_000_000]
