"""Parquet files that tasks of an export write, beside those of Spark's own writer from the same topic."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pulsar.schema import AvroSchema, Double, Long, Map, Record, String
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from readonly_spark.export.errors import ExportError
from readonly_spark.export.file_source import CODEC, FILES, layout_of
from readonly_spark.export.file_writer import CODECS, SPARK_SCHEMA, FileWriter
from readonly_spark.export.files import LocalFiles
from readonly_spark.export.marker import STAGING
from readonly_spark.export.partitions import folder_of
from readonly_spark.export.settings import DERIVED, ExportSettings

from tests.integration.spark.export_process import DEADLINE_S
from tests.integration.spark.test_export_state import earlier_version, run

NAMES = ("plain", "a/b=c:d", "ä 'quoted' [1] 100%", "tab\there")
"""Of producers, which are folders of the table."""

CHECKPOINT = "0b1f8a8e-7c3c-4f2e-9b53-0d3f1e0d8a11"


class Order(Record):
    id = Long(required=True)
    what = String()
    price = Double()
    tags = Map(String())


@pytest.fixture(params=["raw", "auto"])
def wanted(request, spark_stack, spark_client, topic, tmp_path) -> ExportSettings:
    """An export of messages of all kinds."""
    for number, name in enumerate(NAMES):
        how: dict[str, Any] = {"producer_name": name, "batching_enabled": bool(number % 2)}
        if request.param == "auto":
            producer = spark_client.create_producer(topic, schema=AvroSchema(Order), **how)
            for one in range(5):
                producer.send(Order(id=one, what=name if one else None, price=one / 3, tags={"a": "1"} if one else {}))
        else:
            producer = spark_client.create_producer(topic, **how)
            for one in range(5):
                producer.send_async(
                    b"\xff" * one, None, partition_key=str(one), properties={"b": "2", "a": ""} if one else {},
                    event_timestamp=1_700_000_000_001 * (one % 2), ordering_key="o" if one == 3 else None,
                )  # fmt: skip
            producer.flush()
        producer.close()
    source = {"metadataStoreUrl": spark_stack.endpoints.metadata_store, "topics": topic, "startingOffsets": "earliest"}
    return ExportSettings(
        source={**source, "valueSchema": request.param}, to=str(tmp_path / "table"),
        checkpoint=str(tmp_path / "checkpoint"), partition_by=("producerName", "publishDate", "batchIndex"),
    )  # fmt: skip


def by_spark(spark: SparkSession, wanted: ExportSettings) -> DataFrame:
    """The rows of the topic as the table has them."""
    source = {name: value for name, value in wanted.source.items() if name != "startingOffsets"}
    rows = spark.read.format("pulsar-readonly").options(**source).load()
    return rows.selectExpr(
        *(f"{DERIVED[name]} AS {name}" if name in DERIVED else name for name in wanted.table_columns)
    )


def until_all(spark: SparkSession, wanted: ExportSettings, count: int) -> DataFrame:
    """Export, again where the owner had not told the bookies of the last messages yet; the table as Spark reads it."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        run(spark, wanted)
        table = spark.read.parquet(wanted.to)
        if table.count() >= count:
            return table
        assert time.monotonic() < deadline


def folders(table: Path) -> set[str]:
    return {
        str(path.parent.relative_to(table))
        for path in table.rglob("*.parquet")
        if not path.relative_to(table).parts[0].startswith("_")
    }


def columns_of(table: Path) -> set[tuple[Any, ...]]:
    """The physical columns of the files of a table, and Spark's own schema in their footers."""
    found = set()
    for path in table.rglob("*.parquet"):
        parquet = pq.ParquetFile(path)
        own = json.dumps(json.loads(parquet.metadata.metadata[SPARK_SCHEMA.encode()]), sort_keys=True)
        found.add((str(parquet.schema.to_arrow_schema().remove_metadata()), own))
        for index in range(len(parquet.schema)):
            one = parquet.schema.column(index)
            found.add((one.path, one.physical_type, str(one.logical_type), one.max_definition_level))
    return found


