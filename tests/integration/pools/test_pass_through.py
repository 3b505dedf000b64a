"""What a pool leaves to the owner, whole, and takes back: the stock Python client through the pool and at the owner at once."""

import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import chain

import pulsar
import pytest

from devstack.pool import Pool
from devstack.pulsar.cluster import PulsarCluster
from tests.support.messages import publish_numbers
from tests.support.pulsar.fleet import quiet_client
from tests.support.waiting import wait_until

pytestmark = pytest.mark.own_stack

FOLLOWED_S = 12.0
"""Policies are followed within 10 s; the rest is the client's own time until it subscribes again."""

KINDS = [pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared]


@pytest.fixture
def owner(txn_stack: PulsarCluster) -> Iterator[pulsar.Client]:
    with closing(quiet_client(txn_stack.endpoints.writer_url)) as client:
        yield client


@pytest.fixture
def through(txn_pool: Pool) -> Iterator[pulsar.Client]:
    with closing(quiet_client(txn_pool.url)) as client:
        yield client


def subscribe(client: pulsar.Client, topic: str, kind: pulsar.ConsumerType) -> pulsar.Consumer:
    return client.subscribe(
        topic,
        "s",
        consumer_type=kind,
        initial_position=pulsar.InitialPosition.Earliest,
        receiver_queue_size=10,
        properties={"of": "the client"},
    )


def reasons(pool: Pool, topic: str) -> list[str]:
    return [
        passing["reason"]
        for broker in pool.brokers
        for passing in broker.stats()["passedThrough"]
        if passing["topic"] == topic
    ]


def backlog(stack: PulsarCluster, topic: str) -> int:
    return int(stack.admin().stats(topic)["subscriptions"]["s"]["msgBacklog"])


publish = partial(publish_numbers, key=str)


def drain(*consumers: pulsar.Consumer, count: int, seconds: float = 60) -> list[list[int]]:
    """What each gets of so many messages, acked."""
    got: list[list[int]] = [[] for _ in consumers]
    deadline = time.monotonic() + seconds
    while sum(map(len, got)) < count and time.monotonic() < deadline:
        for numbers, consumer in zip(got, consumers, strict=True):
            try:
                message = consumer.receive(50)
            except pulsar.Timeout:
                continue
            numbers.append(int(message.data()))
            consumer.acknowledge(message)
    return got


@pytest.mark.parametrize("kind", [KINDS[0], pytest.param(KINDS[1], marks=pytest.mark.slow)], ids=lambda kind: kind.name)
def test_a_subscription_that_also_has_a_consumer_at_the_owner_is_left_to_it_and_taken_back(
    txn_pool, txn_stack, owner, through, topic, kind
) -> None:
    publish(owner, topic, range(100))
    consumer = subscribe(through, topic, kind)
    assert drain(consumer, count=100) == [list(range(100))]
    (seen,) = txn_stack.admin().stats(topic)["subscriptions"]["s"]["consumers"]
    assert seen["metadata"]["of"] == "the client"
    wait_until(lambda: backlog(txn_stack, topic) == 0, 60)
    direct = subscribe(owner, topic, kind)
    wait_until(lambda: reasons(txn_pool, topic) == ["direct-consumers"], 60)
    publish(owner, topic, range(100, 200))
    first, second = drain(consumer, direct, count=100)
    assert sorted(first + second) == list(range(100, 200)), "each once"
    assert first
    assert second
    direct.close()
    wait_until(lambda: reasons(txn_pool, topic) == [], 60)
    publish(owner, topic, range(200, 250))
    assert sorted(drain(consumer, count=50)[0]) == list(range(200, 250))
    assert sum(broker.dispatched(topic) for broker in txn_pool.brokers) >= 50
    wait_until(lambda: backlog(txn_stack, topic) == 0, 60)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_consumer_at_the_owner_that_was_there_before_is_seen_at_once(txn_pool, owner, through, topic, kind) -> None:
    direct = subscribe(owner, topic, kind)
    consumer = subscribe(through, topic, kind)
    assert reasons(txn_pool, topic) == ["direct-consumers"]
    assert 'pulsar_readonly_passed_through_subscriptions{reason="direct-consumers"} 1.0' in txn_pool.brokers[0].get(
        "/metrics"
    )
    publish(owner, topic, range(60))
    assert sorted(chain(*drain(consumer, direct, count=60))) == list(range(60))
    for one in (consumer, direct):
        with pytest.raises(pulsar.Timeout):
            one.receive(300)


def test_a_topic_with_an_entry_filter_is_left_to_the_owner_which_alone_can_run_it(
    txn_stack, txn_pool, owner, through, topic
) -> None:
    publish(owner, topic, range(10))
    connected = through.subscribe(topic, "connected", receiver_queue_size=1)
    txn_stack.admin().set_topic_policy(topic, "entryFilters", {"entryFilterNames": "only-even"})
    path = topic.replace("://", "/")
    applied = f"{txn_stack.endpoints.admin_url}/admin/v2/{path}/entryFilters?applied=true"
    wait_until(lambda: b"only-even" in urllib.request.urlopen(applied, timeout=30).read(), 60)
    wait_until(lambda: reasons(txn_pool, topic) == ["entry-filter"], FOLLOWED_S)
    connected.close()
    for kind in (pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared):
        consumer = through.subscribe(
            topic, f"s-{kind.name}", consumer_type=kind, initial_position=pulsar.InitialPosition.Earliest
        )
        assert drain(consumer, count=5) == [[0, 2, 4, 6, 8]]
        with pytest.raises(pulsar.Timeout):
            consumer.receive(300)
    assert reasons(txn_pool, topic) == ["entry-filter"] * 2


@pytest.mark.slow
def test_storage_out_of_reach_leaves_a_subscription_to_the_owner_until_it_is_back(
    txn_stack, txn_pool, owner, through, topic
) -> None:
    count = 3000
    producer = owner.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
    for number in range(count):
        producer.send_async(b"%d" % number, lambda *_: None, partition_key=str(number))
    producer.flush()
    consumer = subscribe(through, topic, pulsar.ConsumerType.Shared)
    got = drain(consumer, count=10)[0]
    assert len(got) == 10
    txn_stack.stop_bookie(0)
    try:
        deadline = time.monotonic() + 90
        while "storage" not in reasons(txn_pool, topic):
            assert time.monotonic() < deadline
            got += drain(consumer, count=10, seconds=1)[0]
    finally:
        txn_stack.start_bookie(0)
    deadline = time.monotonic() + 60
    while (missing := count - len(set(got))) and time.monotonic() < deadline:
        got += drain(consumer, count=missing, seconds=1)[0]  # some come again: acks were under way at a change
    assert sorted(set(got)) == list(range(count))
    wait_until(lambda: reasons(txn_pool, topic) == [], 90)
    publish(owner, topic, range(count, count + 5))
    assert set(range(count, count + 5)) <= set(drain(consumer, count=5)[0])
