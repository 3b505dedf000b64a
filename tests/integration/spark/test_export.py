"""`pulsar-readonly export` on a real Pulsar and a real Spark: repeated micro-batches, continuous exports, decoded values."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pulsar.schema import AvroSchema, Integer, JsonSchema, Long, Record, String
from readonly_spark.export.destinations import Target
from readonly_spark.export.file_writer import FileWriter
from readonly_spark.export.iceberg import CATALOG_FILE
from readonly_spark.export.settings import ExportSettings
from readonly_spark.export.totals import Totals

from devstack.pulsar.cluster import PulsarCluster
from tests.integration.spark.export_process import DEADLINE_S, publish, values
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def settings(stack: PulsarCluster, topic: str, folder: Path, form: str, **more: Any) -> ExportSettings:
    source = {"metadataStoreUrl": stack.endpoints.metadata_store, "topics": topic, "startingOffsets": "earliest",
              **more.pop("source", {})}  # fmt: skip
    return ExportSettings(
        source=source, to=str(folder / "table"), checkpoint=str(folder / "checkpoint"), table_format=form, **more
    )


@pytest.fixture
def iceberg(spark_stack: PulsarCluster, topic: str, tmp_path: Path) -> ExportSettings:
    columns = {"columns": ("topic", "messageId", "value", "publishTime"), "partition_by": ("topic", "publishDate")}
    return settings(spark_stack, topic, tmp_path, "iceberg", source={"maxBytesPerTrigger": "8k"}, **columns)


@contextmanager
def started(spark: SparkSession, wanted: ExportSettings, totals: Totals | None = None) -> Iterator[Any]:
    """The query, and the listener of its progress."""
    from readonly_spark.export.session import start  # noqa: PLC0415
    from readonly_spark.export.table import ExportTable  # noqa: PLC0415
    from readonly_spark.lag.meter import LagMeter  # noqa: PLC0415 - only who needs Spark waits for it

    with LagMeter(wanted.source) as meter, ExportTable(wanted, meter.cluster()) as table:
        table.lock()
        table.open(spark)
        yield start(spark, wanted, table, totals or Totals())


def run(spark: SparkSession, wanted: ExportSettings) -> Totals:
    totals = Totals()
    with started(spark, wanted, totals) as (query, listener):
        query.awaitTermination()
        listener.wait()
    return totals


@pytest.mark.nightly
def test_iceberg_has_each_message_once_though_spark_repeats_a_batch(
    spark, spark_stack, spark_client, topic, iceberg, tmp_path
) -> None:
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415

    publish(spark_client, topic, 0, 600)
    messages = run(spark, iceberg).messages
    # As after a crash between the table's commit and Spark's own: the last micro-batch is run again.
    commits = tmp_path / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    assert last > 0, "several micro-batches"
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    run(spark, iceberg)
    publish(spark_client, topic, 600, 900)
    deadline = time.monotonic() + DEADLINE_S
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


def written(spark: SparkSession, wanted: ExportSettings, target: Target, rows: DataFrame) -> DataFrame:
    """The files of a micro-batch, as the tasks of an export write them."""
    from readonly_spark.export.file_source import FILES, layout_of  # noqa: PLC0415

    batches = rows.toArrow().to_batches()
    with FileWriter(layout_of(wanted, rows.schema, "snappy"), target.open(), rows.toArrow().schema, 0) as writer:
        for batch in batches:
            writer.write(batch)
        return spark.createDataFrame(writer.finish(), FILES)


def test_a_continuous_export_follows_its_topic(spark, spark_stack, spark_client, topic, tmp_path) -> None:
    publish(spark_client, topic, 0, 100)
    wanted = settings(spark_stack, topic, tmp_path, "parquet", trigger="continuous", interval_s=0.2, columns=("value",))
    with started(spark, wanted) as (query, _):
        try:
            for end in (100, 300):  # what is there, and what comes
                wait_until(lambda end=end: query.isActive and rows_in(spark, tmp_path / "table") >= end, DEADLINE_S)
                publish(spark_client, topic, end, 300)
        finally:
            query.stop()
    assert query.exception() is None
    assert values(tmp_path, "parquet") == list(range(300))


def rows_in(spark: SparkSession, table: Path) -> int:
    """Those that Spark's log of the table counts."""
    if not (table / "_spark_metadata").exists():
        return 0
    return spark.read.schema("value binary").parquet(str(table)).count()


@pytest.mark.parametrize(
    ("kind", "form"), [(JsonSchema, "parquet"), pytest.param(AvroSchema, "iceberg", marks=pytest.mark.slow)]
)
def test_decoded_values_are_columns_of_the_table_and_stay_so(
    spark, spark_stack, spark_client, topic, tmp_path, kind, form
) -> None:
    """A schema that grows between two runs does not change the table; a field that is new is left out."""
    for evolved in (False, True):
        fields = {
            "id": Long(required=True),
            "what": String(),
            **({"more": Integer(required_default=True)} if evolved else {}),
        }
        made = type("Order", (Record,), fields)
        producer = spark_client.create_producer(topic, schema=kind(made), batching_enabled=False)
        for number in range(20):
            producer.send(made(id=number + 20 * evolved, what=f"thing-{number}"))
        producer.close()
        wanted = settings(
            spark_stack, topic, tmp_path, form, source={"valueSchema": "auto"}, columns=("messageId", "value")
        )
        deadline = time.monotonic() + DEADLINE_S
        while len(found := decoded(spark, wanted, tmp_path, form)) < 20 * (1 + evolved):
            assert time.monotonic() < deadline  # the owner tells the bookies of the last ones a moment later
    assert found == [{"id": number, "what": f"thing-{number % 20}"} for number in range(40)]


def decoded(spark: SparkSession, wanted: ExportSettings, folder: Path, form: str) -> list[dict[str, Any]]:
    """Run once more; the values of the whole table."""
    run(spark, wanted)
    if form == "iceberg":
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415

        catalog = load_catalog("default", type="sql", uri=f"sqlite:///{folder}/table/{CATALOG_FILE}")
        if not catalog.table_exists("pulsar.messages"):
            return []
        found = catalog.load_table("pulsar.messages").scan().to_arrow()["value"].to_pylist()
    else:
        files = list((folder / "table").glob("part-*.parquet"))
        found = [value for file in files for value in pq.ParquetFile(file).read(columns=["value"])["value"].to_pylist()]
    return sorted(found, key=lambda value: value["id"])
