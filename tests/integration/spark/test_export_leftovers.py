"""Parquet files of killed exports where a rename is a copy, as Spark and Hadoop write and list them."""

import shutil
from pathlib import Path
from typing import Any, Final

import pytest
from readonly_spark.export.leftovers import LOG
from readonly_spark.export.settings import ExportSettings
from readonly_spark.export.store_leftovers import owner_in

OWN: Final = "0b1f8a8e-7c3c-4f2e-9b53-0d3f1e0d8a11"
OTHER: Final = "3b0a3c1e-5c3c-4f2e-9b53-0d3f1e0d8a11"


def parts(folder: Path) -> dict[Path, tuple[str, int] | None]:
    """The files of a table, and whose they are."""
    return {path: owner_in(path.read_bytes()) for path in sorted(folder.rglob("part-*.parquet"))}


@pytest.mark.parametrize("by", [pytest.param((), marks=pytest.mark.nightly), ("topic",)])
def test_files_of_a_killed_export_are_removed_when_their_micro_batch_is_committed(spark, tmp_path, by) -> None:
    from readonly_spark.export.hadoop_files import HadoopFiles  # noqa: PLC0415 - only who needs Spark waits for it
    from readonly_spark.export.parquet import ParquetTable  # noqa: PLC0415

    folder = tmp_path / "a table"
    source = {"metadataStoreUrl": "zk:h:1", "topic": "t"}
    settings = ExportSettings(source=source, to=str(folder), checkpoint=str(tmp_path / "c"), partition_by=by)

    def opened() -> Any:
        table = ParquetTable(settings, spark, HadoopFiles(str(folder), spark))
        table._local = table.target = None  # as in an object store with settings that tasks do not know
        return table

    def rows(number: int) -> Any:
        return spark.createDataFrame([("a b=c;d", number)], "topic string, value int").coalesce(1)

    table = opened()
    table.commit(rows(0), OWN, 0)
    assert set(parts(folder).values()) == {(OWN, 0)}
    (first,) = parts(folder)
    table.commit(rows(1), OWN, 1)
    for name in ("1", ".1.crc"):
        (folder / LOG / name).unlink()  # as if it was killed before
    lost, foreign = (first.with_name(first.name.replace("part-00000", f"part-{n:05d}")) for n in (7, 8))
    shutil.copy(first, lost)
    spark.createDataFrame([(1,)], "value int").coalesce(1).write.parquet(str(tmp_path / "foreign"))
    shutil.copy(next((tmp_path / "foreign").glob("part-*.parquet")), foreign)
    table.commit(rows(1), OTHER, 1)
    for name in ("1", ".1.crc"):
        (folder / LOG / name).unlink()
    other = {path for path, owner in parts(folder).items() if owner == (OTHER, 1)}
    assert other

    again = opened()
    again.remove_leftovers((OWN,), killed=False)
    assert lost.exists()
    again.remove_leftovers((OWN,), killed=True)
    assert not lost.exists()
    killed = {path for path, owner in parts(folder).items() if owner == (OWN, 1)}
    assert killed, "a suspended export may commit them yet"
    again.commit(rows(1), OWN, 1)
    left = parts(folder)
    assert not killed & left.keys()
    assert (other | {first, foreign}) <= left.keys()
    found = spark.read.parquet(str(folder))
    assert sorted(row["value"] for row in found.collect()) == [0, 1]
    assert set(found.columns) == {"topic", "value"}
