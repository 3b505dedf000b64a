"""What bindings say beyond topics: which subscriptions, what a deletion means, where clients go otherwise."""

import json
import signal
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulsar
import pytest
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

from devstack.pool import Pool
from devstack.pulsar.admin import PulsarAdmin
from tests.support.pulsar.fleet import TESTS, consumers_at, quiet_client
from tests.support.pulsar.raw_client import RawClient, RefusedError
from tests.support.samples import value_of
from tests.support.waiting import wait_until

EARLIEST = pulsar.InitialPosition.Earliest


@pytest.fixture
def bind(tmp_path: Path) -> Callable[..., Path]:
    """Writes a bindings file of one binding, or of none."""
    path = tmp_path / "bindings.yaml"
    revision = iter(range(1000))

    def write(*bindings: dict[str, Any]) -> Path:
        entries = [{"name": "team/one", **binding} for binding in bindings]
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps({"revision": f"r{next(revision)}", "bindings": entries}))  # JSON is YAML
        draft.replace(path)
        return path

    return write


@pytest.fixture
def unbound() -> str:
    """A topic that nothing binds."""
    return f"persistent://public/default/unbound-{uuid.uuid4().hex[:12]}"


def served(pool: Pool, topic: str) -> dict[str, str]:
    """The subscriptions of a topic that have consumers at the pool, and who serves them: empty for the pool itself."""
    stats = pool.brokers[0].stats()["topics"].get(topic, {"subscriptions": {}})
    return {name: one.get("servedBy", "") for name, one in stats["subscriptions"].items()}


def receive(consumer: pulsar.Consumer, count: int) -> list[bytes]:
    return [consumer.receive(20_000).data() for _ in range(count)]


def test_subscriptions_that_a_binding_does_not_name_pass_through(
    own_pool, pulsar_client, admin: PulsarAdmin, topic: str, bind
) -> None:
    pool = own_pool(1, "--bindings", str(bind({"topics": [topic], "subscriptions": ["audit", "ml-.*"]})))
    producer = pulsar_client.create_producer(topic)
    client = quiet_client(pool.url)
    names = ("audit", "ml-7", "other")
    consumers = {name: client.subscribe(topic, name, initial_position=EARLIEST) for name in names}
    for number in range(3):
        producer.send(b"%d" % number)
    for consumer in consumers.values():
        assert receive(consumer, 3) == [b"0", b"1", b"2"]
    assert served(pool, topic) == {"audit": "", "ml-7": "", "other": "owner"}
    stats = pool.brokers[0].stats()["topics"][topic]["subscriptions"]["other"]
    assert stats["passedThrough"] == "no binding names it"
    bind({"topics": [topic], "subscriptions": ["other"]})
    wait_until(
        lambda: served(pool, topic) == {"audit": "owner", "ml-7": "owner", "other": ""},
        what="each subscription is where it belongs",
    )
    producer.send(b"3")
    for consumer in consumers.values():
        while consumer.receive(20_000).data() != b"3":
            pass  # what was not acked comes again
    client.close()


@pytest.mark.parametrize("policy", ["Drain", "Detach"])
def test_what_becomes_of_consumers_when_their_binding_is_deleted(
    own_pool, pulsar_client, topic: str, bind, policy: str
) -> None:
    pool = own_pool(1, "--bindings", str(bind({"topics": [topic], "lifecyclePolicy": policy})))
    producer = pulsar_client.create_producer(topic)
    client = quiet_client(pool.url)
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    producer.send(b"0")
    consumer.acknowledge_cumulative(consumer.receive(20_000))
    bind()
    held = f'"revision": "r{1}"'
    wait_until(lambda: held in pool.brokers[0].get("/bindings"))
    if policy == "Drain":
        wait_until(lambda: consumers_at(pool.brokers[0], topic) == 0, what="the consumer goes to the owner")
    with RawClient(pool.url) as raw:
        assert raw.lookup(topic) != pool.url, "whoever comes now goes to the owner"
    producer.send(b"1")
    assert receive(consumer, 1) == [b"1"]
    assert consumers_at(pool.brokers[0], topic) == (1 if policy == "Detach" else 0)
    client.close()


