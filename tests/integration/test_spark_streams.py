"""Streams of the data source: exactly once into Parquet, whatever is killed; new partitions, rolls, limits."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pulsar as pulsar_lib
import pytest
from pyspark.errors import StreamingQueryException
from readonly_spark.errors import SourceError
from readonly_spark.options import parse_options
from readonly_spark.plan.admission import Limits
from readonly_spark.stream import StreamPlanner

from tests.integration.spark_driver import numbers, publish, read
from tests.integration.spark_session import needs_limits, stream
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from devstack.pulsar.cluster import PulsarCluster

DEADLINE_S: Final = 300
ROUND_ROBIN: Final = pulsar_lib.PartitionsRoutingMode.RoundRobinDistribution
ROOT: Final = Path(__file__).parents[2]

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
)


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


@pytest.mark.parametrize("named", [True, False], ids=["named", "pattern"])
@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_deleted_topic_is_noticed_by_a_spark_that_does_not_tell_where_a_micro_batch_begins(
    spark_stack, spark_client, fail: str, named: bool
) -> None:
    """Spark 4.0 and 4.1 tell it only with the tasks, also after a restart."""
    name = uuid.uuid4().hex[:8]
    kept, gone = (f"persistent://public/default/{word}-{name}" for word in ("kept", "gone"))
    publish(spark_client, kept, 0, 9)
    publish(spark_client, gone, 10, 19)
    topics = {"topics": f"{kept},{gone}"} if named else {"topicsPattern": f"public/default/(kept|gone)-{name}"}
    url = {"metadataStoreUrl": spark_stack.endpoints.metadata_store, "startingOffsets": "earliest"}
    options = parse_options({**url, **topics, "failOnDataLoss": fail}, streaming=True)

    first = StreamPlanner(options)
    try:
        start = first.start()
        wait_until(lambda: len(read(first.tasks(start, first.end(None, Limits())))) == 20, DEADLINE_S)
        end = first.end(None, Limits())
        assert first.end(None, Limits()) == end, "nothing has come"
    finally:
        first.close()
    spark_stack.admin().delete_topic(gone)
    publish(spark_client, kept, 20, 29)
    second = StreamPlanner(options)
    try:
        if fail == "true":
            with pytest.raises(SourceError, match=f"gone-{name}.*(deleted|does not exist)"):
                second.tasks(end, second.end(None, Limits()))
            return
        wait_until(lambda: read(second.tasks(end, second.end(None, Limits()))) == numbers(20, 29), DEADLINE_S)
        assert gone not in second.end(None, Limits())["t"]
    finally:
        second.close()


def wait_for(spark: SparkSession, query: StreamingQuery, folder: Path, count: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while len(table(spark, folder)) < count:
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, table(spark, folder)
        time.sleep(0.3)  # until the next micro-batch


PROGRAM: Final = """
import sys
from tests.integration.spark_session import local_spark
url, topic, folder = sys.argv[1:]
with local_spark() as spark:
    frame = spark.readStream.format("pulsar-readonly").options(
        metadataStoreUrl=url, topic=topic, startingOffsets="earliest", maxBytesPerTrigger="40k", maxBytesPerPartition="10k"
    ).load()
    print("started", flush=True)
    query = frame.writeStream.format("parquet").option("checkpointLocation", folder + "/checkpoint") \\
        .trigger(availableNow=True).start(folder + "/table")
    query.awaitTermination()
    print("ended", flush=True)
"""


class Driver:
    """A Spark driver in a process group of its own, which can be killed."""

    def __init__(self, stack: PulsarCluster, topic: str, folder: Path) -> None:
        arguments = [stack.endpoints.metadata_store, topic, str(folder)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(PROGRAM), *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )
        self.said: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        self.said.extend(line.strip() for line in self.process.stdout)

    def workers(self) -> list[int]:
        """The Python workers of its tasks: descendants that Spark's daemon forked."""
        group = self.process.pid
        found = []
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                if os.getpgid(int(folder.name)) == group and b"pyspark.daemon" in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
            except (OSError, ProcessLookupError):
                continue
        return found

    def kill(self) -> None:
        """End driver, JVM and workers at once."""
        with suppress(ProcessLookupError):  # it has read all that there was
            os.killpg(self.process.pid, signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        code = self.process.wait(DEADLINE_S)
        self._listener.join(10)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


def batches_written(folder: Path) -> int:
    log = folder / "table" / "_spark_metadata"
    return sum(re.fullmatch(r"\d+(\.compact)?", path.name) is not None for path in log.iterdir()) if log.exists() else 0


def kill_in_mid_batch(stack: PulsarCluster, topic: str, folder: Path, what: str) -> None:
    """Start a driver, let it write a batch, and kill it or one of its Python workers."""
    driver = Driver(stack, topic, folder)
    before = batches_written(folder)
    deadline = time.monotonic() + DEADLINE_S
    while batches_written(folder) == before and driver.process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)  # until it has written a batch
    if what == "driver":
        driver.kill()
        return
    for worker in driver.workers()[:1]:
        os.kill(worker, signal.SIGKILL)
    driver.wait()  # the task's failure ends a local query; or it was between two tasks, and the query ends well


@pytest.mark.slow
def test_each_message_is_in_the_table_exactly_once_whatever_is_killed(
    spark, spark_stack, spark_client, topic, tmp_path
) -> None:
    times, each, count = 10, 2000, 0
    for turn in range(times):
        for what in ("driver", "worker"):
            publish(spark_client, topic, count, count + each - 1, 5)
            count += each
            kill_in_mid_batch(spark_stack, topic, tmp_path, what)
            found = table(spark, tmp_path)
            assert found == sorted(set(found)), f"twice, after {what} was killed in turn {turn}"
    run_until(spark, stream(spark, spark_stack, topic), tmp_path, count)
    assert table(spark, tmp_path) == list(range(count))
