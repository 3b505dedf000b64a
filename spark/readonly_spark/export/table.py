"""The table of an export: it is locked, its ownership is checked, and each micro-batch is recorded before it is written.

`lock` runs before Spark starts, so that most errors are found without it; `open` runs with Spark.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from readonly_spark.closing import Closeable
from readonly_spark.export.checkpoint import VALUE_TYPE as CHECKPOINT_VALUE_TYPE
from readonly_spark.export.checkpoint import Checkpoint, read_state
from readonly_spark.export.errors import ExportError
from readonly_spark.export.files import LocalFiles
from readonly_spark.export.leftovers import LOG
from readonly_spark.export.lock import FileLock
from readonly_spark.export.marker import BATCHES, FOLDER, MARKER, NO_BATCH, VALUE_TYPE, BatchRecord, TableMarker
from readonly_spark.export.ownership import (
    ExportIdentity,
    Ownership,
    check_consistency,
    decide_ownership,
    written_in_order,
)
from readonly_spark.export.settings import DELTA, ICEBERG, below, canonical, local_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_spark.export.files import Files
    from readonly_spark.export.lease import Lease
    from readonly_spark.export.settings import ExportSettings
    from readonly_spark.export.sink import Sink

LOCK: Final = f"{FOLDER}/lock"
KEPT_RECORDS: Final = 2
"""The records of the last committed micro-batch and of the next one."""

_LOGS: Final = (MARKER, LOG, "_delta_log")
_WAIT: Final = "wait for its end"


class ExportTable(Closeable):
    """The table of an export, from its lock to the end of the export.

    Args:
        settings: the export.
        cluster: the id of the BookKeeper cluster.
        adopt: whether the export may adopt a table of another checkpoint.
    """

    def __init__(self, settings: ExportSettings, cluster: str, *, adopt: bool = False) -> None:
        self._settings = settings
        self._adopt = adopt
        export = {name: value for name, value in settings.identity().items() if name != "to"}
        self._identity = ExportIdentity(canonical(settings.to), settings.to, settings.checkpoint, cluster, export)
        self._checkpoint_inside = below(settings.checkpoint, settings.to)
        self._lock: FileLock | None = None
        self._lease: Lease | None = None
        self._checkpoint: Checkpoint | None = None
        self._sink: Sink | None = None
        self._id = ""
        path = local_path(settings.to)
        self._files: Files | None = None if path is None else LocalFiles(settings.to, path)
        self._folder = None if path is None else Path(path)

    # Locks and ownership

    def lock(self) -> None:
        """Lock and check a table and a checkpoint on local file systems; leave all others to `open`.

        Raises:
            ExportError: the export may not write this table.
        """
        path = local_path(self._settings.checkpoint)
        if self._files is None or path is None:
            return
        self._decide(
            LocalFiles(self._settings.checkpoint, path)
        )  # before anything is created in a folder of another owner
        self._lock_table()
        self._checkpoint = Checkpoint(self._settings)
        self._decide(self._checkpoint.files)

    def open(self, spark: Any) -> None:
        """Lock and check the table, and bring it and the checkpoint to the same state.

        Raises:
            ExportError: the export may not write this table, or it cannot be reached.
        """
        default = str(spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///"))  # noqa: SLF001
        for option, where in (("--to", self._settings.to), ("--checkpoint", self._settings.checkpoint)):
            if local_path(where) == where and not default.startswith("file:"):
                raise ExportError(
                    f"{option} {where}: fs.defaultFS is {default}; write file://{where} or {default.rstrip('/')}{where}"
                )
        if self._checkpoint is None:
            from readonly_spark.export.hadoop_files import HadoopFiles  # noqa: PLC0415  requires Spark

            if self._files is None:
                self._files = HadoopFiles(self._settings.to, spark)
            path = local_path(self._settings.checkpoint)
            where = self._settings.checkpoint
            state: Files = HadoopFiles(where, spark) if path is None else LocalFiles(where, path)
            self._decide(state)
            self._lock_table()
            self._checkpoint = Checkpoint(self._settings, state if path is None else None)
        ownership = self._decide(self.checkpoint.files)
        self._sink = self._open_sink(spark)
        self._id = {
            Ownership.CREATE: self._create,
            Ownership.RESUME: self._resume,
            Ownership.ADOPT: self._adopt_table,
            Ownership.VERIFY: self._verify,
        }[ownership]()
        self._check_consistency()

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint, after it was locked."""
        assert self._checkpoint is not None
        return self._checkpoint

    @property
    def _table_files(self) -> Files:
        assert self._files is not None
        return self._files

    @property
    def sink(self) -> Sink:
        """The sink, after `open`."""
        assert self._sink is not None
        return self._sink

    def _decide(self, checkpoint: Files) -> Ownership:
        marker = self._marker()
        first = self._table_files.first(lambda name: self._ignored(name, marked=marker is not None))
        ownership = decide_ownership(marker, first, read_state(checkpoint), self._identity, adopt=self._adopt)
        if marker is None and self._folder is not None:
            for folder in self._folder.resolve().parents:
                if any((folder / log).exists() for log in _LOGS):
                    raise ExportError(f"--to {self._settings.to} is inside of the table {folder}; use another folder")
        return ownership

    def _ignored(self, name: str, *, marked: bool) -> bool:
        """Return whether a file is not data: files of the export itself and of the file system."""
        if name in {".", FOLDER, self._checkpoint_inside, "lost+found"}:
            return name != "."
        if marked and self._settings.table_format == ICEBERG and name.startswith("catalog.db"):
            return True
        return "/" not in name and name.startswith(".")

    def _marker(self) -> TableMarker | None:
        text = self._table_files.read(MARKER)
        return None if text is None else TableMarker.from_json(text, f"{self._table_files.where}/{MARKER}")

    def _lock_table(self) -> None:
        if self._folder is not None:
            self._lock = FileLock(self._folder / LOCK, f"--to {self._settings.to}", _WAIT)
            return
        from readonly_spark.export.lease import Lease  # noqa: PLC0415  for object stores only

        self._lease = Lease(self._table_files)
        self._lease.start()

    def _open_sink(self, spark: Any) -> Sink:
        # These modules need Spark or a catalog.
        if self._settings.table_format == ICEBERG:
            from readonly_spark.export.iceberg import IcebergTable  # noqa: PLC0415

            return IcebergTable(self._settings, self._check_lease)
        if self._settings.table_format == DELTA:
            from readonly_spark.export.delta import DeltaTable  # noqa: PLC0415

            return DeltaTable(self._settings, spark)
        from readonly_spark.export.parquet import ParquetTable  # noqa: PLC0415

        return ParquetTable(self._settings, spark, self._table_files)

    # The outcomes of Ownership

    def _create(self) -> str:
        if (error := self.sink.foreign_table_error(())) is not None:
            raise ExportError(error)
        for number in self._records():
            self._table_files.remove(f"{BATCHES}/{number}")
        self._table_files.remove(VALUE_TYPE)
        name = self.checkpoint.ensure_id()
        self._mark(name)
        return name

    def _mark(self, name: str, adopted: int = NO_BATCH, former: tuple[str, ...] = ()) -> None:
        identity = self._identity
        marker = TableMarker(
            name, canonical(identity.checkpoint), identity.cluster, identity.to, identity.export, adopted, former
        )
        self._table_files.write(MARKER, marker.to_json())

    def _resume(self) -> str:
        marker = self._marker()
        assert marker is not None
        if (error := self.sink.foreign_table_error((marker.checkpoint, *marker.former))) is not None:
            raise ExportError(error)
        self.checkpoint.finish_adoption()
        state = self.checkpoint.state()
        self.sink.remove_leftovers((marker.checkpoint, *marker.former), killed=state.planned > state.finished)
        return marker.checkpoint

    def _adopt_table(self) -> str:
        marker = self._marker()
        assert marker is not None
        before = (*marker.former, marker.checkpoint)
        if (error := self.sink.foreign_table_error(before)) is not None:
            raise ExportError(error)
        self._adoptable(marker)  # before the former export is fenced
        self.sink.fence(marker.checkpoint)
        held, record = self._adoptable(marker)
        name = self.checkpoint.adopt(marker.checkpoint, held, "" if record is None else record.log)
        kept = self._table_files.read(VALUE_TYPE)
        if kept is not None:
            self.checkpoint.files.write(CHECKPOINT_VALUE_TYPE, kept)
        self._mark(name, held, before)
        self.checkpoint.finish_adoption()
        self.sink.remove_leftovers((*before, name), killed=True)
        return name

    def _adoptable(self, marker: TableMarker) -> tuple[int, BatchRecord | None]:
        """Return the last micro-batch in the table with its record, if an adoption is possible."""
        held = self._held(marker)
        record = self._record(held)
        if held > NO_BATCH and record is None:
            raise ExportError(
                f"--adopt: {self._settings.to} does not record which entries its micro-batch {held} holds; export to an "
                "empty folder with a new checkpoint"
            )
        return held, record

    def _verify(self) -> str:
        """Write the marker of a table of an earlier version, whose log must show that this checkpoint wrote it.

        Raises:
            ExportError: the log does not show it.
        """
        state = self.checkpoint.state()
        assert state.id is not None
        unknown = (
            f"--to {self._settings.to} has no marker of an export, and its log does not show that --checkpoint "
            f"{self._settings.checkpoint} wrote it; export to an empty folder with a new checkpoint"
        )
        owners = self.sink.owners()
        if owners is None:
            held = self.sink.last_committed(state.id)
            numbers = self.sink.logged_batches()
            files = self.checkpoint.files
            times = {
                number: (
                    files.changed(f"offsets/{number}"),
                    self._table_files.changed(f"{LOG}/{number}")
                    or self._table_files.changed(f"{LOG}/{number}.compact"),
                    files.changed(f"commits/{number}"),
                )
                for number in numbers
            }
            proven = held > NO_BATCH and written_in_order(numbers, times, held)
        else:
            held = owners.get(state.id, NO_BATCH)
            proven = owners.keys() == {state.id}
        if not proven or held > state.planned:
            raise ExportError(unknown)
        # An Iceberg table has no commit for a micro-batch without rows.
        empty = self._settings.table_format == ICEBERG and held < state.finished
        number = state.finished if empty else held
        log = self.checkpoint.log(number)
        if log is None:
            raise ExportError(unknown)
        self._table_files.write(f"{BATCHES}/{number}", BatchRecord(log, empty).to_json())
        self._mark(state.id)
        return state.id

    # Content

    def _records(self) -> list[int]:
        return sorted(int(name) for name in self._table_files.names(BATCHES) if name.isdecimal())

    def _record(self, number: int) -> BatchRecord | None:
        name = f"{BATCHES}/{number}"
        text = None if number == NO_BATCH else self._table_files.read(name)
        return None if text is None else BatchRecord.from_json(text, f"{self._table_files.where}/{name}")

    def _held(self, marker: TableMarker) -> int:
        """Return the last micro-batch in the table."""
        found = max(marker.adopted, self.sink.last_committed(marker.checkpoint))
        for number in self._records():
            record = self._record(number)
            if number > found and record is not None and record.empty:
                found = number
        return found

    def _check_consistency(self) -> None:
        marker = self._marker()
        assert marker is not None
        held = self._held(marker)
        log = None if held == NO_BATCH else self.checkpoint.log(held)
        check_consistency(held, self._record(held), marker.adopted, self.checkpoint.state(), log, self._identity)

    # Micro-batches

    def write(self, batch: Any, number: int) -> None:
        """Commit a micro-batch unless the table has it. Spark calls this for each micro-batch, and again after a crash.

        Raises:
            ExportError: the table no longer belongs to this export.
        """
        spark: Any = batch.sparkSession
        query = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        if query != self._id:
            raise ExportError(
                f"--checkpoint {self._settings.checkpoint} changed while the export ran: query {query}, expected {self._id}"
            )
        self._check_lease()
        marker = self._marker()
        if marker is None or marker.checkpoint != self._id:
            raise ExportError(f"--to {self._settings.to}: the table's marker is missing or names another checkpoint")
        if number <= self._held(marker):
            return
        log = self.checkpoint.log(number)
        if log is None:
            raise ExportError(
                f"--checkpoint {self._settings.checkpoint}: the offset log of micro-batch {number} is missing"
            )
        record = BatchRecord(log)
        self._table_files.write(f"{BATCHES}/{number}", record.to_json())
        if not self.sink.commit(batch, self._id, number):
            self._table_files.write(f"{BATCHES}/{number}", BatchRecord(log, empty=True).to_json())
        self._check_lease()  # Delta's log in S3 lets a suspended export replace a commit with one of the same micro-batch
        for old in self._records():
            if old <= number - KEPT_RECORDS:
                self._table_files.remove(f"{BATCHES}/{old}")

    def _check_lease(self) -> None:
        if self._lease is not None:
            self._lease.check()

    def pinned_value_type(self, query: Callable[[], str]) -> str:
        """Return the type of decoded values; see Checkpoint. The table stores it too, for a checkpoint that adopts it."""
        found = self.checkpoint.pinned_value_type(query)
        if self._table_files.read(VALUE_TYPE) is None:
            self._table_files.write(VALUE_TYPE, found.encode())
        return found

    def close(self) -> None:
        """Release the table and the checkpoint."""
        if self._checkpoint is not None:
            self._checkpoint.close()
            self._checkpoint = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if self._lease is not None:
            self._lease.close()
            self._lease = None
