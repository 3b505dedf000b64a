"""The commits of an Iceberg table: each micro-batch once, whoever else commits. Without Spark, with a catalog in SQLite."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from readonly_spark.export import iceberg
from readonly_spark.export.errors import ExportError
from readonly_spark.export.iceberg import COMMIT_ATTEMPTS, IcebergTable
from readonly_spark.export.settings import ExportSettings

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


class Tables:
    """Exports of one table in one folder, and the files that Spark would write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = ExportSettings(
            source={"metadataStoreUrl": "zk:h:2181", "topics": "a"}, to=str(folder), checkpoint=f"{folder}/_checkpoint",
            table_format="iceberg", columns=("entryId",),
        )  # fmt: skip
        self.files = 0

    def export(self, *then: Callable[[], object]) -> IcebergTable:
        """An export; each call that it makes right before a commit does the next of these things."""
        left = list(then)
        return IcebergTable(self.settings, lambda: left.pop(0)() if left else None)  # type: ignore[func-returns-value]

    def file(self, number: int) -> list[str]:
        self.files += 1
        path = self.folder / f"{self.files}.parquet"
        pq.write_table(pa.table({"entryId": pa.array([number], pa.int64())}), path)
        return [path.as_uri()]

    def rows(self) -> list[int]:
        return sorted(self.export()._table().scan().to_arrow()["entryId"].to_pylist())

    def maintain(self) -> None:
        """Change the table as a maintenance job does that rewrites files."""
        table = self.export()._table()
        table.overwrite(table.scan().to_arrow())

    def commit(self, number: int, *, rows: bool = True, checkpoint: str = "cp") -> None:
        self.export()._commit(checkpoint, number, self.file(number) if rows else [])


@pytest.fixture
def tables(tmp_path) -> Tables:
    made = Tables(tmp_path)
    made.commit(0)
    return made


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("when", ["before its commit", "while it commits"])
def test_of_two_exports_of_a_micro_batch_one_commits(tables, rows, when) -> None:
    """The other one was suspended while Spark wrote, or after all its checks."""

    def resumed() -> None:
        tables.commit(1, rows=rows)
        tables.commit(2, rows=rows)

    if when == "before its commit":
        suspended = tables.export()
        resumed()
    else:
        suspended = tables.export(resumed)
    with pytest.raises(ExportError, match="another export has committed micro-batch 2 meanwhile"):
        suspended._commit("cp", 1, tables.file(1) if rows else [])
    assert tables.rows() == ([0, 1, 2] if rows else [0])
    assert tables.export().last_committed("cp") == 2


def test_of_two_exports_that_make_a_table_one_commits(tmp_path) -> None:
    made = Tables(tmp_path)

    class Suspended(IcebergTable):
        def _create(self, schema, checkpoint):  # type: ignore[no-untyped-def]
            made.commit(0)
            return super()._create(schema, checkpoint)

    with pytest.raises(ExportError, match="another export has committed micro-batch 0"):
        Suspended(made.settings, lambda: None)._commit("cp", 0, made.file(0))
    assert made.rows() == [0]


def test_maintenance_of_the_table_does_not_stop_an_export_unless_it_never_ends(tables) -> None:
    tables.export(*[tables.maintain] * (COMMIT_ATTEMPTS - 1))._commit("cp", 1, tables.file(1))
    assert tables.rows() == [0, 1]
    with pytest.raises(ExportError, match="concurrent changes of the table"):
        tables.export(*[tables.maintain] * COMMIT_ATTEMPTS)._commit("cp", 2, tables.file(2))
    assert tables.rows() == [0, 1]


def test_a_lease_that_was_lost_meanwhile_stops_a_commit(tables) -> None:
    def lost() -> None:
        raise ExportError("lost")

    for then in ((lost,), (tables.maintain, lost)):
        with pytest.raises(ExportError, match="lost"):
            tables.export(*then)._commit("cp", 1, tables.file(1))
        assert tables.rows() == [0]


@pytest.mark.parametrize("when", ["before its commit", "while it commits"])
def test_a_checkpoint_whose_table_was_adopted_commits_no_more(tables, when) -> None:
    def adopted() -> None:
        for _ in range(2):  # killed before the marker was written, and done again
            tables.export().fence("cp")
            assert tables.export().owners() == {"cp": 0}
        tables.commit(1, checkpoint="new")

    suspended = tables.export(*([adopted] if when == "while it commits" else []))
    if when == "before its commit":
        adopted()
    with pytest.raises(ExportError, match="another checkpoint has adopted the table"):
        suspended._commit("cp", 1, tables.file(1))
    assert tables.rows() == [0, 1]
    assert tables.export().owners() == {"cp": 0, "new": 1}


def test_the_files_of_a_micro_batch_have_a_folder_of_their_own(tables, monkeypatch) -> None:
    """Another export neither replaces nor lists them; it removes them when the micro-batch is committed."""
    written: list[str] = []
    removed: list[str] = []

    class Folder:
        def __init__(self, where: str, _: object) -> None:
            self.where = where

        def uris(self, _: str) -> list[str]:
            return tables.file(1)

        def names(self, _: str) -> list[str]:
            return [*(name.rpartition("/")[2] for name in written), "cp-1-old", "cp-10-other", "cp2-1-other"]

        remove_folder = staticmethod(removed.append)

    monkeypatch.setattr(iceberg, "HadoopFiles", Folder)
    write = SimpleNamespace(mode=lambda _: SimpleNamespace(parquet=written.append))
    batch = SimpleNamespace(write=write, sparkSession=None)
    assert tables.export().commit(batch, "cp", 1)
    with pytest.raises(ExportError, match="has committed micro-batch 1"):
        tables.export(lambda: None).commit(batch, "cp", 1)
    assert removed == ["cp-1-old"]
    tables.export().commit(batch, "new", 1)
    assert len(set(written)) == 2
    assert all(f"{tables.export().location}/data/" in name for name in written)


def test_old_metadata_of_a_table_is_removed_and_manifests_are_merged(tables) -> None:
    """The limits of a table are 100 each by default."""
    small = {"write.metadata.previous-versions-max": "2", "commit.manifest.min-count-to-merge": "2"}
    with tables.export()._table().transaction() as transaction:
        transaction.set_properties(small)
    for number in range(1, 8):
        tables.commit(number)
    assert len(list((tables.folder / "metadata").glob("*.metadata.json"))) == 3
    table = tables.export()._table()
    assert len(table.current_snapshot().manifests(table.io)) < 3
    assert tables.rows() == list(range(8))
