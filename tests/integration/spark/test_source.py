"""Batches of the data source on a real Pulsar and in a real Spark: rows are what stock readers get."""

import json
import random
import uuid
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pulsar as pulsar_lib
import pytest
from readonly_spark.errors import SourceError

from devstack.pulsar.cluster import PulsarCluster
from longtests.oracle.publish import Publisher, make_keys
from longtests.oracle.workload import plan_rounds, plan_topics
from tests.support.pulsar.java_client import JavaClient
from tests.support.pulsar.spark_driver import Driver, numbers, publish, read_rows
from tests.support.pulsar.spark_session import batch, stream
from tests.support.topics import create_settled_topic
from tests.support.waiting import wait_until

DEADLINE_S: Final = 180

# Against a stock reader


def read_stock(client: pulsar_lib.Client, log: str, keys: pulsar_lib.CryptoKeyReader) -> dict[str, tuple]:
    """Every message that a stock reader gets, by its id: the last one of each id, for chunks have no two.

    The client discards an empty message that was compressed by ZLIB. As the last one it is available, and never read.
    """
    found = {}
    reader = client.create_reader(log, pulsar_lib.MessageId.earliest, crypto_key_reader=keys)
    while reader.has_message_available():
        try:
            message = reader.read_next(20_000)
        except pulsar_lib.Timeout:
            break  # compare() fails if anything else is missing
        ids = message.message_id()
        index = f":{ids.batch_index()}" if ids.batch_index() >= 0 else ""
        found[f"{ids.ledger_id()}:{ids.entry_id()}:{ids.partition()}{index}"] = (
            message.data(),
            message.properties(),
            message.partition_key() or None,
            message.ordering_key() or None,
            message.event_timestamp() or None,
            message.publish_timestamp(),
        )
    reader.close()
    return found


def ms(moment: Any) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


def text(found: bytes | None) -> str | None:
    return None if found is None else bytes(found).decode()


def entry_of(key: tuple[str, str]) -> tuple[str, ...]:
    return (key[0], *key[1].split(":")[:2])


def compare(expected: dict[tuple[str, str], Any], found: list[Any]) -> tuple[int, int]:
    """Rows against the messages of a stock reader; returns how many there are, and how many encrypted entries."""
    rows: dict[tuple[str, str], Any] = {}
    sealed = set()
    entries = {entry_of(key) for key in expected}
    for row in found:
        log = row["topic"] if row["partition"] is None else f"{row['topic']}-partition-{row['partition']}"
        key = (log, row["messageId"])
        assert key not in rows, "each message once"
        if row["encryption"] is not None:
            sealed.add(entry_of(key))
            how = row["encryption"]
            # A stock reader names the last chunk, and throws away what ZLIB made of nothing.
            if how["uncompressedSize"] and (how["chunks"] is None or how["chunkId"] == how["chunks"] - 1):
                assert entry_of(key) in entries
            continue
        rows[key] = (
            bytes(row["value"]),
            dict(row["properties"]),
            text(row["key"]) or None,
            text(row["orderingKey"]) or None,
            ms(row["eventTime"]),
            ms(row["publishTime"]),
        )
    plain = {key: value for key, value in expected.items() if entry_of(key) not in sealed}
    assert plain.keys() <= rows.keys()
    # The C++ client throws an empty message away that was compressed by ZLIB.
    assert {rows[key][0] for key in rows.keys() - plain.keys()} <= {b""}
    assert [key for key in plain if rows[key] != plain[key]] == []
    return len(rows), len(sealed)


def write_workload(stack: PulsarCluster, folder: Path, seed: int, topics: int, entries: int) -> tuple[list[Any], Any]:
    """Random topics, and the keys of what is encrypted in them."""
    rng = random.Random(seed)
    namespace = f"public/spark-{seed}"
    stack.admin().create_namespace(namespace)
    planned = [replace(one, transactional=False, compacted=False) for one in plan_topics(rng, namespace, topics)]
    for one in planned:
        if one.partitions:
            stack.admin().create_partitioned_topic(one.name, one.partitions)
    keys = make_keys(folder)
    with closing(Publisher(stack.endpoints.writer_url, keys, folder / "client.log")) as publisher:
        for rounds in plan_rounds(rng, planned, entries):
            publisher.publish(rounds, lambda _: None)
    return planned, keys


