"""`pulsar-readonly topic` on a real cluster: what the stock client published, in every shape, and what its owner knows."""

import base64
import json
import os
import signal
import subprocess
import sys
import time

import pulsar as pulsar_lib
import pytest

from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.status import Endpoints

LIMIT_S = 60
COMPRESSIONS = ["NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY"]


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "readonly_engine.command", "topic", *words]


class Tool:
    def __init__(self, pulsar: Endpoints) -> None:
        self.environment = {**os.environ, "PULSAR_READONLY_METADATA_STORE_URL": pulsar.metadata_store}

    def run(self, *words: str, status: int = 0) -> str:
        done = subprocess.run(command(*words), env=self.environment, capture_output=True, timeout=LIMIT_S, check=False)
        self.error = done.stderr.decode()
        self.bytes = done.stdout
        assert done.returncode == status, self.error
        return done.stdout.decode(errors="replace")

    def settle(self, *topics: str) -> None:
        """Wait until the bookies know that the last entries are confirmed: up to two intervals of explicit LAC later."""
        deadline = time.monotonic() + LIMIT_S
        while any("unconfirmed" in self.run("show", topic) for topic in topics):
            assert time.monotonic() < deadline, "the last entries are never confirmed"

    def read(self, *words: str) -> list[dict]:
        return [json.loads(line) for line in self.run("read", *words, "-o", "json").splitlines()]

    def start(self, *words: str, **options) -> subprocess.Popen:
        return subprocess.Popen(command(*words), env=self.environment, **options)


@pytest.fixture
def tool(pulsar: Endpoints) -> Tool:
    return Tool(pulsar)


def message_id(one: pulsar_lib.MessageId) -> str:
    text = f"{one.ledger_id()}:{one.entry_id()}"
    return text if one.batch_index() < 0 else f"{text}:{one.batch_index()}"


def send_all(client, topic: str, values: list[bytes], **options) -> list[str]:
    producer = client.create_producer(topic, **options)
    ids: list[tuple[int, str]] = []
    for number, value in enumerate(values):
        producer.send_async(
            value,
            lambda result, one, number=number: ids.append((number, message_id(one))),
            properties={"n": str(number)},
            partition_key=f"key-{number}",
            event_timestamp=1000 + number,
        )
    producer.flush()
    producer.close()
    return [one for _, one in sorted(ids)]


@pytest.mark.parametrize("batched", [False, True], ids=["unbatched", "batched"])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_compression_of_the_stock_client(
    tool: Tool, pulsar_client, topic: str, compression: str, batched: bool
) -> None:
    values = [b"value %d " % number * (number * 50) for number in range(20)]
    ids = send_all(
        pulsar_client, topic, values, batching_enabled=batched,
        compression_type=getattr(pulsar_lib.CompressionType, compression),
    )  # fmt: skip
    tool.settle(topic)
    got = tool.read(topic)
    assert [one["value"].encode() for one in got] == values
    assert [one["id"] for one in got] == ids
    assert [one["key"] for one in got] == [f"key-{n}" for n in range(20)]
    assert [one["properties"] for one in got] == [{"n": str(n)} for n in range(20)]
    assert [one["event_time"] for one in got] == [1000 + n for n in range(20)]
    assert {one.get("compression", "NONE") for one in got} == {compression.upper()}


def test_text_is_a_line_for_a_message(tool: Tool, pulsar_client, topic: str) -> None:
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    for value in (b"a line\nand \x1b[31mcolour", b"\xff\x00", b""):
        producer.send(value, properties={"a": "b"}, partition_key="k")
    tool.settle(topic)
    lines = tool.run("read", topic).splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == [
        r"key=k a=b a line\nand \x1b[31mcolour",
        "key=k a=b 0xff00",
        "key=k a=b ",
    ]
    assert [one.get("value_base64") for one in tool.read(topic)] == [None, base64.b64encode(b"\xff\x00").decode(), None]
    tool.run("read", topic, "-o", "raw")
    assert tool.bytes == b"a line\nand \x1b[31mcolour\xff\x00"


