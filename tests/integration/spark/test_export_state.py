"""What an export makes of a table and a checkpoint that do not agree, or that an earlier version made; in one Spark."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from readonly_spark.export.checkpoint import Checkpoint
from readonly_spark.export.errors import ExportError
from readonly_spark.export.marker import FOLDER, MARKER
from readonly_spark.export.settings import ExportSettings
from readonly_spark.lag.meter import LagMeter
from readonly_spark.rows.columns import COLUMNS

from tests.integration.spark.export_process import DEADLINE_S, publish, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def wanted(spark_stack, topic, tmp_path) -> ExportSettings:
    source = {"metadataStoreUrl": spark_stack.endpoints.metadata_store, "topics": topic, "startingOffsets": "earliest"}
    return ExportSettings(source=source, to=str(tmp_path / "table"), checkpoint=str(tmp_path / "checkpoint"))


def run(spark: SparkSession, wanted: ExportSettings, *, adopt: bool = False) -> None:
    """One export of all that there is."""
    from readonly_spark.export.session import start  # noqa: PLC0415 - only who needs Spark waits for it
    from readonly_spark.export.table import ExportTable  # noqa: PLC0415
    from readonly_spark.export.totals import Totals  # noqa: PLC0415

    with LagMeter(wanted.source) as meter, ExportTable(wanted, meter.cluster(), adopt=adopt) as table:
        table.lock()
        table.open(spark)
        query, _ = start(spark, wanted, table, Totals())
        query.awaitTermination()


def run_until(spark: SparkSession, wanted: ExportSettings, folder: Path, count: int, **how: bool) -> None:
    """Again where the owner had not told the bookies of the last messages yet."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        run(spark, wanted, **how)
        if len(values(folder, "parquet")) >= count:
            return
        assert time.monotonic() < deadline


def refusal(spark: SparkSession, wanted: ExportSettings) -> str:
    with pytest.raises(ExportError) as caught:
        run(spark, wanted)
    return str(caught.value)


def earlier_version(spark: SparkSession, wanted: ExportSettings, folder: str) -> None:
    """One export as versions made it that knew no marker."""
    columns = ", ".join(f"{column.name} {column.spark}" for column in COLUMNS)
    checkpoint = ExportSettings(source=wanted.source, to=wanted.to, checkpoint=folder)
    with Checkpoint(checkpoint):
        rows = spark.readStream.format("pulsar-readonly").options(**wanted.source).schema(columns).load()
        writer = rows.writeStream.format("parquet").option("path", wanted.to).option("checkpointLocation", folder)
        writer.trigger(availableNow=True).start().awaitTermination()


def newest(folder: Path) -> int:
    return max(int(path.name) for path in folder.iterdir() if path.name.isdecimal())


def forget(folder: Path, batch: int) -> None:
    """Remove what Spark has written down of a micro-batch."""
    (folder / str(batch)).unlink()
    (folder / f".{batch}.crc").unlink(missing_ok=True)


@pytest.mark.nightly
def test_killed_between_the_files_and_the_log(spark, spark_client, topic, wanted, tmp_path) -> None:
    table = tmp_path / "table"
    publish(spark_client, topic, 0, 50)
    run_until(spark, wanted, tmp_path, 50)
    files = sorted(table.glob("part-*.parquet"))
    # As after a crash: files are in their places, neither the table's log nor Spark's has the micro-batch.
    batch = newest(table / "_spark_metadata")
    forget(table / "_spark_metadata", batch)
    forget(tmp_path / "checkpoint" / "commits", batch)
    left = table / files[0].name.replace("part-00000", "part-00099")
    shutil.copy(files[0], left)
    publish(spark_client, topic, 50, 60)
    run_until(spark, wanted, tmp_path, 60)
    assert not left.exists()
    assert values(tmp_path, "parquet") == list(range(60))


def test_killed_between_the_marker_and_the_first_batch(spark, spark_client, topic, wanted, tmp_path) -> None:
    from readonly_spark.export.table import ExportTable  # noqa: PLC0415

    publish(spark_client, topic, 0, 10)
    with LagMeter(wanted.source) as meter:
        cluster = meter.cluster()
    with ExportTable(wanted, cluster) as table:
        table.lock()
        table.open(spark)
    marker = (tmp_path / "table" / MARKER).read_bytes()
    run_until(spark, wanted, tmp_path, 10)
    assert (tmp_path / "table" / MARKER).read_bytes() == marker
    assert values(tmp_path, "parquet") == list(range(10))