def stock_messages(client: pulsar_lib.Client, plan: Any, keys: Any) -> dict[tuple[str, str], Any]:
    return {(log, key): value for log in plan.logs for key, value in read_stock(client, log, keys).items()}


def all_there(driver: Driver, expected: dict[tuple[str, str], Any]) -> None:
    """Wait until every entry that the stock reader got can be read: the owner tells the bookies a moment later."""
    wanted: dict[str, tuple[int, int]] = {}
    for log, key in expected:
        ledger, entry = map(int, key.split(":")[:2])
        wanted[log] = max(wanted.get(log, (-1, -1)), (ledger, entry))
    wait_until(
        lambda: all(state.latest > wanted.get(name, (-1, -1)) for name, state in driver.states().items()), DEADLINE_S
    )


def test_rows_equal_what_a_stock_reader_gets(spark_stack: PulsarCluster, spark_client, driver, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 31)
    topics, keys = write_workload(spark_stack, tmp_path, seed, 3, 300)
    for topic in topics:
        expected = stock_messages(spark_client, topic, keys)
        reading = driver(topic.name, maxBytesPerPartition="300k", batchBytes="256k")
        all_there(reading, expected)
        rows, sealed = compare(expected, read_rows(reading.tasks()))
        assert rows + sealed > 20, f"seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("streaming", [False, True])
def test_rows_equal_what_a_stock_reader_gets_in_spark(
    spark, spark_stack: PulsarCluster, spark_client, driver, tmp_path: Path, streaming
) -> None:
    """The long form: ten random topics, as a batch, and as a stream into a table."""
    seed = random.SystemRandom().randrange(1 << 31)
    topics, keys = write_workload(spark_stack, tmp_path, seed, 10, 3000)
    for topic in topics:
        expected = stock_messages(spark_client, topic, keys)
        all_there(driver(topic.name), expected)
        if streaming:
            folder = tmp_path / uuid.uuid4().hex
            frame = stream(spark, spark_stack, topic.name, maxBytesPerTrigger="4m")
            writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
            query = writer.trigger(availableNow=True).start(str(folder / "table"))
            assert query.awaitTermination(10 * DEADLINE_S)
            rows = spark.read.schema(frame.schema).parquet(str(folder / "table")).collect()
        else:
            rows = batch(spark, spark_stack, topic.name, maxBytesPerPartition="1m").collect()
        assert sum(compare(expected, rows)) > 20, f"seed {seed}"


# What is read


def test_ranges_by_message_id_and_by_time(spark_stack, spark_client, driver, topic) -> None:
    publish(spark_client, topic, 0, 98, 3)
    driver(topic).await_values(numbers(0, 98))
    rows = read_rows(driver(topic).tasks())
    middle = next(row for row in rows if row["value"] == b"m-52")
    earlier, later = (
        driver(topic, **{option: json.dumps({topic: middle["messageId"]})}).values()
        for option in ("endingOffsets", "startingOffsets")
    )
    assert (earlier, later) == (numbers(0, 51), numbers(52, 98)), "within a batch"
    assert driver(topic, startingOffsets="latest").values() == []
    since = str(round(rows[-1]["publishTime"].timestamp() * 1000) + 1)
    publish(spark_client, topic, 99, 120, 3)
    driver(topic).await_values(numbers(0, 120))
    assert driver(topic, startingTimestamp=since).values() == numbers(99, 120)
    assert driver(topic, endingTimestamp=since).values() == numbers(0, 98)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("offsets", "told"),
    [
        ({"x": "earliest"}, "startingOffsets names persistent://public/default/x, which is not read"),
        (
            {"{topic}-partition-0": "earliest"},
            "startingOffsets does not name .*-partition-1; name every topic",
        ),
    ],
)
def test_offsets_must_name_what_is_read(spark_stack, spark_client, driver, topic, offsets, told) -> None:
    spark_stack.admin().create_partitioned_topic(topic, 2)
    publish(spark_client, topic, 0, 9, message_routing_mode=pulsar_lib.PartitionsRoutingMode.RoundRobinDistribution)
    named = json.dumps({name.format(topic=topic): where for name, where in offsets.items()})
    with pytest.raises(SourceError, match=told):
        driver(topic, startingOffsets=named).tasks()


