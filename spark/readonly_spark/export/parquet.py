"""Tables of Parquet files: micro-batches are committed to `_spark_metadata`, the log of Spark's file sink, each exactly once.

Tasks write the files (see `file_source`). On a local file system they write to a staging folder. The files of a micro-batch are
renamed to names with the checkpoint's id, and committed. So readers see whole files only, and leftovers of a killed export can
be identified. In an object store a file appears when it is complete and a rename is a copy, so tasks write directly to the table,
and the footers hold the checkpoint's id. If the store has conditional writes, the export commits with one (see `sink_log`).

Elsewhere, and with settings of a store that tasks do not know (see `store_settings`), Spark's sink writes the files.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from py4j.protocol import Py4JError

from readonly_spark.export.destinations import Target
from readonly_spark.export.errors import ExportError
from readonly_spark.export.hadoop_files import HadoopFiles
from readonly_spark.export.leftovers import LOG, file_name, remove_leftovers
from readonly_spark.export.marker import NO_BATCH, STAGING
from readonly_spark.export.settings import local_path
from readonly_spark.export.sink_log import expired, log_file
from readonly_spark.export.store_leftovers import StoreLeftovers, tagged
from readonly_spark.export.store_target import store_target

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from readonly_spark.export.files import Files
    from readonly_spark.export.settings import ExportSettings


class ParquetTable:
    """The Parquet table of an export.

    Args:
        settings: the export.
        spark: the session.
        files: the table's folder.

    Attributes:
        target: where tasks write the files; None if Spark's sink does, from rows.
    """

    target: Target | None

    def __init__(self, settings: ExportSettings, spark: Any, files: Files) -> None:
        self._settings = settings
        self._spark = spark
        self._jvm: Any = spark._jvm  # noqa: SLF001  the file sink has no Python API
        self._session: Any = spark._jsparkSession  # noqa: SLF001
        self._files = files
        path = local_path(settings.to)
        self._local = None if path is None else Path(path)
        self._where = settings.to.rstrip("/") if path is None else path
        self._leftovers = StoreLeftovers(files) if isinstance(files, HadoopFiles) else None
        if path is not None:
            staging = f"{path.rstrip('/')}/{STAGING}"
            self.target = Target(staging, staging)
        else:
            assert isinstance(files, HadoopFiles)
            self.target = store_target(files)

    def owners(self) -> None:
        """Return None: the log does not name checkpoints."""

    def foreign_table_error(self, checkpoints: Collection[str]) -> None:
        """Return None: the marker in the table's folder names the owner."""

    def logged_batches(self) -> list[int]:
        """See Sink."""
        names = (name.removesuffix(".compact") for name in self._files.names(LOG))
        return sorted({int(name) for name in names if name.isdecimal()})

    def last_committed(self, checkpoint: str) -> int:
        """Return the last micro-batch in the log, of any checkpoint."""
        del checkpoint
        return max(self.logged_batches(), default=NO_BATCH)

    def fence(self, checkpoint: str) -> None:
        """Do nothing: the log has each number once, whatever the checkpoint."""

    def remove_leftovers(self, checkpoints: Collection[str], *, killed: bool) -> None:
        """See Sink. In an object store files of the next micro-batch stay until it is committed, perhaps by another export."""
        if self._local is not None:
            remove_leftovers(self._local, checkpoints)
        elif self._leftovers is not None and killed:
            self._leftovers.find(checkpoints)
            self._leftovers.remove(max(self.logged_batches(), default=NO_BATCH))

    def commit(self, batch: Any, checkpoint: str, number: int) -> bool:
        """See Sink; always True."""
        last = self.last_committed(checkpoint)
        if last != number - 1:
            raise self._taken(last)
        if self._local is not None:
            self._write_local(self._local, batch, checkpoint, number)
            return True
        try:
            if self._leftovers is None or not self._leftovers.files.conditional:
                self._sink().addBatch(number, self._tagged(batch, checkpoint, number))
            else:
                self._write_conditionally(self._leftovers.files, batch, checkpoint, number)
        except Py4JError:
            if self.last_committed(checkpoint) < number:
                raise
            raise self._taken(number) from None
        if self._leftovers is not None:
            self._leftovers.remove(number)
        return True

    def _tagged(self, batch: Any, checkpoint: str, number: int) -> Any:
        column = next(name for name in batch.columns if name not in self._settings.partition_by)
        return tagged(batch, column, checkpoint, number)._jdf  # noqa: SLF001

    def _taken(self, number: int) -> ExportError:
        return ExportError(f"--to {self._settings.to}: another export has committed micro-batch {number} meanwhile")

    def _sink(self) -> Any:
        spark = self._jvm.org.apache.spark.sql.execution
        python = self._jvm.PythonUtils
        form = spark.datasources.parquet.ParquetFileFormat()
        by = python.toSeq(list(self._settings.partition_by))
        return spark.streaming.sinks.FileStreamSink(self._session, self._where, form, by, python.toScalaMap({}))

    def _write_conditionally(self, files: HadoopFiles, batch: Any, checkpoint: str, number: int) -> None:
        """Have Spark write a log of the micro-batch alone, and commit its entries to the log of the table."""
        interval = int(self._log(f"{self._where}/{LOG}").compactInterval())
        folder = f"{STAGING}/{uuid4().hex}"
        draft = self._log(f"{self._where}/{folder}")
        if self.target is None:
            sink = self._sink()
            log = sink.getClass().getDeclaredField("fileLog")
            log.setAccessible(True)
            log.set(sink, draft)
            sink.addBatch(0, self._tagged(batch, checkpoint, number))
        else:
            draft.add(0, self._entries(f"{self._where}/{row['file']}" for row in batch.collect()))
        added = files.read(f"{folder}/{draft.batchIdToPath(0).getName()}")
        if added is None:  # an export that has committed the micro-batch removes the drafts of others
            raise self._taken(number)
        name, content = log_file(number, interval, added, lambda earlier: files.read(f"{LOG}/{earlier}"))
        if not files.create(f"{LOG}/{name}", content):
            raise self._taken(number)
        files.remove_folder(STAGING)
        if name != str(number):
            for old in expired(number, interval, files.names(LOG)):
                files.remove(f"{LOG}/{old}")

    def _log(self, where: str) -> Any:
        log = self._jvm.org.apache.spark.sql.execution.streaming.sinks.FileStreamSinkLog
        return log(log.VERSION(), self._session, where, self._jvm.scala.Option.empty())

    def _write_local(self, table: Path, batch: Any, checkpoint: str, number: int) -> None:
        staging = table / STAGING
        files = []
        for index, name in enumerate(sorted(row["file"] for row in batch.collect())):
            file = table / Path(name).with_name(
                file_name(index, checkpoint, number, name.rpartition("/")[2].partition(".")[2])
            )
            file.parent.mkdir(parents=True, exist_ok=True)
            (staging / name).rename(file)
            files.append(str(file))
        if not self._log(f"{self._where}/{LOG}").add(number, self._entries(files)):
            raise self._taken(number)
        shutil.rmtree(staging, ignore_errors=True)

    def _entries(self, files: Iterable[str]) -> Any:
        """Return the entries of the log for complete files, as an array of the JVM."""
        paths = [self._jvm.org.apache.hadoop.fs.Path(file) for file in sorted(files)]
        configuration = self._spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
        entry = self._jvm.org.apache.spark.sql.execution.streaming.sinks.SinkFileStatus
        entries = self._spark.sparkContext._gateway.new_array(entry, len(paths))  # noqa: SLF001
        for index, path in enumerate(paths):
            entries[index] = entry.apply(path.getFileSystem(configuration).getFileStatus(path))
        return entries