@pytest.mark.nightly
def test_a_checkpoint_or_a_table_from_a_backup_is_refused_and_adopted_from_what_the_table_holds(
    spark, spark_client, topic, wanted, tmp_path
) -> None:
    checkpoint, table = tmp_path / "checkpoint", tmp_path / "table"
    publish(spark_client, topic, 0, 20)
    run_until(spark, wanted, tmp_path, 20)
    shutil.copytree(checkpoint, tmp_path / "old-checkpoint")
    shutil.copytree(table, tmp_path / "old-table")
    publish(spark_client, topic, 20, 40)
    run_until(spark, wanted, tmp_path, 40)
    publish(spark_client, topic, 40, 60)
    run_until(spark, wanted, tmp_path, 60)

    def swap(folder: Path, copy: str) -> None:
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / copy, folder)

    shutil.copytree(checkpoint, tmp_path / "new-checkpoint")
    swap(checkpoint, "old-checkpoint")
    assert "is it an older copy?" in refusal(spark, wanted)
    swap(checkpoint, "new-checkpoint")
    shutil.move(table, tmp_path / "new-table")
    assert "which is empty: was it moved or removed?" in refusal(spark, wanted)
    shutil.copytree(tmp_path / "old-table", table)
    assert "was the table restored from a copy?" in refusal(spark, wanted)
    # The table continues from where it is.
    shutil.rmtree(checkpoint)
    run_until(spark, wanted, tmp_path, 60, adopt=True)
    assert values(tmp_path, "parquet") == list(range(60))


@pytest.mark.nightly
def test_a_table_that_was_moved_is_refused(spark, spark_client, topic, wanted, tmp_path) -> None:
    publish(spark_client, topic, 0, 10)
    run_until(spark, wanted, tmp_path, 10)
    shutil.move(tmp_path / "table", tmp_path / "elsewhere")
    moved: Any = ExportSettings(source=wanted.source, to=str(tmp_path / "elsewhere"), checkpoint=str(tmp_path / "new"))
    with pytest.raises(ExportError, match="moved or copied from"):
        run(spark, moved, adopt=True)
    (tmp_path / "table").symlink_to(tmp_path / "elsewhere")
    assert "moved or copied" in refusal(spark, wanted)


@pytest.mark.nightly
def test_a_table_of_an_earlier_version_goes_on_where_its_log_shows_whose_it_is(
    spark, spark_client, topic, wanted, tmp_path
) -> None:
    publish(spark_client, topic, 0, 20)
    deadline = time.monotonic() + DEADLINE_S
    while sum(path.stat().st_size > 0 for path in (tmp_path / "table").glob("part-*.parquet")) < 1:
        earlier_version(spark, wanted, wanted.checkpoint)
        assert time.monotonic() < deadline
    other = str(tmp_path / "other")
    earlier_version(spark, wanted, other)  # its micro-batches are skipped: the log has these numbers
    before = {path.name for path in (tmp_path / "table").glob("part-*.parquet")}
    of_other = ExportSettings(source=wanted.source, to=wanted.to, checkpoint=other)
    assert "its log does not show that --checkpoint" in refusal(spark, of_other)
    fresh = ExportSettings(source=wanted.source, to=wanted.to, checkpoint=str(tmp_path / "fresh"))
    assert "holds data that this export did not write" in refusal(spark, fresh)
    assert not (tmp_path / "table" / FOLDER / "table.json").exists()
    foreign = tmp_path / "table" / "part-00000-3b0a3c1e-5c3c-4f2e-9b53-0d3f1e0d8a11.c000.snappy.parquet"
    foreign.write_bytes(b"of somebody")
    run(spark, wanted)
    assert foreign.read_bytes() == b"of somebody", "it is not known whose that is"
    foreign.unlink()
    publish(spark_client, topic, 20, 30)
    run_until(spark, wanted, tmp_path, 30)
    assert values(tmp_path, "parquet") == list(range(30))
    assert before <= {path.name for path in (tmp_path / "table").glob("part-*.parquet")}


@pytest.mark.nightly
def test_a_table_of_a_catalog_that_another_export_wrote_elsewhere_is_refused(
    spark, spark_client, spark_stack, topic, tmp_path
) -> None:
    """Two folders, and one name in the catalog: the marker of a folder does not see that."""
    publish(spark_client, topic, 0, 10)
    source = {"metadataStoreUrl": spark_stack.endpoints.metadata_store, "topics": topic, "startingOffsets": "earliest"}
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}

    def export(name: str) -> ExportSettings:
        return ExportSettings(
            source=source, to=str(tmp_path / name), checkpoint=str(tmp_path / f"c-{name}"), table_format="iceberg",
            catalog=catalog, columns=("messageId", "value"),
        )  # fmt: skip

    def rows() -> int:
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - it is slow to import

        found = load_catalog("default", **catalog)
        return (
            found.load_table("pulsar.messages").scan().to_arrow().num_rows
            if found.table_exists("pulsar.messages")
            else 0
        )

    deadline = time.monotonic() + DEADLINE_S
    while rows() < 10:
        run(spark, export("a"))
        assert time.monotonic() < deadline
    assert "the catalog has a table of this name that this export did not write" in refusal(spark, export("b"))
    assert rows() == 10
