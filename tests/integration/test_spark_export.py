"""`pulsar-readonly export` on a real Pulsar and a real Spark: tables of three formats, killed and started again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pulsar as pulsar_lib
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from readonly_spark.export.checkpoint import Checkpoint
from readonly_spark.export.iceberg import CATALOG_FILE
from readonly_spark.export.leftovers import remove_leftovers
from readonly_spark.export.settings import ExportSettings
from readonly_spark.export.totals import Totals

from devstack.jars.fetch import ensure_jars

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from devstack.pulsar.cluster import PulsarCluster

ROOT: Final = Path(__file__).parents[2]
DEADLINE_S: Final = 400
PASSED: Final = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
)

pytestmark = PASSED


@pytest.fixture(scope="module")
def client(spark_stack: PulsarCluster) -> Iterator[pulsar_lib.Client]:
    client = pulsar_lib.Client(
        spark_stack.endpoints.writer_url, logger=pulsar_lib.ConsoleLogger(pulsar_lib.LoggerLevel.Error)
    )
    yield client
    client.close()


def publish(client: pulsar_lib.Client, topic: str, first: int, end: int) -> None:
    producer = client.create_producer(topic, batching_enabled=True, batching_max_messages=5, block_if_queue_full=True)
    for number in range(first, end):
        producer.send_async(str(number).encode(), None, partition_key=str(number % 3))
    producer.flush()
    producer.close()


class Export:
    """The command in a process group of its own."""

    def __init__(self, stack: PulsarCluster, topic: str, folder: Path, form: str, *options: str) -> None:
        self.folder = folder
        self.form = form
        words = [
            sys.executable,
            "-m",
            "readonly_engine.command",
            "export",
            "--topics",
            topic,
            "--to",
            str(folder / "table"),
        ]
        words += ["--metadata-store", stack.endpoints.metadata_store, "--format", form, "-o", "json"]
        words += ["--jars", str(ensure_jars("delta")), "--master", "local[2]", "--option", "maxBytesPerPartition=10k"]
        words += ["--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1", "--conf", "spark.driver.memory=1g"]
        words += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
        self.errors = folder / f"errors-{time.monotonic_ns()}"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*words, *options], cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, start_new_session=True, text=True
            )

    def commits(self) -> int:
        folder = self.folder / "table" / "_checkpoint" / "commits"
        return sum(path.name.isdigit() for path in folder.iterdir()) if folder.exists() else 0

    def until_it_has_committed(self) -> None:
        before, deadline = self.commits(), time.monotonic() + DEADLINE_S
        while self.commits() == before and self.process.poll() is None:
            assert time.monotonic() < deadline, self.errors.read_text()[-2000:]
            time.sleep(0.05)  # until it has ended a micro-batch

    def workers(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            try:
                mine = entry.name.isdigit() and os.getpgid(int(entry.name)) == self.process.pid
                if mine and b"pyspark.daemon" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=60)

    def end(self) -> dict[str, Any]:
        try:
            said, _ = self.process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(self.errors.read_text()[-2000:]) from None
        assert self.process.returncode == 0, self.errors.read_text()[-2000:]
        return json.loads(said.splitlines()[-1])


def values(folder: Path, form: str) -> list[int]:
    """What is in a table, read by no code of Spark or Delta."""
    table = folder / "table"
    if form == "delta":
        live: set[str] = set()
        for log in sorted((table / "_delta_log").glob("*.json")):
            for action in map(json.loads, log.read_text().splitlines()):
                live |= {unquote(action["add"]["path"])} if "add" in action else set()
                live -= {unquote(action["remove"]["path"])} if "remove" in action else set()
        files = [table / name for name in live]
    else:
        remove_leftovers(table)
        files = [path for path in table.rglob("part-*.parquet") if "_checkpoint" not in path.parts]
    tables = [pq.ParquetFile(file).read(columns=["value"]) for file in files]
    return sorted(int(value) for table in tables for value in table["value"].to_pylist())


def kill_in_mid_batch(export: Export, what: str) -> None:
    export.until_it_has_committed()
    if what == "worker":
        for worker in export.workers()[:1]:
            os.kill(worker, signal.SIGKILL)
        export.process.communicate(timeout=DEADLINE_S)  # a failed task ends a local query
        return
    export.kill()


@pytest.mark.slow
@pytest.mark.parametrize(("form", "times"), [("delta", 1), ("parquet", 10), ("delta", 10)])
def test_killed_exports_go_on_and_each_message_is_there_once(spark_stack, client, topic, tmp_path, form, times) -> None:
    count = 3000 * (times + 1)
    publish(client, topic, 0, count)
    options = ("--max-bytes-per-batch", "30k", "--partition-by", "publishDate")
    for turn in range(times):
        export = Export(spark_stack, topic, tmp_path, form, *options)
        if turn == 0:
            export.until_it_has_committed()
            other = Export(spark_stack, topic, tmp_path, form, *options)
            assert other.process.wait(DEADLINE_S) == 1
            assert "is in use by another export" in other.errors.read_text()
        kill_in_mid_batch(export, random.choice(("driver", "worker")) if turn else "driver")
    Export(spark_stack, topic, tmp_path, form, "--partition-by", "publishDate").end()
    assert values(tmp_path, form) == list(range(count))


@pytest.fixture
def iceberg(spark_stack: PulsarCluster, topic: str, tmp_path: Path) -> ExportSettings:
    return ExportSettings(
        source={"metadataUrl": spark_stack.endpoints.metadata_store, "topics": topic, "startingOffsets": "earliest",
                "maxBytesPerTrigger": "8k"},
        to=str(tmp_path / "table"), checkpoint=str(tmp_path / "checkpoint"), table_format="iceberg",
        columns=("topic", "messageId", "value", "publishTime"), partition_by=("topic", "publishDate"),
    )  # fmt: skip


def run(spark: SparkSession, settings: ExportSettings) -> Totals:
    from readonly_spark.export.session import start  # noqa: PLC0415 - only who needs Spark waits for it

    totals = Totals()
    with Checkpoint(settings) as checkpoint:
        query, counted = start(spark, settings, checkpoint)
        query.awaitTermination()
    for progress in query.recentProgress:
        totals.add(json.loads(progress.json), counted)
    return totals


def test_iceberg_has_each_message_once_though_spark_repeats_a_batch(
    spark, spark_stack, client, topic, iceberg, tmp_path
) -> None:
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415

    publish(client, topic, 0, 600)
    messages = run(spark, iceberg).messages
    # As after a crash between the table's commit and Spark's own: the last micro-batch is run again.
    commits = tmp_path / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    assert last > 0, "several micro-batches"
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    run(spark, iceberg)
    publish(client, topic, 600, 900)
    deadline = time.monotonic() + 60
    while True:
        run(spark, iceberg)
        catalog = load_catalog("default", type="sql", uri=f"sqlite:///{tmp_path}/table/{CATALOG_FILE}")
        found: pa.Table = catalog.load_table("pulsar.messages").scan().to_arrow()
        if found.num_rows >= 900:
            break
        assert time.monotonic() < deadline  # the owner tells the bookies of the last ones a moment later
    assert 0 < messages <= 600
    assert sorted(map(int, found["value"].to_pylist())) == list(range(900))
    assert found.column_names == ["topic", "messageId", "value", "publishTime", "publishDate"]
    of_another_topic = catalog.load_table("pulsar.messages").scan(row_filter=f"topic == '{topic}x'").to_arrow()
    assert of_another_topic.num_rows == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--topics", "a"], "--metadata-store is missing"),
        (["--topics", "a", "--metadata-store", "zk:127.0.0.1:1", "--columns", "x"], "there is no column 'x'"),
    ],
)
def test_wrong_options_are_told_before_spark_starts(tmp_path, options, told) -> None:
    words = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "readonly_engine.command",
        "export",
        "--to",
        str(tmp_path),
        *options,
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PULSAR_READONLY")}
    ran = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1
    assert told in ran.stderr
    assert " pyspark\n" not in ran.stderr
