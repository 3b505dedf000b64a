"""Local cursors: the pool keeps the subscriptions, the owner has guards only, and everything else is as it is everywhere."""

from collections.abc import Callable
from typing import Any

import pulsar

from devstack.pool import Pool
from devstack.pulsar.admin import PulsarAdmin
from tests.support.messages import numbers_of, publish_numbers
from tests.support.pulsar.fleet import TESTS, quiet_client
from tests.support.waiting import wait_until

RECEIVE_MS = 20_000
QUIET_MS = 1_500
LOCAL = ("--topics", TESTS, "--cursors", "local", "--cursor-partitions", "4")
GUARD = "pulsar-readonly-guard-"


def subscribe(client: pulsar.Client, topic: str, name: str = "s", **options: Any) -> pulsar.Consumer:
    options.setdefault("initial_position", pulsar.InitialPosition.Earliest)
    return client.subscribe(topic, name, **options)


def take(consumer: pulsar.Consumer, count: int, *, ack: bool = True) -> list[int]:
    found = [consumer.receive(RECEIVE_MS) for _ in range(count)]
    for message in found if ack else []:
        consumer.acknowledge(message)
    return numbers_of(found)


def rest(consumer: pulsar.Consumer) -> list[int]:
    found = []
    while True:
        try:
            found.append(consumer.receive(QUIET_MS))
        except pulsar.Timeout:
            return numbers_of(found)


def own_subscriptions(admin: PulsarAdmin, topic: str) -> set[str]:
    """The durable subscriptions at the owner, without the guards' numbers."""
    stats = admin.stats(topic)["subscriptions"]
    return {GUARD if name.startswith(GUARD) else name for name, one in stats.items() if one["isDurable"]}


def wait_stored(pool: Pool, topic: str, subscriptions: int) -> None:
    """Wait until acks of the first two entries are stored."""

    def stored() -> bool:
        stats = [broker.stats() for broker in pool.brokers]
        found = [one for stat in stats for one in stat["topics"].get(topic, {}).get("subscriptions", {}).values()]
        acked = [one for one in found if one["markDeletePosition"].endswith(":1")]
        return len(acked) == subscriptions and not any(
            one["unstored"] for stat in stats for one in stat["localCursors"]
        )

    wait_until(stored, 20)


def restart(pool: Pool) -> None:
    """Kill all brokers, and start them again."""
    for broker in pool.brokers:
        broker.kill()
    for index in range(len(pool.brokers)):
        pool.restart(index)
    pool.wait_members(len(pool.brokers))


def test_the_owner_has_guards_only_and_a_cold_start_goes_on(
    own_pool: Callable[..., Pool], pulsar_client: pulsar.Client, admin: PulsarAdmin, topic: str
) -> None:
    local_pool = own_pool(2, *LOCAL)
    local_client = quiet_client(local_pool.url)
    publish_numbers(pulsar_client, topic, range(10), batching_enabled=False)
    consumers = [subscribe(local_client, topic, f"s{number}") for number in range(8)]
    for consumer in consumers:
        got = [consumer.receive(RECEIVE_MS) for _ in range(10)]
        assert numbers_of(got) == list(range(10))
        for number in (0, 1, 4):
            consumer.acknowledge(got[number])
    assert own_subscriptions(admin, topic) == {GUARD}
    wait_stored(local_pool, topic, len(consumers))
    restart(local_pool)
    for consumer in consumers:
        assert take(consumer, 7) == [2, 3, 5, 6, 7, 8, 9]
        assert rest(consumer) == []
    local_client.close()


def test_unsubscribe_deletes_it_and_at_last_the_guard(
    local_client: pulsar.Client, pulsar_client: pulsar.Client, admin: PulsarAdmin, topic: str
) -> None:
    publish_numbers(pulsar_client, topic, range(3))
    consumer = subscribe(local_client, topic)
    assert take(consumer, 3) == [0, 1, 2]
    assert own_subscriptions(admin, topic) == {GUARD}
    consumer.unsubscribe()
    wait_until(lambda: own_subscriptions(admin, topic) == set(), 20)
    assert take(subscribe(local_client, topic), 3) == [0, 1, 2], "it was not deleted"
