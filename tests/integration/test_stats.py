"""What a broker says of itself over HTTP, beside what the owner says of the same consumers."""

from __future__ import annotations

import json
import urllib.error
from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.integration.fleet import SHARED, TESTS, quiet_client
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from devstack.pulsar.admin import PulsarAdmin

OURS = {"markDeletePosition", "claimed"}


def test_statistics_have_the_shape_of_pulsars(own_pool, pulsar_client, admin: PulsarAdmin, topic: str) -> None:
    broker = own_pool(1, "--topics", TESTS).brokers[0]
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    for _ in range(10):
        producer.send(bytes(100))
    client = quiet_client(broker.url)
    consumer = client.subscribe(
        topic, "s", consumer_type=SHARED, initial_position=pulsar.InitialPosition.Earliest, consumer_name="me"
    )
    for message in [consumer.receive(10_000) for _ in range(6)]:
        consumer.acknowledge(message)
    path = f"/admin/v2/{topic.replace('://', '/')}/stats"
    wait_until(lambda: json.loads(broker.get(path))["subscriptions"]["s"]["msgBacklog"] == 4)
    mine, owners = json.loads(broker.get(path)), admin.stats(topic)

    subscription, at_owner = mine["subscriptions"]["s"], owners["subscriptions"]["s"]
    assert set(subscription) - set(at_owner) == OURS
    assert (subscription["type"], subscription["msgOutCounter"], subscription["unackedMessages"]) == ("Shared", 10, 4)
    assert subscription["claimed"]
    (found,), (known,) = subscription["consumers"], at_owner["consumers"]
    assert set(found) <= set(known)
    assert (found["consumerName"], found["unackedMessages"], found["msgOutCounter"]) == ("me", 4, 10)
    assert found["bytesOutCounter"] == mine["bytesOutCounter"] > 1000
    assert found["clientVersion"].startswith("Pulsar-CPP")
    wait_until(lambda: admin.stats(topic)["subscriptions"]["s"]["msgBacklog"] == 4)

    everything = broker.stats()
    assert everything["topics"][topic]["subscriptions"]["s"]["consumers"][0]["address"] == found["address"]
    assert everything["claims"] == [{"topic": topic, "subscription": "s"}]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        broker.get(path.replace("/stats", "x/stats"))

    metrics = broker.get("/metrics")
    assert "\nprocess_resident_memory_bytes " in metrics
    assert f'pulsar_readonly_messages_dispatched_total{{subscription="s",topic="{topic}"}} 10.0' in metrics
    for name, value in {"claims": 1, "members": 1, "resting": 0, "slow_clients": 0}.items():
        assert f"\npulsar_readonly_{name} {value}.0\n" in metrics
    client.close()