def test_topics_by_pattern(spark_stack, spark_client, driver) -> None:
    base = f"persistent://public/default/pattern-{uuid.uuid4().hex[:8]}"
    spark_stack.admin().create_partitioned_topic(f"{base}-parts", 2)
    publish(
        spark_client,
        f"{base}-parts",
        0,
        20,
        3,
        message_routing_mode=pulsar_lib.PartitionsRoutingMode.RoundRobinDistribution,
    )
    publish(spark_client, f"{base}-plain", 21, 30)
    publish(spark_client, f"{base}-other", 31, 40)
    chosen = driver("", topicsPattern=f"{base}-(parts|plain)")
    wait_until(lambda: len(chosen.values()) == 31, DEADLINE_S)
    rows = read_rows(chosen.tasks())
    assert {row["topic"] for row in rows} == {f"{base}-parts", f"{base}-plain"}
    assert {row["partition"] for row in rows} == {0, 1, None}
    assert sorted(int(row["value"][2:]) for row in rows) == list(range(31))
    assert driver("", topicsPattern="public/default/none-.*").values() == []


def test_only_committed_messages_and_nothing_from_an_open_transaction_on(spark_stack, driver, topic) -> None:
    with JavaClient(spark_stack, spark_stack.endpoints.writer_url) as java:
        java.do("send", topic, "-", "plain")
        for outcome in ("abort", "commit"):
            java.do("begin", "a", 300)
            for number in range(120):  # over more than one ledger
                java.do("send", topic, "a", f"{outcome}-{number}")
            java.do(outcome, "a")
        java.do("begin", "open", 300)
        java.do("send", topic, "open", "open")
        java.do("send", topic, "-", "behind")
        expected = ["plain", *(f"commit-{number}" for number in range(120))]
        reading = driver(topic)
        reading.await_values(expected)
        java.do("commit", "open")
        reading.await_values([*expected, "open", "behind"])
        driver(topic).await_values([*expected, "open", "behind"])


def test_the_compacted_view(spark_stack, spark_client, driver, topic) -> None:
    create_settled_topic(spark_stack.admin(), topic)
    producer = spark_client.create_producer(topic, batching_enabled=True, batching_max_messages=4)
    for number in range(200):
        producer.send_async(f"m-{number}".encode(), None, partition_key=f"k-{number % 10}")
    producer.flush()
    spark_stack.admin().compact(topic)
    compacted = driver(topic, readCompacted="true")
    compacted.await_values(numbers(190, 199))
    producer.send(b"m-200", partition_key="k-0")
    producer.close()
    compacted.await_values(numbers(190, 200))
    assert len(driver(topic).values()) == 201


def test_a_topic_that_is_not_there(driver) -> None:
    with pytest.raises(SourceError, match="topic persistent://public/default/no-such-topic does not exist"):
        driver("no-such-topic").tasks()


@pytest.mark.nightly
def test_errors_and_projections_in_spark(spark, spark_stack, spark_client, topic) -> None:
    with pytest.raises(Exception, match="unknown option 'subscription'"):
        batch(spark, spark_stack, topic, subscription="s").count()
    publish(spark_client, topic, 0, 1)
    with pytest.raises(Exception, match="unknown column 'payload'"):
        batch(spark, spark_stack, topic, columns="payload binary").count()
    narrow = batch(spark, spark_stack, topic, columns="value binary, sequenceId bigint")
    wait_until(lambda: sorted(narrow.collect()) == [(b"m-0", 0), (b"m-1", 1)], DEADLINE_S)
