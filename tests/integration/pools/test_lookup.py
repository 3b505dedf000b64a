"""Where clients go: bound topics to any broker of the pool, one Shared subscription to one of them, all else to its owner."""

import uuid
from collections import Counter

import pulsar
import pytest
from readonly_engine.wire.pulsar_pb2 import (
    CommandSubscribe,
)

from devstack.pool import Pool
from devstack.pulsar.admin import PulsarAdmin
from tests.support.messages import publish_numbers
from tests.support.pulsar.fleet import SHARED, TESTS, Feed, Sink, backlog, claims_of, consumers_at, quiet_client
from tests.support.pulsar.raw_client import RawClient, RefusedError
from tests.support.waiting import wait_until

EARLIEST = pulsar.InitialPosition.Earliest
KEY_SHARED = pulsar.ConsumerType.KeyShared


def test_consumers_of_one_topic_are_spread_over_all_brokers(own_pool, pulsar_client, topic: str) -> None:
    pool = own_pool(2, "--topics", TESTS)
    publish_numbers(pulsar_client, topic, range(50))
    client = quiet_client(pool.url)
    consumers = [client.subscribe(topic, f"s{number}", initial_position=EARLIEST) for number in range(8)]
    readers = [client.create_reader(topic, pulsar.MessageId.earliest) for _ in range(8)]
    for consumer in consumers:
        assert [int(consumer.receive(10_000).data()) for _ in range(50)] == list(range(50))
    for reader in readers:
        assert [int(reader.read_next(10_000).data()) for _ in range(50)] == list(range(50))

    def even() -> bool:
        counts = [consumers_at(broker, topic) for broker in pool.brokers]
        return sum(counts) == 16 and min(counts) >= 6

    # At once where the client is fast. Else the brokers take turns by loads that are seconds old, and move the excess later.
    wait_until(even, 60, what="both brokers have about as many consumers")
    client.close()


@pytest.mark.parametrize(
    "kind", [pytest.param(SHARED, marks=pytest.mark.nightly), KEY_SHARED], ids=["Shared", "Key_Shared"]
)
def test_a_shared_subscription_is_served_by_one_broker_whoever_its_clients_come_to(
    own_pool, pulsar_client, admin: PulsarAdmin, topic: str, kind: pulsar.ConsumerType
) -> None:
    pool = own_pool(2, "--topics", TESTS)
    clients = [quiet_client(pool.url) for _ in range(4)]
    sinks = [Sink(client.subscribe(topic, "s", consumer_type=kind, initial_position=EARLIEST)) for client in clients]
    feed = Feed(pulsar_client, topic)
    wait_until(lambda: all(len(sink.got) > 20 for sink in sinks), what="every consumer gets messages")
    sent = feed.stop()
    wait_until(lambda: sum(len(sink.got) for sink in sinks) >= sent)
    assert Counter(number for sink in sinks for number in sink.stop()) == Counter(range(sent))
    assert claims(pool, topic) == ["s"], "one broker has the claim, and no consumer of the other is its own"
    wait_until(lambda: backlog(admin, topic, "s") == 0)
    for client in clients:
        client.close()
    wait_until(lambda: claims(pool, topic) == [], what="the claim is given back")


def claims(pool: Pool, topic: str) -> list[str]:
    """The claims of all brokers on subscriptions of the topic."""
    return [name for broker in pool.brokers for name in claims_of(broker, topic)]


def test_topics_that_are_not_bound_are_the_owners(own_pool, pulsar_client, admin: PulsarAdmin) -> None:
    pool = own_pool(2, "--topics", TESTS)
    topic = f"persistent://public/default/unbound-{uuid.uuid4().hex[:12]}"
    client = quiet_client(pool.url)
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    publish_numbers(client, topic, range(3))
    assert [consumer.receive(10_000).data() for _ in range(3)] == [b"0", b"1", b"2"]
    stats = admin.stats(topic)
    assert stats["subscriptions"]["s"]["consumers"][0]["availablePermits"] > 0, "the client is at the owner itself"
    assert all(consumers_at(broker, topic) == 0 for broker in pool.brokers)
    client.close()


def test_producers_are_relayed_for_life_also_of_clients_that_go_where_they_are_told(
    own_pool, admin: PulsarAdmin, topic: str
) -> None:
    pool = own_pool(1, "--topics", TESTS)
    client = quiet_client(pool.url)
    for producer in [client.create_producer(topic) for _ in range(3)]:
        producer.send(b"1")
        assert producer.is_connected()
    versions = [publisher["clientVersion"] for publisher in admin.stats(topic)["publishers"]]
    assert versions == ["pulsar-readonly"] * 3
    assert pool.brokers[0].stats()["producers"] == 3
    client.close()


def test_limits_are_refused_in_words_that_clients_understand(own_pool, topic: str) -> None:
    pool = own_pool(
        1,
        "--topics",
        TESTS,
        "--max-connections",
        "3",
        "--max-consumers-per-topic",
        "2",
        "--max-consumers-per-subscription",
        "1",
    )
    url = pool.brokers[0].url
    first = RawClient(url)
    first.subscribe(topic, "a", sub_type=CommandSubscribe.Shared, consumer_id=1)
    with pytest.raises(RefusedError, match="Subscription reached max consumers limit"):
        first.subscribe(topic, "a", sub_type=CommandSubscribe.Shared, consumer_id=2)
    first.subscribe(topic, "b", sub_type=CommandSubscribe.Shared, consumer_id=3)
    with pytest.raises(RefusedError, match="Topic reached max consumers limit"):
        first.subscribe(topic, "c", sub_type=CommandSubscribe.Shared, consumer_id=4)
    others = [RawClient(url) for _ in range(2)]
    with pytest.raises(RefusedError, match="Reached the maximum number of connections"):
        RawClient(url)
    for client in (first, *others):
        client.close()


@pytest.mark.nightly
def test_slow_clients_hold_little_and_nobody_up(own_pool, pulsar_client, topic: str) -> None:
    """Eight clients that do not read want 24 MB each, served here or passed through; a ninth gets all of it meanwhile."""
    pool = own_pool(1, "--topics", TESTS, "--max-buffered-bytes", "2MiB")
    producer = pulsar_client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
    for _ in range(200):
        producer.send_async(bytes(120_000), lambda *_: None)
    producer.flush()
    url = pool.brokers[0].url
    slow = [RawClient(url) for _ in range(8)]
    for number, client in enumerate(slow):
        compacted = {"read_compacted": True} if number % 2 else {}  # such reads pass through
        earliest = {"initial_position": CommandSubscribe.Earliest}
        client.subscribe(topic, f"slow-{number}", **earliest, **compacted)
        client.flow(1000)
    client = quiet_client(pool.url)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    for _ in range(200):
        assert len(reader.read_next(20_000).data()) == 120_000
    # 1 MiB, what one read of entries may add to it, and what the kernel of this machine takes is not counted.
    assert pool.brokers[0].stats()["bufferedBytes"] < len(slow) * (3 << 20)
    for raw in slow:
        raw.close()
    wait_until(lambda: pool.brokers[0].stats()["bufferedBytes"] == 0)
    client.close()
