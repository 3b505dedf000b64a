"""Acks of single messages of a batch outlive the read-only broker that relayed them, as they outlive a client at an owner."""

from contextlib import suppress
from typing import Final

import pulsar
import pytest

from devstack.pool import Pool
from devstack.pulsar.cluster import PulsarCluster
from tests.support.messages import publish_numbers
from tests.support.pulsar.fleet import SHARED, quiet_client
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nightly

RECEIVE_MS: Final = 20_000
QUIET_MS: Final = 1_500
"""A message that must not come would have come by then."""

BATCHES: Final = 40
SIZE: Final = 10
ACKED: Final = range(4)
"""Messages of each batch that are acked, except in the last batch, where all are."""

KINDS: Final = [
    pulsar.ConsumerType.Exclusive,
    pulsar.ConsumerType.Failover,
    SHARED,
]

LEFT: Final = [number for number in range((BATCHES - 1) * SIZE) if number % SIZE not in ACKED]


def publish_batches(owner: pulsar.Client, topic: str) -> None:
    """Publish BATCHES batches of SIZE."""
    batching = {"batching_enabled": True, "batching_max_messages": SIZE, "batching_max_publish_delay_ms": 10_000}
    publish_numbers(owner, topic, range(BATCHES * SIZE), **batching)


def subscribe(client: pulsar.Client, topic: str, kind: pulsar.ConsumerType) -> pulsar.Consumer:
    return client.subscribe(
        topic, "s", kind, batch_index_ack_enabled=True, initial_position=pulsar.InitialPosition.Earliest
    )


def ack_some(release: PulsarCluster, consumer: pulsar.Consumer, topic: str) -> None:
    """Receive everything, ack a part of each batch and the whole last one, and wait until the owner has these acks."""
    messages = {
        int(message.data()): message for message in (consumer.receive(RECEIVE_MS) for _ in range(BATCHES * SIZE))
    }
    assert len({message.message_id().entry_id() for message in messages.values()}) >= BATCHES / 2
    for number in sorted(messages):
        if number not in LEFT:
            consumer.acknowledge(messages[number])
    wait_until(
        lambda: release.admin().internal_stats(topic)["cursors"]["s"]["individuallyDeletedMessages"] != "[]",
        10,
        "the owner has the acks",
    )


def received(consumer: pulsar.Consumer) -> list[int]:
    """Receive until nothing comes any more."""
    numbers = []
    try:
        while True:
            numbers.append(int(consumer.receive(QUIET_MS if len(numbers) >= len(LEFT) else RECEIVE_MS).data()))
    except pulsar.Timeout:
        return numbers


def after_a_death(pool: Pool) -> pulsar.Client:
    """Replace the pool's broker by another; it ends by SIGKILL, so that it leaves no more than it had written."""
    pool.start()
    pool.brokers[0].kill()
    pool.wait_members(1)  # the claims of a dead broker end with its session
    return quiet_client(pool.url)


def ack_some_of_each(
    release: PulsarCluster, owner: pulsar.Client, client: pulsar.Client, topics: dict[str, pulsar.ConsumerType]
) -> None:
    """Publish batches to topics, and ack a part of them."""
    for name, kind in topics.items():
        publish_batches(owner, name)
        ack_some(release, subscribe(client, name, kind), name)


def test_after_the_death_of_their_broker(
    release: PulsarCluster, release_owner: pulsar.Client, release_pool: Pool, topic: str
) -> None:
    topics = {f"{topic}-{kind.name}": kind for kind in KINDS}
    before = quiet_client(release_pool.url)
    ack_some_of_each(release, release_owner, before, topics)
    after = after_a_death(release_pool)
    try:
        found = {name: sorted(received(subscribe(after, name, kind))) for name, kind in topics.items()}
        assert found == dict.fromkeys(topics, LEFT)
    finally:
        after.close()
        with suppress(pulsar.PulsarException):  # its broker is dead
            before.close()
