"""Tests of the drivers, each operation once on a stock cluster: a comparison does not find errors of a driver at both targets."""

from __future__ import annotations

import base64
import subprocess
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from devstack.clients import CLIENTS, ClientVersion, command
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import PulsarSpec
from longtests.compat.handles import Client, Handle, new_client
from longtests.compat.process import Driver, OperationError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from devstack.pulsar.admin import PulsarAdmin

# Below the ports of outgoing connections on Linux (from 32768 on).
SPEC = PulsarSpec(name="drivers", base_port=25750, bookies=1, brokers=1, transactions=True, quick=True)
RECORD = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "sum", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "paid", "type": "boolean"},
    ],
}
ORDER = {"id": 1, "sum": 1 << 40, "note": "ü", "paid": True}


@pytest.fixture(scope="session")
def stack() -> Iterator[PulsarCluster]:
    cluster = PulsarCluster(SPEC)
    cluster.up(renew=True)
    yield cluster
    cluster.down(purge=True)


@pytest.fixture(scope="session")
def admin(stack: PulsarCluster) -> PulsarAdmin:
    return stack.admin()


@pytest.fixture(scope="module", params=CLIENTS, ids=str)
def version(request: pytest.FixtureRequest) -> ClientVersion:
    return request.param


@pytest.fixture(scope="module")
def driver(version: ClientVersion, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    driver = Driver(command(version), tmp_path_factory.mktemp("driver") / "driver.log")
    yield driver
    driver.close()


@pytest.fixture(scope="module")
def client(driver: Driver, stack: PulsarCluster) -> Client:
    return new_client(driver, stack.endpoints.writer_url, transactions=driver.client != "python")


@pytest.fixture
def topic() -> str:
    return f"persistent://public/default/driver-{uuid.uuid4().hex[:10]}"


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("keys")
    private, public = str(folder / "private.pem"), str(folder / "public.pem")
    subprocess.run(["openssl", "genrsa", "-traditional", "-out", private, "2048"], check=True, capture_output=True)
    subprocess.run(["openssl", "rsa", "-in", private, "-pubout", "-out", public], check=True, capture_output=True)
    return {"key": "k", "public": public, "private": private}


def offers(driver: Driver, *languages: str) -> None:
    if driver.client not in languages:
        pytest.skip(f"not offered by the {driver.client} client")


def test_hello_tells_the_release(driver: Driver, version: ClientVersion) -> None:
    assert (driver.client, driver.version) == (version.language, version.version)


def test_all_of_a_message_arrives(driver: Driver, client: Client, topic: str) -> None:
    consumer = client.consumer(topic)
    producer = client.producer(topic, name="me")
    sent = producer.send("hi", key="k", ordering_key="b2s=", properties={"a": "b"}, event_time=5, sequence_id=7)
    got = consumer.receive()
    raw = got.raw
    assert got.value == "hi"
    assert (got.id, raw["topic"], raw["key"], raw["ordering_key"]) == (sent, topic, "k", "b2s=")
    assert (raw["properties"], raw["event_time"], raw.get("producer", "me")) == ({"a": "b"}, 5, "me")
    assert raw.get("sequence_id", 7) == 7
    assert (raw["redelivery_count"], raw["encrypted"]) == (0, False)
    assert abs(raw["publish_time"] / 1000 - time.time()) < 60
    assert producer.call("last_sequence_id") == {"last_sequence_id": 7}
    plain = producer.send("x")
    assert plain.split(":")[2:] == (["0", "0"] if driver.client == "go" else ["-1", "-1"])
    raw = consumer.receive().raw
    assert (raw["key"], raw["ordering_key"], raw["properties"], raw["event_time"]) == (None, None, {}, 0)


def test_what_is_unknown_is_refused_as_such(driver: Driver, client: Client, topic: str) -> None:
    for op, fields in (
        ("no_such_op", {"on": client.name}),
        ("consumer", {"client": client.name, "topic": topic, "colour": 1}),
    ):
        with pytest.raises(UnsupportedError):
            driver.call(op, **{"as": "x", "subscription": "s", **fields})
    with pytest.raises(OperationError) as error:
        driver.call("receive", on="nobody")
    assert error.value.kind == "BadRequest"


def test_nothing_to_receive_is_a_timeout(client: Client, topic: str) -> None:
    consumer = client.consumer(topic)
    with pytest.raises(OperationError) as error:
        consumer.receive(100)
    assert error.value.kind == "Timeout"
    assert consumer.take(3, timeout_ms=100) == []
    reader = client.reader(topic)
    with pytest.raises(OperationError) as error:
        reader.receive(100)
    assert error.value.kind == "Timeout"


def test_a_request_that_waits_holds_up_nothing(client: Client, topic: str) -> None:
    consumer = client.consumer(topic)
    waiting = consumer.begin("receive", timeout_ms=20_000)
    client.producer(topic).send("now")
    assert base64.b64decode(Driver.result("receive", waiting)["value"]) == b"now"


def test_batches_have_indexes_and_are_acked_one_by_one(client: Client, topic: str) -> None:
    consumer = client.consumer(topic, type="shared", batch_index_ack=True)
    ids = client.producer(topic, batching={"max_messages": 4, "max_delay_ms": 60_000}).send_all("abcd")
    got = consumer.take(4)
    assert [message.id for message in got] == ids
    assert [message.id.split(":")[3] for message in got] == ["0", "1", "2", "3"]
    assert len({message.id.rsplit(":", 1)[0] for message in got}) == 1
    for message in got[:3]:
        consumer.ack(message)
    consumer.close()
    assert client.consumer(topic, type="shared").values(4, timeout_ms=3000)[-1:] == ["d"]


@pytest.mark.parametrize("compression", ["lz4", "zlib", "zstd", "snappy"])
def test_compression(driver: Driver, client: Client, topic: str, compression: str) -> None:
    consumer = client.consumer(topic)
    try:
        producer = client.producer(topic, compression=compression)
    except UnsupportedError:
        offers(driver, "java", "python")
        raise
    producer.send("z" * 10_000)
    assert consumer.receive().value == "z" * 10_000


def test_acks(driver: Driver, client: Client, admin: PulsarAdmin, topic: str) -> None:
    options: dict[str, Any] = {} if driver.client == "python" else {"ack_receipt": True}
    consumer = client.consumer(topic, type="shared", **options)
    producer = client.producer(topic)
    for value in "abcd":
        producer.send(value)
    got = consumer.take(4)
    consumer.ack(got[0])
    rest = [got[1].id, got[2].id]
    if driver.client == "python" or (driver.client, driver.version) == ("go", "0.14.0"):
        with pytest.raises(UnsupportedError):
            consumer.call("ack_list", ids=rest)
    else:
        consumer.call("ack_list", ids=rest)
        assert admin.stats(topic)["subscriptions"]["sub"]["msgBacklog"] == 1


def test_a_cumulative_ack(client: Client, topic: str) -> None:
    consumer = client.consumer(topic)
    producer = client.producer(topic)
    for value in "abc":
        producer.send(value)
    got = consumer.take(3)
    consumer.ack_cumulative(got[1])
    consumer.close()
    assert client.consumer(topic).values(2, timeout_ms=3000) == ["c"]


def test_messages_come_again(driver: Driver, client: Client, topic: str) -> None:
    consumer = client.consumer(topic, type="shared", nack_delay_ms=200)
    client.producer(topic).send("a")
    consumer.nack(consumer.receive())
    again = consumer.receive()
    assert (again.value, again.redelivered) == ("a", 1)
    offers(driver, "java", "python")
    consumer.call("redeliver")
    assert consumer.receive().redelivered == 2


def test_an_ack_timeout(driver: Driver, client: Client, topic: str) -> None:
    offers(driver, "java", "python")
    consumer = client.consumer(topic, type="shared", ack_timeout_ms=10_000)
    client.producer(topic).send("a")
    consumer.receive()
    assert consumer.receive(40_000).redelivered >= 1


def test_seeks(client: Client, topic: str) -> None:
    consumer = client.consumer(topic)
    producer = client.producer(topic)
    ids = [producer.send(value) for value in "abc"]
    got = consumer.take(3)
    consumer.seek(got[0])
    assert consumer.values(3, timeout_ms=2000)[-2:] == ["b", "c"]  # some clients deliver the first one too
    consumer.seek("earliest")
    assert consumer.values(3) == ["a", "b", "c"]
    consumer.seek("latest")
    assert consumer.rest(timeout_ms=500) == []
    consumer.seek({"time": got[2].raw["publish_time"]})
    assert consumer.values(1) in (["c"], ["b"])  # both may have the same millisecond
    consumer.close()
    inclusive = client.consumer(topic, start_inclusive=True)
    inclusive.seek(ids[1])
    assert inclusive.values(2) == ["b", "c"]


def test_readers(driver: Driver, client: Client, topic: str) -> None:
    producer = client.producer(topic)
    ids = [producer.send(value) for value in "abc"]
    reader = client.reader(topic)
    assert reader.call("has_next") == {"has": True}
    assert reader.values(3) == ["a", "b", "c"]
    assert reader.call("has_next") == {"has": False}
    assert client.reader(topic, ids[0]).values(2) == ["b", "c"]
    assert client.reader(topic, ids[0], inclusive=True).values(3) == ["a", "b", "c"]
    if driver.version != "0.14.0":  # it empties its queue after a seek, with messages that arrived since
        reader.seek(ids[0])
        assert reader.values(1)[0] in {"a", "b"}
    if driver.client != "go":
        assert reader.call("connected") == {"connected": True}
    if driver.client != "python":
        (last,) = reader.call("last_message_id")["ids"]
        assert (last["topic"], last["id"].split(":")[:2]) == (topic, ids[-1].split(":")[:2])
    ledger, entry, *_ = ids[1].split(":")
    # Go's client treats a single message as the first one of a batch, and an id without a batch as the position before it.
    assert client.reader(topic, f"{ledger}:{entry}:-1:-1").values(1) == (["b"] if driver.client == "go" else ["c"])


def test_last_ids_and_counts(driver: Driver, client: Client, topic: str) -> None:
    options = {} if driver.client == "go" else {"initial_sequence_id": 41}
    producer = client.producer(topic, **options)
    before = producer.told["last_sequence_id"]
    assert before == options.get("initial_sequence_id", -1)
    consumer = client.consumer(topic)
    sent = producer.send("a")
    assert producer.call("last_sequence_id") == {"last_sequence_id": before + 1}
    assert consumer.last_id().split(":")[:2] == sent.split(":")[:2]
    offers(driver, "java", "python")
    assert consumer.call("connected") == {"connected": True}
    assert producer.call("connected") == {"connected": True}


def test_several_topics_and_patterns(client: Client, topic: str) -> None:
    topics = [f"{topic}-a", f"{topic}-b"]
    several = client.consumer(topics)
    pattern = client.consumer(None, "all", pattern=f"{topic}-.*", discovery_ms=1000)
    for name in topics:
        client.producer(name).send(name)
    for consumer in (several, pattern):
        assert sorted(message.value for message in consumer.take(2, ack=True)) == topics


def test_partitions(client: Client, admin: PulsarAdmin, topic: str) -> None:
    admin.create_partitioned_topic(topic, 3)
    assert client.partitions(topic) == [f"{topic}-partition-{index}" for index in range(3)]
    consumer = client.consumer(topic)
    ids = client.producer(topic).send_all("abcdef")
    got = consumer.take(6, ack=True)
    assert sorted(message.id for message in got) == sorted(ids)
    assert {message.id.split(":")[2] for message in got} == {"0", "1", "2"}
    assert {message.raw["topic"] for message in got} == set(client.partitions(topic))


@pytest.mark.parametrize("kind", ["json", "avro"])
def test_records(client: Client, driver: Driver, topic: str, kind: str) -> None:
    schema = {"type": kind, "definition": RECORD}
    consumer = client.consumer(topic, schema=schema)
    producer = client.producer(topic, schema=schema)
    for order in (ORDER, {**ORDER, "note": None}):
        producer.send(order)
    got = consumer.take(2)
    assert [message.value for message in got] == [ORDER, {**ORDER, "note": None}]
    if driver.client == "java":
        assert base64.b64decode(got[0].raw["schema_version"]) == bytes(8)
    if driver.client == "java":
        assert client.consumer(topic, "auto", schema="auto_consume").receive().value == ORDER


def test_strings(client: Client, topic: str) -> None:
    consumer = client.consumer(topic, schema="string")
    client.producer(topic, schema="string").send("ü")
    assert consumer.receive().value == "ü"


def test_a_null_value(driver: Driver, client: Client, topic: str) -> None:
    consumer = client.consumer(topic)
    producer = client.producer(topic)
    try:
        producer.call("send", null=True, key="k")
    except UnsupportedError:
        offers(driver, "java")
        raise
    assert consumer.receive().value is None


def test_delays(client: Client, topic: str) -> None:
    consumer = client.consumer(topic, type="shared")
    producer = client.producer(topic)
    begin = time.time()
    producer.send("later", deliver_after_ms=2500)
    producer.send("at", deliver_at=int(time.time() * 1000) + 2500)
    assert sorted(consumer.values(2)) == ["at", "later"]
    assert time.time() - begin > 2


def test_dead_letters(client: Client, topic: str) -> None:
    dead = client.consumer(f"{topic}-dead", "dead")
    consumer = client.consumer(
        topic, type="shared", nack_delay_ms=100, dead_letter={"max_redeliver": 1, "topic": f"{topic}-dead"}
    )
    client.producer(topic).send("a")
    consumer.nack(consumer.receive())
    consumer.nack(consumer.receive())
    waiting = consumer.begin("receive", timeout_ms=5000)
    assert dead.receive().value == "a"
    with pytest.raises(OperationError):
        Driver.result("receive", waiting)


def test_retry_letters(driver: Driver, client: Client, topic: str) -> None:
    offers(driver, "java", "go")
    consumer = client.consumer(
        topic,
        type="shared",
        retry=True,
        dead_letter={"max_redeliver": 3, "topic": f"{topic}-dead", "retry_topic": f"{topic}-retry"},
    )
    client.producer(topic).send("a")
    consumer.call("reconsume_later", id=consumer.receive().id, delay_ms=1000, properties={"why": "later"})
    again = consumer.receive()
    assert (again.value, again.raw["properties"]["why"]) == ("a", "later")


def test_batch_receive(driver: Driver, client: Client, topic: str) -> None:
    offers(driver, "java", "python")
    consumer = client.consumer(topic, batch_receive={"max_messages": 3, "max_bytes": -1, "timeout_ms": 20_000})
    client.producer(topic).send_all("abc")
    assert len(consumer.call("batch_receive")["messages"]) == 3


def test_chunks(client: Client, topic: str) -> None:
    consumer = client.consumer(topic)
    client.producer(topic, chunking=True, send_timeout_ms=30_000).send("x" * 6_000_000)
    got = consumer.receive()
    assert len(got.value) == 6_000_000
    consumer.ack(got)


def test_encryption(driver: Driver, client: Client, topic: str, keys: dict[str, str]) -> None:
    consumer = client.consumer(topic, decrypt=keys)
    client.producer(topic, encrypt=keys).send("secret")
    got = consumer.receive()
    assert (got.value, got.raw.get("encrypted", False)) == ("secret", False)
    if driver.client != "python":
        blind = client.consumer(topic, "blind", decrypt={"failure": "consume"}).receive()
        assert blind.value != "secret"
        assert blind.raw.get("encrypted", True)


def test_listeners_and_pauses(client: Client, driver: Driver, topic: str) -> None:
    consumer = client.consumer(topic, listener=True)
    producer = client.producer(topic)
    producer.send("a")
    assert consumer.receive().value == "a"
    offers(driver, "java", "python")
    consumer.call("pause")
    consumer.call("resume")
    producer.send("b")
    assert consumer.receive().value == "b"


def test_events(driver: Driver, client: Client, topic: str) -> None:
    offers(driver, "java", "go")
    first = client.consumer(topic, type="failover", name="a", events=True)
    deadline = time.monotonic() + 30
    while ["active", topic] not in first.call("events")["events"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_key_shared(client: Client, topic: str) -> None:
    low = client.consumer(topic, type="key_shared", key_shared={"mode": "sticky", "ranges": [[0, 32767]]})
    high = client.consumer(topic, type="key_shared", key_shared={"mode": "sticky", "ranges": [[32768, 65535]]})
    producer = client.producer(topic)
    for number in range(20):
        producer.send(number, key=str(number))
    first, second = low.rest(ack=True), high.rest(ack=True)
    assert first
    assert second
    assert sorted(map(int, first + second)) == list(range(20))


def test_table_views(driver: Driver, client: Client, topic: str) -> None:
    producer = client.producer(topic, schema="string")
    for key, value in (("a", "1"), ("b", "2"), ("a", "3")):
        producer.send(value, key=key)
    try:
        view = client.table_view(topic)
    except UnsupportedError:
        offers(driver, "java", "go")
        raise
    assert view.call("table") == {"entries": {"a": "3", "b": "2"}}
    assert view.call("table_get", key="a") == {"value": "3"}
    assert view.call("table_get", key="z") == {"value": None}
    view.close()


def test_transactions(driver: Driver, client: Client, topic: str) -> None:
    offers(driver, "java", "go")
    consumer = client.consumer(topic, type="shared")
    producer = client.producer(topic)
    kept, dropped = client.transaction(), client.transaction()
    producer.send("kept", txn=kept.name)
    producer.send("dropped", txn=dropped.name)
    dropped.call("abort")
    kept.call("commit")
    got = consumer.receive()
    assert got.value == "kept"
    ack = client.transaction()
    consumer.ack(got, txn=ack.name)
    ack.call("commit")
    # Go's client does not write a transaction to a message's metadata, so brokers cannot detect its abort.
    assert consumer.rest() == (["dropped"] if driver.client == "go" else [])
    with pytest.raises(OperationError):
        ack.call("commit")


def test_refusals(driver: Driver, client: Client, stack: PulsarCluster, topic: str) -> None:
    client.consumer(topic)
    refused: dict[str, Any] = {}
    for what, action in {
        "second": lambda: client.consumer(topic),
        "schema": lambda: client.producer(topic, schema={"type": "json", "definition": RECORD}),
        "topic": lambda: client.consumer("no://such/topic name"),
        "connect": lambda: new_client(driver, "pulsar://127.0.0.1:1", operation_timeout_ms=3000).producer(topic),
    }.items():
        try:
            action()
        except OperationError as error:
            refused[what] = error.kind
    assert refused.pop("connect") in {"Connect", "Timeout"}
    assert refused == {"second": "ConsumerBusy", "topic": "InvalidTopicName"}


def test_the_end_of_a_topic(driver: Driver, client: Client, admin: PulsarAdmin, topic: str) -> None:
    consumer = client.consumer(topic)
    producer = client.producer(topic)
    producer.send("a")
    admin.terminate(topic)
    assert consumer.values(1, ack=True) == ["a"]
    with pytest.raises(OperationError) as error:
        producer.send("b")
    assert error.value.kind in {"TopicTerminated", "AlreadyClosed", "Timeout"}
    offers(driver, "java")
    deadline = time.monotonic() + 30
    while not consumer.call("send_end_of_topic")["reached"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_unsubscribe_and_close(driver: Driver, client: Client, admin: PulsarAdmin, topic: str) -> None:
    consumer = client.consumer(topic)
    consumer.call("unsubscribe")
    assert "sub" not in admin.stats(topic)["subscriptions"]
    for handle in (client.consumer(topic), client.producer(topic), client.reader(topic)):
        assert isinstance(handle, Handle)
        handle.close()
    if driver.client == "java":
        consumer = client.consumer(topic, "forced", type="shared")
        consumer.call("unsubscribe", force=True)


def test_the_log_is_not_the_answer(version: ClientVersion, tmp_path: Path) -> None:
    driver = Driver(command(version), tmp_path / "log")
    with pytest.raises(OperationError):
        new_client(driver, "pulsar://127.0.0.1:1", operation_timeout_ms=2000).producer("persistent://public/default/x")
    driver.close()
    assert (tmp_path / "log").stat().st_size > 0


def test_a_stored_id_is_read_from_its_bytes(client: Client, topic: str) -> None:
    consumer = client.consumer(topic, type="shared")
    sent = client.producer(topic).send_all(["0", "1", "2"])
    consumer.take(3)
    consumer.ack(f"stored/{sent[0]}")
    consumer.close()
    assert sorted(client.consumer(topic, type="shared").values(2)) == ["1", "2"]
    assert client.reader(topic, f"stored/{sent[0]}").values(2) == ["1", "2"]
