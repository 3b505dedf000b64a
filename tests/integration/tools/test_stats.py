"""What a broker says of itself over HTTP, beside what the owner says of the same consumers."""

import json
import time
import urllib.error

import pulsar
import pytest

from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.spec import CLUSTER_NAME
from tests.support.pulsar.fleet import SHARED, TESTS, quiet_client
from tests.support.samples import value_of, values_of
from tests.support.waiting import wait_until

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
    tenant, namespace = topic.removeprefix("persistent://").split("/")[:2]
    labels = {"namespace": f"{tenant}/{namespace}", "topic": topic, "subscription": "s"}
    assert value_of(metrics, "pulsar_readonly_dispatched_messages_total", **labels) == 10
    for server, asked in (("owner", {"request": "SUBSCRIBE"}), ("metadata_store", {})):
        name = f"pulsar_readonly_{server}_request_duration_seconds"
        count, seconds = (value_of(metrics, f"{name}_{part}", **asked) for part in ("count", "sum"))
        assert 0 < seconds < 30 * count
    assert value_of(metrics, "pulsar_readonly_consumers", **labels, cluster=CLUSTER_NAME) == 1
    for name, value in {
        "claimed_subscriptions": 1,
        "pool_members": 1,
        "dispatch_suspended": 0,
        "slow_clients": 0,
    }.items():
        assert f"\npulsar_readonly_{name} {value}.0\n" in metrics
    client.close()


def test_latency_age_of_the_backlog_and_the_process_are_measured(own_pool, pulsar_client, topic: str) -> None:
    broker = own_pool(1, "--topics", TESTS).brokers[0]
    client = quiet_client(broker.url)
    consumer = client.subscribe(topic, "s", consumer_type=SHARED)
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    sent = time.time()
    for _ in range(3):
        producer.send(bytes(100))
    received = [consumer.receive(10_000) for _ in range(3)]
    metrics = broker.get("/metrics")
    name = "pulsar_readonly_end_to_end_latency_seconds"
    counts = {read: value_of(metrics, f"{name}_count", read=read) for read in ("tail", "backlog")}
    assert 1 <= sum(counts.values()) <= 3
    assert sum(value_of(metrics, f"{name}_sum", read=read) for read in counts) < time.time() - sent + 1

    def ages() -> list[float]:
        return values_of(broker.get("/metrics"), "pulsar_readonly_backlog_age_seconds", topic=topic, subscription="s")

    wait_until(lambda: bool(ages()))
    assert 0 <= ages()[0] <= time.time() - sent + 1
    for message in received:
        consumer.acknowledge(message)
    wait_until(lambda: ages() == [0])

    assert value_of(metrics, "process_resident_memory_bytes") > 1 << 20
    assert value_of(metrics, "process_open_fds") > 3
    assert value_of(metrics, "pulsar_readonly_build_info") == 1
    client.close()


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [pulsar.ConsumerType.Exclusive, SHARED], ids=["exclusive", "shared"])
def test_old_messages_of_a_quiet_topic_are_backlog(own_pool, pulsar_client, topic: str, kind) -> None:
    """The newest batch of the topic is old when a late subscriber reads it: its age says nothing about the tail."""
    broker = own_pool(1, "--topics", TESTS).brokers[0]
    client = quiet_client(broker.url)
    live = client.subscribe(topic, "live", consumer_type=kind)
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    for _ in range(3):
        producer.send(bytes(100))
        assert live.receive(10_000)
    name = "pulsar_readonly_end_to_end_latency_seconds"
    quiet_s = 2.0
    time.sleep(quiet_s)

    def latencies() -> dict[str, tuple[float, float]]:
        text = broker.get("/metrics")
        return {
            read: (value_of(text, f"{name}_count", read=read), value_of(text, f"{name}_sum", read=read))
            for read in ("tail", "backlog")
        }

    before = latencies()
    late = client.subscribe(topic, "late", consumer_type=kind, initial_position=pulsar.InitialPosition.Earliest)
    for _ in range(3):
        assert late.receive(10_000)
    after = latencies()
    assert after["tail"] == before["tail"]
    count, seconds = (after["backlog"][one] - before["backlog"][one] for one in range(2))
    assert 1 <= count <= 3
    assert seconds >= count * quiet_s
    client.close()


def test_json_logs_have_fields_as_keys(own_pool, pulsar_client, admin: PulsarAdmin, topic: str) -> None:
    broker = own_pool(1, "--topics", TESTS, "--log-format", "json").brokers[0]
    pulsar_client.create_producer(topic).send(b"one")
    client = quiet_client(broker.url)
    client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest).receive(10_000)
    admin.delete_topic(topic)
    wait_until(lambda: f"topic was deleted: topic={topic}" in broker.log.read_text(), what="the deletion is logged")
    lines = [json.loads(line) for line in broker.log.read_text().splitlines()]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    (deleted,) = [line for line in lines if line["message"].startswith("topic was deleted")]
    assert (deleted["topic"], deleted["level"]) == (topic, "info")
    client.close()