def test_rows_folders_and_columns_are_those_of_sparks_own_writer(spark, wanted, tmp_path) -> None:
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")  # as in the session of an export
    table = until_all(spark, wanted, 5 * len(NAMES))
    other = tmp_path / "spark"
    by_spark(spark, wanted).write.partitionBy(*wanted.partition_by).parquet(str(other))
    expected = spark.read.parquet(str(other))
    assert table.schema == expected.schema
    rows, others = (sorted(map(str, frame.collect())) for frame in (table, expected))
    assert rows == others
    assert len(rows) == 5 * len(NAMES)
    assert folders(tmp_path / "table") == folders(other)
    assert columns_of(tmp_path / "table") == columns_of(other)


@pytest.mark.parametrize("wanted", ["raw"], indirect=True)
def test_sparks_own_sink_goes_on_with_the_table(spark, spark_client, wanted, topic) -> None:
    wanted = replace(wanted, partition_by=())
    until_all(spark, wanted, 5 * len(NAMES))
    producer = spark_client.create_producer(topic)
    producer.send(b"last")
    producer.close()
    deadline = time.monotonic() + DEADLINE_S
    while spark.read.parquet(wanted.to).where("value = 'last'").count() < 1:
        earlier_version(spark, wanted, wanted.checkpoint)
        assert time.monotonic() < deadline
    assert spark.read.parquet(wanted.to).count() == 5 * len(NAMES) + 1


def test_files_of_a_task_that_ran_twice_or_failed_are_not_in_the_table(spark, tmp_path) -> None:
    from readonly_spark.export.parquet import ParquetTable  # noqa: PLC0415 - only who needs Spark waits for it

    table = tmp_path / "table"
    source = {"metadataStoreUrl": "zk:h:1", "topic": "t"}
    settings = ExportSettings(source=source, to=str(table), checkpoint=str(tmp_path / "c"), columns=("value",))
    sink = ParquetTable(settings, spark, LocalFiles(str(table), str(table)))
    assert sink.target is not None
    staging = sink.target.open()
    columns = StructType.fromDDL("value binary")
    assert isinstance(columns, StructType)
    rows = pa.record_batch({"value": [b"1", b"2"]})
    for number in range(2):
        attempts = []
        for _ in range(3):
            with FileWriter(layout_of(settings, columns, "snappy"), staging, rows.schema, 0) as writer:
                writer.write(rows)
                attempts.append(writer.finish())
        (table / STAGING / "part-00000-cut-off.snappy.parquet").write_bytes(b"PAR1")
        assert sink.commit(spark.createDataFrame(attempts[1], FILES), CHECKPOINT, number)
        assert not (table / STAGING).exists()
        assert [path.name for path in sorted(table.glob("*.parquet"))] == [
            f"part-00000-{CHECKPOINT}-{one}.snappy.parquet" for one in range(number + 1)
        ]
        assert spark.read.parquet(str(table)).count() == 2 * (number + 1)
    with FileWriter(layout_of(settings, columns, "snappy"), staging, rows.schema, 0) as writer:
        writer.write(rows)
        files = spark.createDataFrame(writer.finish(), FILES)
    with pytest.raises(ExportError, match="another export has committed micro-batch 1 meanwhile"):
        sink.commit(files, CHECKPOINT, 1)
    assert spark.read.parquet(str(table)).count() == 4


def test_codecs_are_those_of_spark(spark, tmp_path, codec) -> None:
    del codec
    settings = ExportSettings(source={"metadataStoreUrl": "zk:h:1", "topic": "t"}, to=str(tmp_path), checkpoint="/c")
    for name in CODECS:
        spark.conf.set(CODEC, name)
        spark.range(1).coalesce(1).write.parquet(str(tmp_path / name))
        (file,) = (tmp_path / name).glob("part-*.parquet")
        assert file.name.partition(".")[2] == f"{CODECS[name][1]}.parquet".lstrip(".")
    assert spark.conf.get(CODEC) == name, "the export reads this setting"
    with pytest.raises(ExportError, match=rf"^--conf {CODEC}=lzo: .* supports none, .*zstd"):
        layout_of(settings, StructType(), "lzo")


@pytest.fixture
def codec(spark) -> Iterator[None]:
    yield
    spark.conf.unset(CODEC)


def test_names_of_folders_are_those_of_spark(spark) -> None:
    utils = spark._jvm.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
    for text in [*map(chr, range(1, 0x100)), "", "a b/c", "%41", "\U0001f600"]:
        assert folder_of(("name",), (text,)) == utils.getPartitionPathString("name", text), ascii(text)
    assert folder_of(("a", "b"), (None, "1")) == f"{utils.getPartitionPathString('a', None)}/b=1"
