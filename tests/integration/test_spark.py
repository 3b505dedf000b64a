"""Batches of the data source on a real Pulsar and in a real Spark: rows are what stock readers get."""

from __future__ import annotations

import json
import random
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pulsar as pulsar_lib
import pytest
from readonly_spark.errors import SourceError

from tests.integration.java_client import JavaClient
from tests.integration.spark_driver import Driver, numbers, publish, read, read_rows
from tests.integration.spark_session import batch
from tests.oracle.publish import Publisher, make_keys
from tests.oracle.workload import plan_rounds, plan_topics

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from devstack.pulsar.cluster import PulsarCluster

DEADLINE_S: Final = 60

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
)


@pytest.fixture(scope="module")
def client(spark_stack: PulsarCluster) -> Iterator[pulsar_lib.Client]:
    client = pulsar_lib.Client(
        spark_stack.endpoints.writer_url, logger=pulsar_lib.ConsoleLogger(pulsar_lib.LoggerLevel.Error)
    )
    yield client
    client.close()


@pytest.fixture
def driver(spark_stack: PulsarCluster) -> Iterator[Any]:
    made = []

    def make(topic: str, **options: str) -> Driver:
        made.append(Driver(spark_stack, topic, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def eventually(check: Any) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.1)  # nobody tells


# Against a stock reader


def read_stock(client: pulsar_lib.Client, log: str, keys: pulsar_lib.CryptoKeyReader) -> dict[str, tuple]:
    """Every message that a stock reader gets, by its id: the last one of each id, for chunks have no two."""
    found = {}
    reader = client.create_reader(log, pulsar_lib.MessageId.earliest, crypto_key_reader=keys)
    while reader.has_message_available():
        message = reader.read_next(20_000)
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


def compare_with_stock(
    spark: SparkSession, stack: PulsarCluster, client: pulsar_lib.Client, plan: Any, keys: Any, **options: Any
) -> tuple[int, int]:
    """All rows of a planned topic against all messages of a stock reader; returns how many, and how many encrypted entries."""
    expected = {}
    for log in plan.logs:
        expected.update({(log, key): value for key, value in read_stock(client, log, keys).items()})
    rows, sealed = {}, set()

    def take() -> bool:
        rows.clear()
        sealed.clear()
        for row in batch(spark, stack, plan.name, **options).collect():
            log = row["topic"] if row["partition"] is None else f"{row['topic']}-partition-{row['partition']}"
            if row["encryption"] is not None:
                sealed.add((log, row["messageId"]))
                continue
            assert (log, row["messageId"]) not in rows, "each message once"
            rows[log, row["messageId"]] = (
                bytes(row["value"]),
                row["properties"],
                text(row["key"]) or None,
                text(row["orderingKey"]) or None,
                ms(row["eventTime"]),
                ms(row["publishTime"]),
            )
        there = entries_of(rows, sealed)
        return all(entry_of(key) in there for key in expected)

    eventually(take)
    entries = {entry_of(key) for key in sealed}
    plain = {key: value for key, value in expected.items() if entry_of(key) not in entries}
    assert plain.keys() <= rows.keys()
    # The C++ client throws an empty message away that was compressed by ZLIB.
    assert {rows[key][0] for key in rows.keys() - plain.keys()} <= {b""}
    assert [key for key in plain if rows[key] != plain[key]] == []
    assert entries <= {entry_of(key) for key in expected}
    return len(rows), len(sealed)


def entry_of(key: tuple[str, str]) -> tuple[str, ...]:
    return (key[0], *key[1].split(":")[:2])


def entries_of(*found: Any) -> set[tuple[str, ...]]:
    return {entry_of(key) for keys in found for key in keys}


def test_rows_equal_what_a_stock_reader_gets(spark, spark_stack: PulsarCluster, client, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 31)
    rng = random.Random(seed)
    namespace = f"public/spark-{seed}"
    spark_stack.admin().create_namespace(namespace)
    topics = [replace(topic, transactional=False, compacted=False) for topic in plan_topics(rng, namespace, 4)[:3]]
    for topic in topics:
        if topic.partitions:
            spark_stack.admin().create_partitioned_topic(topic.name, topic.partitions)
    keys = make_keys(tmp_path)
    publisher = Publisher(spark_stack.endpoints.writer_url, keys, tmp_path / "client.log")
    try:
        for rounds in plan_rounds(rng, topics, 300):
            publisher.publish(rounds, lambda _: None)
    finally:
        publisher.close()
    options = {"maxBytesPerPartition": "300k", "batchBytes": "256k"}
    for topic in topics:
        rows, sealed = compare_with_stock(spark, spark_stack, client, topic, keys, **options)
        assert rows + sealed > 20, f"seed {seed}"


# What is read


def test_ranges_by_message_id_and_by_time(spark_stack, client, driver, topic) -> None:
    publish(client, topic, 0, 98, 3)
    driver(topic).await_values(numbers(0, 98))
    rows = read_rows(driver(topic).work())
    middle = next(row for row in rows if row["value"] == b"m-52")
    earlier, later = (
        driver(topic, **{option: json.dumps({topic: middle["messageId"]})}).values()
        for option in ("endingOffsets", "startingOffsets")
    )
    assert earlier + later == numbers(0, 98)
    assert later[0] == "m-51", "a batch of three is not cut"
    assert driver(topic, startingOffsets="latest").values() == []
    since = str(round(rows[-1]["publishTime"].timestamp() * 1000) + 1)
    publish(client, topic, 99, 120, 3)
    driver(topic).await_values(numbers(0, 120))
    assert driver(topic, startingTimestamp=since).values() == numbers(99, 120)
    assert driver(topic, endingTimestamp=since).values() == numbers(0, 98)


def test_offsets_must_name_what_is_read(client, driver, topic) -> None:
    publish(client, topic, 0, 0)
    for offsets, told in (
        ({"x": "earliest"}, "startingOffsets names persistent://public/default/x"),
        ({topic: "earliest", "x": "1:1"}, ""),
    ):
        with pytest.raises(SourceError, match=told):
            driver(topic, startingOffsets=json.dumps(offsets)).work()


@pytest.mark.parametrize(
    ("options", "least"),
    [({"minPartitions": "7"}, 7), ({"maxBytesPerPartition": "2000"}, 8), ({"maxRecordsPerPartition": "90"}, 9)],
)
def test_a_topic_is_cut_into_tasks(client, driver, topic, options, least) -> None:
    publish(client, topic, 0, 899, 3)
    driver(topic).await_values(numbers(0, 899))
    works = driver(topic, **options).work()
    assert len(works) >= least
    assert read(works) == numbers(0, 899)


def test_topics_by_pattern(spark_stack, client, driver) -> None:
    base = f"persistent://public/default/pattern-{uuid.uuid4().hex[:8]}"
    spark_stack.admin().create_partitioned_topic(f"{base}-parts", 2)
    publish(
        client, f"{base}-parts", 0, 20, 3, message_routing_mode=pulsar_lib.PartitionsRoutingMode.RoundRobinDistribution
    )
    publish(client, f"{base}-plain", 21, 30)
    publish(client, f"{base}-other", 31, 40)
    chosen = driver("", topicsPattern=f"{base}-(parts|plain)")
    eventually(lambda: len(chosen.values()) == 31)
    rows = read_rows(chosen.work())
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


def test_the_compacted_view(spark_stack, client, driver, topic) -> None:
    producer = client.create_producer(topic, batching_enabled=True, batching_max_messages=4)
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
    with pytest.raises(SourceError, match="there is no topic persistent://public/default/no-such-topic"):
        driver("no-such-topic").work()


def test_errors_and_projections_in_spark(spark, spark_stack, client, topic) -> None:
    with pytest.raises(Exception, match="unknown option 'subscription'"):
        batch(spark, spark_stack, topic, subscription="s").count()
    publish(client, topic, 0, 1)
    with pytest.raises(Exception, match="there is no column 'payload'"):
        batch(spark, spark_stack, topic, columns="payload binary").count()
    narrow = batch(spark, spark_stack, topic, columns="value binary, sequenceId bigint")
    eventually(lambda: sorted(narrow.collect()) == [(b"m-0", 0), (b"m-1", 1)])
