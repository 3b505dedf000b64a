"""Streams of the data source: limits, restarts, new partitions, rolls, and deleted topics."""

import time
import uuid
from pathlib import Path
from typing import Any, Final

import pulsar as pulsar_lib
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.support.pulsar.spark_driver import publish
from tests.support.pulsar.spark_session import needs_limits, stream

DEADLINE_S: Final = 300
ROUND_ROBIN: Final = pulsar_lib.PartitionsRoutingMode.RoundRobinDistribution


def start(frame: Any, folder: Path, **trigger: Any) -> StreamingQuery:
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(**trigger).start(str(folder / "table"))


def run(frame: Any, folder: Path) -> None:
    """All that is there now."""
    query = start(frame, folder, availableNow=True)
    assert query.awaitTermination(DEADLINE_S), "it continues for ever"


def read_table(spark: SparkSession, folder: Path) -> Any:
    return spark.read.schema("value binary, partition int, ledgerId bigint").parquet(str(folder / "table"))


def table(spark: SparkSession, folder: Path) -> list[int]:
    """The numbers of the messages in the table, as many times as they are there."""
    if not (folder / "table" / "_spark_metadata").exists():
        return []
    return sorted(int(row["value"][2:]) for row in read_table(spark, folder).select("value").collect())


def run_until(spark: SparkSession, frame: Any, folder: Path, count: int) -> None:
    """Run again until so many messages are in the table: the owner tells the bookies of the last ones a moment later."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        run(frame, folder)
        if len(table(spark, folder)) >= count:
            return
        assert time.monotonic() < deadline


@needs_limits
def test_micro_batches_have_limits_and_a_restart_goes_on(spark, spark_stack, spark_client, topic, tmp_path) -> None:
    publish(spark_client, topic, 0, 599, 3)
    limited = stream(spark, spark_stack, topic, maxBytesPerTrigger="8k")
    run_until(spark, limited, tmp_path, 600)
    publish(spark_client, topic, 600, 899, 3)
    run_until(spark, limited, tmp_path, 900)
    assert table(spark, tmp_path) == list(range(900))
    offsets = sorted(int(path.name) for path in (tmp_path / "checkpoint" / "offsets").iterdir() if path.name.isdigit())
    assert len(offsets) > 4, "each micro-batch has a part of it"


@pytest.mark.nightly
def test_new_partitions_and_rolls_in_mid_query(spark, spark_stack, spark_client, tmp_path) -> None:
    topic = f"persistent://public/default/growing-{uuid.uuid4().hex[:8]}"
    spark_stack.admin().create_partitioned_topic(topic, 1)
    publish(spark_client, topic, 0, 99, 2)
    query = start(stream(spark, spark_stack, topic), tmp_path, processingTime="200 milliseconds")
    try:
        wait_for(spark, query, tmp_path, 100)
        spark_stack.admin().update_partitions(topic, 3)
        publish(spark_client, topic, 100, 999, message_routing_mode=ROUND_ROBIN)  # over several ledgers
        wait_for(spark, query, tmp_path, 1000)
    finally:
        query.stop()
    assert table(spark, tmp_path) == list(range(1000))
    rows = read_table(spark, tmp_path)
    assert rows.select("partition").distinct().count() == 3
    assert rows.select("ledgerId").distinct().count() > 3


@pytest.mark.nightly
@pytest.mark.parametrize("named", [True, False], ids=["named", "pattern"])
@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_that_is_deleted(spark, spark_stack, spark_client, tmp_path, fail: str, named: bool) -> None:
    name = uuid.uuid4().hex[:8]
    kept, gone = (f"persistent://public/default/{word}-{name}" for word in ("kept", "gone"))
    publish(spark_client, kept, 0, 49)
    publish(spark_client, gone, 50, 99)
    topics = {"topics": f"{kept},{gone}"} if named else {"topicsPattern": f"public/default/(kept|gone)-{name}"}
    frame = stream(spark, spark_stack, "", failOnDataLoss=fail, **topics)
    run_until(spark, frame, tmp_path, 100)
    spark_stack.admin().delete_topic(gone)
    publish(spark_client, kept, 100, 149)
    if fail == "true":
        with pytest.raises(StreamingQueryException, match=f"gone-{name}"):
            run(frame, tmp_path)
        assert table(spark, tmp_path) == list(range(100))
        return
    run_until(spark, frame, tmp_path, 150)
    offsets = tmp_path / "checkpoint" / "offsets"
    newest = max(int(path.name) for path in offsets.iterdir() if path.name.isdigit())
    assert gone not in (offsets / str(newest)).read_text(), "checkpoints do not grow with deleted topics"
    publish(spark_client, gone, 150, 199)  # a new topic of the same name is read from its first message on
    run_until(spark, frame, tmp_path, 200)
    assert table(spark, tmp_path) == list(range(200))


def wait_for(spark: SparkSession, query: StreamingQuery, folder: Path, count: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while len(table(spark, folder)) < count:
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, table(spark, folder)
        time.sleep(0.3)  # until the next micro-batch
