"""Parquet files of the rows of one task, written column by column from Arrow record batches.

Spark's own writer takes rows as Java objects, which cost more than twice as much CPU as reading them from bookies.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from readonly_spark.export.partitions import by_folder

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from readonly_spark.export.destinations import Destination, OpenFile

ROW_GROUP_BYTES: Final = 64 << 20
"""Rows that a task holds in memory, in bytes of Arrow. Then it writes those of one file as a row group."""

SPARK_SCHEMA: Final = "org.apache.spark.sql.parquet.row.metadata"
"""Key in a footer for the schema of the columns as Spark's JSON; Spark's own writer sets it."""

CODECS: Final = {
    "none": ("none", ""),
    "uncompressed": ("none", ""),
    "snappy": ("snappy", ".snappy"),
    "gzip": ("gzip", ".gz"),
    "zstd": ("zstd", ".zstd"),
    "lz4_raw": ("lz4", ".lz4raw"),
}
"""Codecs that Spark reads and Arrow has, as Arrow names them, with the suffix that Spark gives to names of files."""


@dataclass(frozen=True, slots=True)
class FileLayout:
    """The files of a table.

    Attributes:
        columns: the columns of the files, in order.
        spark_schema: the same as the JSON of Spark's StructType.
        partition_by: the columns of the folders, which are not in the files.
        codec: one of CODECS.
    """

    columns: tuple[str, ...]
    spark_schema: str
    partition_by: tuple[str, ...] = ()
    codec: str = "snappy"


class WrittenFile(NamedTuple):
    """A complete file.

    Attributes:
        file: its name, relative to the destination of the files.
        messages: number of rows.
        bytes: bytes of the column `value`; 0 if there is none, or if it is decoded.
    """

    file: str
    messages: int
    bytes: int


@dataclass(slots=True)
class _OpenFile:
    """A file, and rows that are not in it yet."""

    name: str
    file: OpenFile
    writer: pq.ParquetWriter
    held: list[pa.RecordBatch] = field(default_factory=list)
    held_bytes: int = 0
    rows: int = 0
    value_bytes: int = 0

    def flush(self) -> None:
        if self.held:
            self.writer.write_table(pa.Table.from_batches(self.held))
            self.held, self.held_bytes = [], 0


class FileWriter:
    """Write record batches to Parquet files, one for each partition. A context: without `finish` its end removes the files.

    Args:
        layout: the files of the table.
        destination: where to write them. Beyond its number of open files the one that was used least recently is completed.
        schema: the columns of the record batches.
        task: the number of the task, with which the names of its files begin.
    """

    def __init__(self, layout: FileLayout, destination: Destination, schema: pa.Schema, task: int) -> None:
        self._layout = layout
        self._destination = destination
        self._schema = pa.schema([schema.field(name) for name in layout.columns])
        self._counts_bytes = "value" in layout.columns and schema.field("value").type == pa.binary()
        self._task = task
        self._open: dict[str, _OpenFile] = {}
        self._held_bytes = 0
        self._complete: list[WrittenFile] = []
        self._finished = False

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            OSError: a file cannot be written.
        """
        for folder, rows in by_folder(batch, self._layout.partition_by):
            self._add(folder, rows.select(self._layout.columns))
        while self._held_bytes >= ROW_GROUP_BYTES:
            largest = max(self._open.values(), key=lambda file: file.held_bytes)
            self._held_bytes -= largest.held_bytes
            largest.flush()

    def _add(self, folder: str, rows: pa.RecordBatch) -> None:
        file = self._open.pop(folder, None) or self._opened(folder)
        self._open[folder] = file  # the last one is the one that was used last
        file.held.append(rows)
        file.held_bytes += rows.nbytes
        file.rows += rows.num_rows
        if self._counts_bytes:
            file.value_bytes += pc.sum(pc.binary_length(rows["value"])).as_py() or 0
        self._held_bytes += rows.nbytes

    def _opened(self, folder: str) -> _OpenFile:
        if len(self._open) >= self._destination.most_open:
            self._close(next(iter(self._open)))
        codec, suffix = CODECS[self._layout.codec]
        # As Spark's file sink names files, so that those in object stores are known as files of an export.
        last = f"part-{self._task:05d}-{uuid4()}-c000{suffix}.parquet"
        name = f"{folder}/{last}" if folder else last
        file = self._destination.create(name)
        # Decimals are as Spark writes them, and Spark does not write Arrow's own schema.
        writer = pq.ParquetWriter(
            file.target, self._schema, compression=codec, store_schema=False, store_decimal_as_integer=True
        )
        writer.add_key_value_metadata({SPARK_SCHEMA: self._layout.spark_schema})
        return _OpenFile(name, file, writer)

    def _close(self, folder: str) -> None:
        file = self._open[folder]
        self._held_bytes -= file.held_bytes
        file.flush()
        file.writer.close()
        file.file.complete()
        del self._open[folder]
        self._complete.append(WrittenFile(file.name, file.rows, file.value_bytes))

    def finish(self) -> list[WrittenFile]:
        """Complete the files and return them; none without rows.

        Raises:
            OSError: a file cannot be written.
        """
        for folder in list(self._open):
            self._close(folder)
        self._finished = True
        return self._complete

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the files of a task that failed."""
        for file in self._open.values():
            with suppress(OSError):
                file.writer.close()
            with suppress(OSError):
                file.file.discard()
        for written in () if self._finished else self._complete:
            with suppress(OSError):
                self._destination.remove(written.file)
