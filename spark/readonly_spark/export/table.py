"""The table of an export: locked, known to be its own, and what it holds written down before each micro-batch.

Two steps, so that what can be refused without Spark is: `take` before Spark starts, `open` with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from readonly_spark.export.checkpoint import VALUE_TYPE as CHECKPOINT_VALUE_TYPE
from readonly_spark.export.checkpoint import Checkpoint, read_state
from readonly_spark.export.claim import Claim, Wanted, check_held, decide, written_in_turn
from readonly_spark.export.errors import ExportError
from readonly_spark.export.files import LocalFiles
from readonly_spark.export.leftovers import LOG
from readonly_spark.export.lock import FileLock
from readonly_spark.export.marker import BATCHES, FOLDER, MARKER, NONE, VALUE_TYPE, BatchRecord, Marker
from readonly_spark.export.settings import DELTA, ICEBERG, below, canonical, local_path

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from types import TracebackType
    from typing import Self

    from readonly_spark.export.files import Files
    from readonly_spark.export.lease import Lease
    from readonly_spark.export.settings import ExportSettings

LOCK: Final = f"{FOLDER}/lock"
KEPT_RECORDS: Final = 2
"""That of the last committed micro-batch, and that of the next one."""

_LOGS: Final = (MARKER, LOG, "_delta_log")
_WAIT: Final = "wait for its end"


class Sink(Protocol):
    """Where micro-batches are committed, each once."""

    def owners(self) -> Mapping[str, int] | None:
        """The last micro-batch of each checkpoint that has written the table; None where its log does not say."""

    def foreign(self, checkpoints: Collection[str]) -> str | None:
        """An error, where there is a table that none of these checkpoints has written."""

    def numbers(self) -> list[int]:
        """Micro-batches in its log, where they are files there."""

    def last(self, checkpoint: str) -> int:
        """The last micro-batch of a checkpoint that was committed."""

    def clean(self, checkpoints: Collection[str]) -> None:
        """Remove what these checkpoints have begun and not committed."""

    def write(self, batch: Any, checkpoint: str, number: int) -> bool:
        """Commit a micro-batch; False where there was nothing to commit."""


class ExportTable:
    """A table, from before its claim to the end of the export.

    Args:
        settings: the export.
        cluster: BookKeeper's id of its cluster.
        adopt: whether the table of another checkpoint may be taken over.
    """

    def __init__(self, settings: ExportSettings, cluster: str, *, adopt: bool = False) -> None:
        self._settings = settings
        self._adopt = adopt
        export = {name: value for name, value in settings.identity().items() if name != "to"}
        self._wanted = Wanted(canonical(settings.to), settings.to, settings.checkpoint, cluster, export)
        self._inside = below(settings.checkpoint, settings.to)
        self._lock: FileLock | None = None
        self._lease: Lease | None = None
        self._checkpoint: Checkpoint | None = None
        self._sink: Sink | None = None
        self._id = ""
        path = local_path(settings.to)
        self._files: Files | None = None if path is None else LocalFiles(settings.to, path)
        self._path = None if path is None else Path(path)

    # Claiming

    def take(self) -> None:
        """Lock a table and a checkpoint that are on this machine's file systems, and refuse them here where they are not right.

        Raises:
            ExportError: the export may not write this table.
        """
        path = local_path(self._settings.checkpoint)
        if self._files is None or path is None:
            return
        self._claim(LocalFiles(self._settings.checkpoint, path))  # nothing is made in a folder of somebody else
        self._lock_table()
        self._checkpoint = Checkpoint(self._settings)
        self._claim(self._checkpoint.files)

    def open(self, spark: Any) -> None:
        """Claim the table.

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
            from readonly_spark.export.hadoop_files import HadoopFiles  # noqa: PLC0415  Spark is there only now

            if self._files is None:
                self._files = HadoopFiles(self._settings.to, spark)
            path = local_path(self._settings.checkpoint)
            where = self._settings.checkpoint
            state: Files = HadoopFiles(where, spark) if path is None else LocalFiles(where, path)
            self._claim(state)
            self._lock_table()
            self._checkpoint = Checkpoint(self._settings, state if path is None else None)
        claim = self._claim(self.checkpoint.files)
        self._sink = self._open_sink(spark)
        self._id = {
            Claim.BEGIN: self._begin,
            Claim.GO_ON: self._go_on,
            Claim.ADOPT: self._take_over,
            Claim.PROVE: self._prove,
        }[claim]()
        self._check_held()

    @property
    def checkpoint(self) -> Checkpoint:
        """The export's checkpoint, once it is taken."""
        assert self._checkpoint is not None
        return self._checkpoint

    @property
    def _there(self) -> Files:
        assert self._files is not None
        return self._files

    @property
    def sink(self) -> Sink:
        """Where its micro-batches are committed, once it is open."""
        assert self._sink is not None
        return self._sink

    def _claim(self, checkpoint: Files) -> Claim:
        marker = self._marker()
        first = self._there.first(lambda name: self._passed(name, marked=marker is not None))
        claim = decide(marker, first, read_state(checkpoint), self._wanted, adopt=self._adopt)
        if marker is None and self._path is not None:
            for folder in self._path.resolve().parents:
                if any((folder / log).exists() for log in _LOGS):
                    raise ExportError(
                        f"--to {self._settings.to} is inside of the table {folder}; give a folder of its own"
                    )
        return claim

    def _passed(self, name: str, *, marked: bool) -> bool:
        """Whether a file says nothing about the table: the export's machinery, and what file systems keep for themselves."""
        if name in {".", FOLDER, self._inside, "lost+found"}:
            return name != "."
        if marked and self._settings.table_format == ICEBERG and name.startswith("catalog.db"):
            return True
        return "/" not in name and name.startswith(".")

    def _marker(self) -> Marker | None:
        text = self._there.read(MARKER)
        return None if text is None else Marker.from_json(text, f"{self._there.where}/{MARKER}")

    def _lock_table(self) -> None:
        if self._path is not None:
            self._lock = FileLock(self._path / LOCK, f"--to {self._settings.to}", _WAIT)
            return
        from readonly_spark.export.lease import Lease  # noqa: PLC0415  for object stores only

        self._lease = Lease(self._there)
        self._lease.start()

    def _open_sink(self, spark: Any) -> Sink:
        # They need Spark, or a catalog.
        if self._settings.table_format == ICEBERG:
            from readonly_spark.export.iceberg import IcebergTable  # noqa: PLC0415

            return IcebergTable(self._settings)
        if self._settings.table_format == DELTA:
            from readonly_spark.export.delta import DeltaTable  # noqa: PLC0415

            return DeltaTable(self._settings, spark)
        from readonly_spark.export.parquet import ParquetTable  # noqa: PLC0415

        return ParquetTable(self._settings, spark, self._there)

    # How it comes to the table

    def _begin(self) -> str:
        if (error := self.sink.foreign(())) is not None:
            raise ExportError(error)
        for number in self._records():
            self._there.remove(f"{BATCHES}/{number}")
        self._there.remove(VALUE_TYPE)
        name = self.checkpoint.begin()
        self._mark(name)
        return name

    def _mark(self, name: str, adopted: int = NONE, former: tuple[str, ...] = ()) -> None:
        wanted = self._wanted
        marker = Marker(name, canonical(wanted.checkpoint), wanted.cluster, wanted.to, wanted.export, adopted, former)
        self._there.write(MARKER, marker.to_json())

    def _go_on(self) -> str:
        marker = self._marker()
        assert marker is not None
        if (error := self.sink.foreign((marker.checkpoint, *marker.former))) is not None:
            raise ExportError(error)
        self.checkpoint.adopted()
        self.sink.clean((marker.checkpoint, *marker.former))
        return marker.checkpoint

    def _take_over(self) -> str:
        marker = self._marker()
        assert marker is not None
        before = (*marker.former, marker.checkpoint)
        if (error := self.sink.foreign(before)) is not None:
            raise ExportError(error)
        held = self._held(marker)
        record = self._record(held)
        if held > NONE and record is None:
            raise ExportError(
                f"--adopt: {self._settings.to} does not record which entries its micro-batch {held} holds; export to an "
                "empty folder with a new checkpoint"
            )
        name = self.checkpoint.adopt(marker.checkpoint, held, "" if record is None else record.log)
        kept = self._there.read(VALUE_TYPE)
        if kept is not None:
            self.checkpoint.files.write(CHECKPOINT_VALUE_TYPE, kept)
        self._mark(name, held, before)
        self.checkpoint.adopted()
        self.sink.clean((*before, name))
        return name

    def _prove(self) -> str:
        """A table of an earlier version, which made no marker: the log of the table shows whose it is, or it is refused.

        Raises:
            ExportError: it does not.
        """
        state = self.checkpoint.state()
        assert state.id is not None
        unknown = (
            f"--to {self._settings.to} has no marker of an export, and its log does not show that --checkpoint "
            f"{self._settings.checkpoint} wrote it; export to an empty folder with a new checkpoint"
        )
        owners = self.sink.owners()
        if owners is None:
            held = self.sink.last(state.id)
            numbers = self.sink.numbers()
            files = self.checkpoint.files
            times = {
                number: (
                    files.changed(f"offsets/{number}"),
                    self._there.changed(f"{LOG}/{number}") or self._there.changed(f"{LOG}/{number}.compact"),
                    files.changed(f"commits/{number}"),
                )
                for number in numbers
            }
            proven = held > NONE and written_in_turn(numbers, times, held)
        else:
            held = owners.get(state.id, NONE)
            proven = owners.keys() == {state.id}
        if not proven or held > state.planned:
            raise ExportError(unknown)
        # An Iceberg table has no commit of a micro-batch without rows.
        empty = self._settings.table_format == ICEBERG and held < state.finished
        number = state.finished if empty else held
        log = self.checkpoint.log(number)
        if log is None:
            raise ExportError(unknown)
        self._there.write(f"{BATCHES}/{number}", BatchRecord(log, empty).to_json())
        self._mark(state.id)
        return state.id

    # What it holds

    def _records(self) -> list[int]:
        return sorted(int(name) for name in self._there.names(BATCHES) if name.isdecimal())

    def _record(self, number: int) -> BatchRecord | None:
        name = f"{BATCHES}/{number}"
        text = None if number == NONE else self._there.read(name)
        return None if text is None else BatchRecord.from_json(text, f"{self._there.where}/{name}")

    def _held(self, marker: Marker) -> int:
        """The last micro-batch that the table holds."""
        found = max(marker.adopted, self.sink.last(marker.checkpoint))
        for number in self._records():
            record = self._record(number)
            if number > found and record is not None and record.empty:
                found = number
        return found

    def _check_held(self) -> None:
        marker = self._marker()
        assert marker is not None
        held = self._held(marker)
        log = None if held == NONE else self.checkpoint.log(held)
        check_held(held, self._record(held), marker.adopted, self.checkpoint.state(), log, self._wanted)

    # While it runs

    def write(self, batch: Any, number: int) -> None:
        """Commit a micro-batch, unless it is in the table. Called by Spark for each, again for one that was killed.

        Raises:
            ExportError: the table is not this export's any more.
        """
        spark: Any = batch.sparkSession
        query = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        if query != self._id:
            raise ExportError(
                f"--checkpoint {self._settings.checkpoint} has changed while the export ran: {query}, not {self._id}"
            )
        if self._lease is not None:
            self._lease.check()
        marker = self._marker()
        if marker is None or marker.checkpoint != self._id:
            raise ExportError(f"--to {self._settings.to}: the table's marker is gone or names another checkpoint")
        if number <= self._held(marker):
            return
        log = self.checkpoint.log(number)
        if log is None:
            raise ExportError(f"--checkpoint {self._settings.checkpoint}: the plan of micro-batch {number} is gone")
        record = BatchRecord(log)
        self._there.write(f"{BATCHES}/{number}", record.to_json())
        if not self.sink.write(batch, self._id, number):
            self._there.write(f"{BATCHES}/{number}", BatchRecord(log, empty=True).to_json())
        for old in self._records():
            if old <= number - KEPT_RECORDS:
                self._there.remove(f"{BATCHES}/{old}")

    def remembered(self, make: Callable[[], str]) -> str:
        """The type of decoded values; see Checkpoint.remembered. The table has it too, for the next checkpoint."""
        found = self.checkpoint.remembered(make)
        if self._there.read(VALUE_TYPE) is None:
            self._there.write(VALUE_TYPE, found.encode())
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give table and checkpoint back."""
        if self._checkpoint is not None:
            self._checkpoint.close()
            self._checkpoint = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if self._lease is not None:
            self._lease.close()
            self._lease = None
