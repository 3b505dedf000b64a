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

from devstack.pool import Pool
from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.status import Endpoints
from tests.support.messages import numbers_of, publish_numbers
from tests.support.pulsar.fleet import quiet_client

RECEIVE_MS = 20_000
TAIL = "pulsar-readonly-tail-"
QUIET_MS = 1_500
"""Nothing more is expected when nothing has come for so long."""
SHARED, KEY_SHARED = ConsumerType.Shared, ConsumerType.KeyShared
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


@pytest.mark.nightly
def test_the_rate_of_a_subscription_is_limited(pulsar: Endpoints, pulsar_client, topic: str, tmp_path: Path) -> None:
    options = ["--topics", "persistent://public/default/test-.*", "--dispatch-rate-per-subscription", "{messages: 50}"]
    with closing(Pool(pulsar, tmp_path, f"rate-{time.time_ns()}", options)) as pool:
        pool.start()
        client = quiet_client(pool.url)
        publish(pulsar_client, topic, range(200), batching_enabled=False)
        begin = time.monotonic()
        consumers = [subscribe(client, topic, subscription_name=name) for name in ("one", "two")]
        assert numbers_of(take(consumers[0], 200)) == list(range(200))
        assert time.monotonic() - begin > 2.5, "50 at once, then 50 a second"
        assert numbers_of(take(consumers[1], 200)) == list(range(200))
        assert time.monotonic() - begin < 15, "one does not wait for the other"
        client.close()