def test_chunks_are_joined_or_shown(tool: Tool, pulsar_client, topic: str) -> None:
    value = os.urandom(12 << 20)
    producer = pulsar_client.create_producer(
        topic, batching_enabled=False, chunking_enabled=True, compression_type=pulsar_lib.CompressionType.LZ4
    )
    sent = producer.send(value, partition_key="big")
    producer.send(b"small")
    tool.settle(topic)
    whole, small = tool.read(topic)
    assert base64.b64decode(whole["value_base64"]) == value
    assert (whole["note"], whole["key"], whole["chunks"]) == ("3 chunks", "big", 3)
    assert whole["id"] == f"{sent.ledger_id()}:{sent.entry_id()}"
    assert small["value"] == "small"
    parts = tool.run("read", topic, "--parts").splitlines()
    assert ["chunk 1 of 3" in parts[0], "chunk 2 of 3" in parts[1], "chunk 3 of 3" in parts[2]] == [True] * 3
    second = parts[1].split()[0]
    assert [one["value"] for one in tool.read(topic, "--from", second)] == ["small"]
    assert "incomplete chunked messages: 1; --parts" in tool.error


def test_where_to_begin_and_how_many(tool: Tool, pulsar_client, topic: str) -> None:
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    ids = [message_id(producer.send(b"%d" % number)) for number in range(150)]
    tool.settle(topic)
    every = tool.read(topic)
    assert [one["id"] for one in every] == ids
    assert [one["id"] for one in tool.read(topic, "--from", ids[120])] == ids[120:]
    assert [one["id"] for one in tool.read(topic, "--from", ids[7], "--count", "2")] == ids[7:9]
    when = every[60]["publish_time"]
    first = next(index for index, one in enumerate(every) if one["publish_time"] >= when)
    assert tool.read(topic, "--from", str(when), "--count", "1")[0]["id"] == ids[first]
    assert len(tool.read(topic, "--from", "1h")) == 150
    assert tool.read(topic, "--from", "2000-01-01", "--count", "1")[0]["id"] == ids[0]


@pytest.mark.nightly
def test_partitions_in_one_stream(tool: Tool, pulsar_client, admin: PulsarAdmin, topic: str) -> None:
    admin.create_partitioned_topic(topic, 3)
    producer = pulsar_client.create_producer(
        topic, batching_enabled=False, message_routing_mode=pulsar_lib.PartitionsRoutingMode.RoundRobinDistribution
    )
    for number in range(90):
        producer.send(b"%d" % number)
    tool.settle(*(f"{topic}-partition-{index}" for index in range(3)))
    got = tool.read(topic)
    assert sorted(int(one["value"]) for one in got) == list(range(90))
    assert [one["publish_time"] for one in got] == sorted(one["publish_time"] for one in got)
    assert {one["partition"] for one in got} == {0, 1, 2}
    one = tool.read(f"{topic}-partition-1")
    assert [each["value"] for each in one] == [each["value"] for each in got if each["partition"] == 1]
    assert "a position belongs to one partition" in (tool.run("read", topic, "--from", "1:0", status=1) or tool.error)
    shown = json.loads(tool.run("show", topic, "-o", "json"))
    assert [part["topic"] for part in shown] == [f"{topic}-partition-{n}" for n in range(3)]
    assert sum(part["entries"] for part in shown) == 90
    assert f"{topic}  3 partitions" in tool.run("ls", "public/default").splitlines()


