"""`placement: WhenCheaper`: few consumers of a topic are at its owner, more at the pool, with stock clients and a real owner."""

import json
from collections.abc import Callable
from pathlib import Path

import pulsar
from readonly_engine.broker.passthrough.pool_metadata import POOL_KEY

from devstack.pool import Pool
from devstack.pulsar.admin import PulsarAdmin
from tests.support.pulsar.fleet import SHARED, quiet_client
from tests.support.waiting import wait_until

COUNT = 100


def at_owner(admin: PulsarAdmin, topic: str) -> dict[str, list[bool]]:
    """For each subscription on the owner its consumers; True for one that the pool serves."""
    found = admin.stats(topic)["subscriptions"]
    return {
        name: [POOL_KEY in (consumer.get("metadata") or {}) for consumer in subscription["consumers"]]
        for name, subscription in found.items()
        if not name.startswith("pulsar-readonly-tail-")
    }


def test_few_consumers_are_at_the_owner_and_more_at_the_pool(
    own_pool: Callable[..., Pool],
    pulsar_client: pulsar.Client,
    admin: PulsarAdmin,
    tmp_path: Path,
    topic: str,
) -> None:
    """Each consumer gets all messages of its subscription once, from wherever it is."""
    bindings = tmp_path / "bindings.json"
    binding = {"name": "team/cheap", "topics": [topic], "placement": "WhenCheaper"}
    bindings.write_text(json.dumps({"revision": "1", "bindings": [binding]}))
    pool = own_pool(1, "--bindings", str(bindings))
    client = quiet_client(pool.url)
    try:
        consumers = {}
        for number, name in enumerate(("a", "b", "c", "d", "e")):
            consumers[name] = client.subscribe(topic, name, SHARED)
            wait_until(lambda count=number + 1: sum(map(len, at_owner(admin, topic).values())) == count)
            if number < 3:
                wait_until(lambda name=name: at_owner(admin, topic)[name] == [False])
        assert at_owner(admin, topic) == {"a": [False], "b": [False], "c": [False], "d": [True], "e": [True]}
        second = client.subscribe(topic, "a", SHARED)
        wait_until(lambda: at_owner(admin, topic)["a"] == [False, False])
        producer = pulsar_client.create_producer(topic)
        for number in range(COUNT):
            producer.send(b"%d" % number)
        for name in ("b", "c", "d", "e"):
            assert [int(consumers[name].receive(10_000).data()) for _ in range(COUNT)] == list(range(COUNT))
        shared = []
        while len(shared) < COUNT:
            for one in (consumers["a"], second):
                try:
                    shared.append(int(one.receive(100).data()))
                except pulsar.Timeout:
                    continue
        assert sorted(shared) == list(range(COUNT))
        assert pool.brokers[0].dispatched(topic) == 2 * COUNT, "the pool relays nothing for the others"
    finally:
        client.close()
