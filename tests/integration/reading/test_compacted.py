"""Compacted reads through the pool, as at the owner, where the compacted ledger is all that is left."""

import uuid
from collections.abc import Iterator
from contextlib import closing

import pulsar
import pytest

from devstack.pool import Pool
from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.cluster import PulsarCluster
from tests.support.pulsar.fleet import quiet_client
from tests.support.topics import create_settled_topic
from tests.support.waiting import wait_until

pytestmark = pytest.mark.own_stack

RECEIVE_MS = 60_000
EARLIEST = pulsar.MessageId.earliest


@pytest.fixture
def owner(txn_stack: PulsarCluster) -> Iterator[pulsar.Client]:
    # A stock broker that has just started may keep its first readers waiting for more than the usual 30 s.
    with closing(quiet_client(txn_stack.endpoints.writer_url, operation_timeout_seconds=90)) as client:
        yield client


@pytest.fixture
def through(txn_pool: Pool) -> Iterator[pulsar.Client]:
    with closing(quiet_client(txn_pool.url)) as client:
        yield client


def publish(client: pulsar.Client, topic: str, numbers: range, keys: int, *, batched: bool) -> None:
    producer = client.create_producer(
        topic, batching_enabled=batched, batching_max_messages=4, block_if_queue_full=True
    )
    for number in numbers:
        value = b"" if number % 11 == 7 else b"%d" % number  # an empty value deletes its key
        producer.send_async(value, lambda *_: None, partition_key=f"key-{number % keys}")
    producer.flush()
    producer.close()


def compact(stack: PulsarCluster, topic: str) -> None:
    admin = stack.admin()
    before = admin.internal_stats(topic)["compactedLedger"]["ledgerId"]
    admin.compact(topic)
    wait_until(lambda: admin.internal_stats(topic)["compactedLedger"]["ledgerId"] != before, 90)


def read(reader: pulsar.Reader) -> list[tuple[str, str, bytes]]:
    """All that is available."""
    found = []
    while reader.has_message_available():
        message = reader.read_next(RECEIVE_MS)
        found.append((str(message.message_id()), message.partition_key(), message.data()))
    return found


def compacted_reader(client: pulsar.Client, topic: str, start: pulsar.MessageId = EARLIEST) -> pulsar.Reader:
    return client.create_reader(topic, start, is_read_compacted=True, receiver_queue_size=20)


def served(pool: Pool, topic: str) -> int:
    return sum(broker.dispatched(topic) for broker in pool.brokers)


def test_entries_whose_ledgers_are_gone_are_read_from_the_compacted_one(
    txn_stack, txn_pool, owner, through, topic
) -> None:
    admin = txn_stack.admin()
    publish(owner, topic, range(330), 50, batched=False)
    compact(txn_stack, topic)
    slow = compacted_reader(through, topic)
    before = [slow.read_next(RECEIVE_MS).data() for _ in range(5)]
    admin.set_retention("public/default", minutes=0, megabytes=0)
    try:
        wait_until(lambda: admin.trim(topic) or len(admin.internal_stats(topic)["ledgers"]) == 1, 90)
    finally:
        admin.set_retention("public/default", minutes=60, megabytes=1024)
    told = [read(compacted_reader(client, topic)) for client in (owner, through)]
    assert told[0] == told[1]
    assert len(told[0]) > 30
    assert before + [data for _, _, data in read(slow)] == [data for _, _, data in told[0]]
    assert served(txn_pool, topic) >= len(told[0])


@pytest.mark.parametrize(
    "durable", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["reader", "subscription"]
)
def test_a_slow_compacted_read_loses_nothing_when_its_owner_moves(
    txn_stack, owner, topic, tmp_path, durable: bool
) -> None:
    """The owner's cursor stands before the ledgers that are left, and what is read comes from before them."""
    admin = txn_stack.admin()
    namespace = f"public/compacted-{uuid.uuid4().hex[:8]}"
    admin.create_namespace(namespace)
    admin.set_retention(namespace, minutes=60, megabytes=1024)
    topic = f"persistent://{namespace}/{topic.rsplit('/', 1)[1]}"
    create_settled_topic(admin, topic)
    publish(owner, topic, range(330), 50, batched=False)
    compact(txn_stack, topic)
    expected = [data for _, _, data in read(compacted_reader(owner, topic))]
    assert len(expected) > 30
    admin.set_retention(namespace, minutes=0, megabytes=0)
    wait_until(lambda: admin.trim(topic) or len(admin.internal_stats(topic)["ledgers"]) == 1, 90)
    with closing(Pool(txn_stack.endpoints, tmp_path, uuid.uuid4().hex, ["--topics", topic])) as pool:
        pool.start()
        through = quiet_client(pool.url)
        if durable:
            options = {"initial_position": pulsar.InitialPosition.Earliest, "is_read_compacted": True}
            take = through.subscribe(topic, "s", receiver_queue_size=5, **options).receive
        else:
            take = through.create_reader(topic, EARLIEST, is_read_compacted=True, receiver_queue_size=5).read_next
        got = [take(RECEIVE_MS).data() for _ in range(5)]
        for _ in range(2):
            admin.unload(topic)
            wait_until(lambda: _has_consumers(admin, topic), 90)
        got += [take(RECEIVE_MS).data() for _ in range(len(expected) - 5)]
        assert got == expected
        assert served(pool, topic) >= len(expected)
        through.close()


def _has_consumers(admin: PulsarAdmin, topic: str) -> bool:
    return any(one["consumers"] for one in admin.stats(topic)["subscriptions"].values())