def test_following_and_ctrl_c(tool: Tool, pulsar_client, admin: PulsarAdmin, topic: str) -> None:
    admin.create_partitioned_topic(topic, 2)
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    producer.send(b"before")
    reader = tool.start("read", topic, "--follow", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert reader.stdout.readline().endswith(" before\n")
        for number in range(6):
            producer.send(b"%d" % number)
            assert reader.stdout.readline().endswith(f" {number}\n")
        reader.send_signal(signal.SIGINT)
        out, error = reader.communicate(timeout=LIMIT_S)
        assert (out, error, reader.returncode) == ("", "", 130)
    finally:
        reader.kill()
        reader.wait()


@pytest.mark.nightly
def test_a_closed_pipe_ends_it_quietly(tool: Tool, pulsar_client, topic: str) -> None:
    send_all(pulsar_client, topic, [b"x" * 10_000] * 300, batching_enabled=False)
    done = subprocess.run(
        f"{' '.join(command('read', topic))} | head -n 1", shell=True, env=tool.environment, capture_output=True,
        timeout=LIMIT_S, check=True,
    )  # fmt: skip
    assert done.stdout.count(b"\n") == 1
    assert done.stderr == b""


def test_show_knows_what_the_owner_knows(tool: Tool, pulsar_client, admin: PulsarAdmin, topic: str) -> None:
    consumer = pulsar_client.subscribe(topic, "s", consumer_type=pulsar_lib.ConsumerType.Shared)
    ids = send_all(pulsar_client, topic, [b"x"] * 30, batching_enabled=False)
    for number in range(30):
        message = consumer.receive(20_000)
        if number < 5 or number in {10, 11, 20}:
            consumer.acknowledge(message)
    consumer.close()
    admin.unload(topic)
    # An owner writes seldom, so it need not have stored every ack: what it loads is what counts, for it and for the tool.
    deadline = time.monotonic() + LIMIT_S
    while True:
        owner = admin.internal_stats(topic)["cursors"]["s"]
        shown = json.loads(tool.run("show", topic, "-o", "json"))
        (one,) = shown["subscriptions"]
        if (one["mark_delete"], f"[{','.join(one['acked_ranges'])}]") == (
            owner["markDeletePosition"],
            owner["individuallyDeletedMessages"],
        ):
            break
        assert time.monotonic() < deadline, (one, owner)
    assert one["backlog"] == admin.stats(topic)["subscriptions"]["s"]["msgBacklog"]
    ledger = ids[0].split(":")[0]
    assert one["acked_ranges"] == [f"({ledger}:9..{ledger}:11]", f"({ledger}:19..{ledger}:20]"]
    assert (shown["first"], shown["last"], shown["entries"]) == (ids[0], ids[29], 30)
    assert shown["ledgers"][0]["state"] == "CLOSED"
    text = tool.run("show", topic)
    assert topic in text
    assert f"3 in ({ledger}:9..{ledger}:11] ({ledger}:19..{ledger}:20]" in text


def test_an_open_ledger_has_a_lac_and_its_bookies(tool: Tool, pulsar: Endpoints, pulsar_client, topic: str) -> None:
    send_all(pulsar_client, topic, [b"x"] * 10, batching_enabled=False)
    deadline = time.monotonic() + LIMIT_S
    while True:  # the explicit LAC comes a little later
        (ledger,) = json.loads(tool.run("show", topic, "-o", "json"))["ledgers"]
        if ledger["lac"] == 9:
            break
        assert time.monotonic() < deadline, ledger
    assert (ledger["state"], ledger["entries"], ledger["quorums"]) == ("OPEN", 10, "2/2/2")
    assert set(ledger["ensembles"][0]["bookies"]) <= set(pulsar.bookies)
    assert "OPEN (LAC 9)" in tool.run("show", topic)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["show", "non-persistent://public/default/x"], 1, "is not persistent, so it has no storage"),
        (["show", "public/default"], 1, "'public/default' is not a topic name"),
        (["show", "publik/default/x"], 1, "there is no namespace publik/default; existing: public/default"),
        (["ls", "publik/default"], 1, "there is no namespace publik/default; existing: public/default"),
        (["ls", "public"], 1, "the namespace must be TENANT/NAMESPACE, not 'public'"),
        (["read", "x", "--from", "yesterday"], 1, "--from yesterday: must be earliest, latest, LEDGER:ENTRY"),
        (["read", "x", "--from", "latest"], 1, "add --follow to wait for more"),
        (["read", "x", "--count", "0"], 2, "'0' must be a whole number above 0"),
        (["read", "x", "-o", "xml"], 2, "choose from"),
        (["ls", "--metadata-store-url", "localhost"], 1, "--metadata-store-url: must be zk:HOST:PORT"),
        (["ls", "--metadata-store-url", "zk:127.0.0.1:1"], 1, "--metadata-store-url: no ZooKeeper answers at 127.0.0.1:1"),
    ],
)  # fmt: skip
def test_mistakes_are_named(tool: Tool, words: list[str], status: int, says: str) -> None:
    assert tool.run(*words, status=status) == ""
    assert says in tool.error
    assert "Traceback" not in tool.error


@pytest.mark.nightly
def test_near_names_are_offered(tool: Tool, pulsar_client, topic: str) -> None:
    send_all(pulsar_client, topic, [b"x"])
    near = topic.removeprefix("persistent://public/default/")
    tool.run("read", topic[:-1], status=1)
    assert f"there is no topic {topic[:-1]}; similar: " in tool.error
    assert near in tool.error
