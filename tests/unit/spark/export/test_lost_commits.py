"""An export whose micro-batch another one has committed ends with one clear error, and any other error stays as it is."""

from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError
from readonly_spark.export.delta import DeltaTable
from readonly_spark.export.errors import ExportError
from readonly_spark.export.files import LocalFiles
from readonly_spark.export.marker import MARKER, TableMarker
from readonly_spark.export.parquet import ParquetTable
from readonly_spark.export.table import ExportTable


class Batch:
    columns = ("value",)
    _jdf = None

    def withMetadata(self, *_):  # noqa: N802 - as Spark names it
        return self


def parquet(error):
    committed = [2]

    def add(*_):
        if "Race" in str(error):
            committed.append(3)
        raise error

    table = object.__new__(ParquetTable)
    table._settings = SimpleNamespace(to="/t", partition_by=())
    table._local = table._leftovers = None
    table.last_committed = lambda _: committed[-1]
    table._sink = lambda: SimpleNamespace(addBatch=add)
    return table


def delta(error):
    logged = {"c": 2}

    def append(*_):
        if "DELTA" in str(error):
            logged["c"] = 3
        raise error

    table = object.__new__(DeltaTable)
    table._subject = "--to /t"
    table._logged = lambda: logged
    table._append = append
    return table


@pytest.mark.parametrize(
    ("make", "lost"),
    [
        # The message of Spark 4.2.1, and the name of Delta's exception.
        (parquet, Py4JError(": java.lang.IllegalStateException: Race while writing batch 3\n\tat x")),
        (delta, Py4JError("io.delta.exceptions.ConcurrentTransactionException: [DELTA_CONCURRENT_TRANSACTION] x")),
        (
            delta,
            Py4JError("io.delta.exceptions.MetadataChangedException: [DELTA_METADATA_CHANGED] both made the table"),
        ),
    ],
)
def test_a_micro_batch_that_another_export_has_committed_is_named(make, lost):
    with pytest.raises(ExportError, match=r"^--to /t: another export has committed micro-batch 3 meanwhile$"):
        make(lost).commit(Batch(), "c", 3)
    with pytest.raises(Py4JError, match="Access Denied"):
        make(Py4JError("Access Denied")).commit(Batch(), "c", 3)


def test_an_export_that_was_suspended_within_its_commit_ends_with_one_error(tmp_path):
    """Delta's log store for S3 lets it replace the commit of the same micro-batch, and sees no conflict."""
    files = LocalFiles("/t", str(tmp_path))
    files.write(MARKER, TableMarker("c", "/c", "cluster", "/t", {}).to_json())
    committed = []

    def check():
        if committed:
            raise ExportError("--to /t: the lease was not renewed in time")

    table = object.__new__(ExportTable)
    table._id, table._files, table._lease = "c", files, SimpleNamespace(check=check)
    table._checkpoint = SimpleNamespace(log=lambda _: 'v1\n{}\n{"c": "x", "t": {}}')
    table._sink = SimpleNamespace(
        last_committed=lambda _: -1, commit=lambda _, __, number: committed.append(number) or True
    )
    spark = SimpleNamespace(sparkContext=SimpleNamespace(getLocalProperty=lambda _: "c"))
    with pytest.raises(ExportError, match="the lease was not renewed in time"):
        table.write(SimpleNamespace(sparkSession=spark), 0)
    assert committed == [0]