@pytest.mark.nightly
def test_what_a_binding_comes_to_is_told(own_pool, pulsar_client, admin: PulsarAdmin, topic: str, bind) -> None:
    admin.create_partitioned_topic(topic, 3)
    single = f"{topic}-single"
    pool = own_pool(1, "--bindings", str(bind({"topics": [f"{topic}.*"]})))
    client = quiet_client(pool.url)
    consumers = [client.subscribe(name, "s", initial_position=EARLIEST) for name in (topic, single)]
    for name, count in ((topic, 6), (single, 2)):
        producer = pulsar_client.create_producer(name, batching_enabled=False)
        for number in range(count):
            producer.send(b"%d" % number)

    def told() -> dict[str, Any]:
        return dict(json.loads(pool.brokers[0].get("/bindings"))["bindings"][0])

    wait_until(lambda: (told()["matched"] or {}).get("topics") == 2, what="both topics are counted")
    assert told()["matched"] == {"topics": 2, "partitions": 3}
    wait_until(lambda: [lag["entries"] for lag in told()["lag"]] == [6, 2], what="what is not acked is counted")
    assert [(lag["topic"], lag["subscription"]) for lag in told()["lag"]] == [(topic, "s"), (single, "s")]
    assert json.loads(pool.brokers[0].get("/bindings/topics?binding=team/one")) == {"topics": [topic, single]}
    metrics = pool.brokers[0].get("/metrics")
    assert value_of(metrics, "pulsar_readonly_backlog_entries", topic=single, subscription="s") == 2
    for consumer, count in zip(consumers, (6, 2), strict=True):
        for _ in range(count):
            consumer.acknowledge(consumer.receive(20_000))
    wait_until(lambda: [lag["entries"] for lag in told()["lag"]] == [0, 0])
    client.close()


@pytest.mark.nightly
def test_unbound_topics_can_be_relayed_whole(own_pool, pulsar_client, admin: PulsarAdmin, unbound: str) -> None:
    pool = own_pool(1, "--topics", TESTS, "--lookup-unbound", "proxy")
    with RawClient(pool.url) as raw:
        assert raw.lookup(unbound) == pool.url
    client = quiet_client(pool.url)
    consumer = client.subscribe(unbound, "s", initial_position=EARLIEST)
    producer = client.create_producer(unbound)
    for number in range(3):
        producer.send(b"%d" % number)
    messages = [consumer.receive(20_000) for _ in range(3)]
    assert [message.data() for message in messages] == [b"0", b"1", b"2"]
    consumer.acknowledge_cumulative(messages[-1])
    assert served(pool, unbound) == {"s": "owner"}
    assert pool.brokers[0].stats()["producers"] == 1, "the producer stays here too"
    wait_until(lambda: admin.stats(unbound)["subscriptions"]["s"]["msgBacklog"] == 0)
    client.close()


def test_unbound_topics_can_be_refused(own_pool, topic: str, unbound: str) -> None:
    pool = own_pool(1, "--topics", TESTS, "--lookup-unbound", "reject")
    words = f"{unbound} is not bound to pool "
    with RawClient(pool.url) as raw:
        assert raw.lookup(topic) == pool.url
        with pytest.raises(RefusedError, match=words) as refused:
            raw.lookup(unbound)
        assert refused.value.args[1] == "NotAllowedError"
        with pytest.raises(RefusedError, match=words) as refused:
            raw.subscribe(unbound, "s")
        assert (
            refused.value.args[1] == "ServiceNotReady"
        )  # another broker may know of a binding that this one does not yet
        assert raw.lookup("persistent://pulsar/system/transaction_coordinator_assign-partition-0") != pool.url
    client = quiet_client(pool.url)
    with pytest.raises(pulsar.NotAllowedError):
        client.create_producer(unbound)
    client.close()


@pytest.mark.parametrize("fallback", ["Reject", "Owner"])
def test_where_clients_go_while_no_broker_can_serve(own_pool, pulsar_client, topic: str, bind, fallback: str) -> None:
    pool = own_pool(1, "--bindings", str(bind({"topics": [topic], "fallback": fallback})))
    broker = pool.brokers[0]
    pulsar_client.create_producer(topic).send(b"0")
    with RawClient(pool.url) as raw, RawClient(pool.url) as other:
        raw.subscribe(topic, "s", initial_position=CommandSubscribe.Earliest)
        raw.flow(10)
        raw.receive()
        # what is delivered and not acked holds a broker for some seconds, after it has left the pool
        broker.process.send_signal(signal.SIGTERM)
        wait_until(lambda: broker.stats()["brokers"] == [], what="the only broker has left the pool")
        if fallback == "Reject":
            with pytest.raises(RefusedError, match="no broker of the pool is up; try again"):
                other.lookup(topic)
        else:
            assert other.lookup(topic) != pool.url
