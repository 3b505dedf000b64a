"""The data source of an export to Parquet files: its tasks write the files, and its rows are the files that they wrote.

So messages stay in Arrow's memory and never become rows of Spark. Spark still plans the micro-batches and runs the tasks, and
drops the row of a task that failed, or that ran twice: its files are in no commit.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from readonly_spark.export.errors import ExportError
from readonly_spark.export.file_writer import CODECS, FileLayout, FileWriter
from readonly_spark.export.marker import STAGING
from readonly_spark.export.settings import local_path
from readonly_spark.options import parse_options
from readonly_spark.source import BatchReader, StreamReader, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql.datasource import InputPartition

    from readonly_spark.export.settings import ExportSettings
    from readonly_spark.options import Options

FORMAT: Final = "pulsar-readonly-files"
FILES: Final = "file string, messages bigint, bytes bigint"
"""The columns: the name of a file in the folder of its layout, its rows, and the bytes of their values."""

CODEC: Final = "spark.sql.parquet.compression.codec"
_OPTION: Final = "writtenFiles"
_FILES: Final = pa.schema([("file", pa.string()), ("messages", pa.int64()), ("bytes", pa.int64())])


def options_for(layout: FileLayout, columns: StructType) -> dict[str, str]:
    """Return the options that this source needs beside those of `pulsar-readonly`.

    Args:
        layout: the files to write.
        columns: the columns to read.
    """
    return {_OPTION: json.dumps({"layout": asdict(layout), "columns": columns.jsonValue()})}


def layout_of(settings: ExportSettings, columns: StructType, codec: str) -> FileLayout:
    """Return the files of a table on a local file system.

    Args:
        settings: the export.
        columns: the columns to read.
        codec: Spark's codec for Parquet.

    Raises:
        ExportError: Arrow does not have this codec.
    """
    if codec.lower() not in CODECS:
        raise ExportError(f"--conf {CODEC}={codec}: the export to files supports {', '.join(CODECS)}")
    names = tuple(name for name in settings.table_columns if name not in settings.partition_by)
    path = local_path(settings.to)
    assert path is not None, "other places have rows of Spark"
    schema = StructType([columns[name] for name in names]).json()
    return FileLayout(f"{path.rstrip('/')}/{STAGING}", names, schema, settings.partition_by, codec.lower())


class WrittenFiles(DataSource):
    """Write messages to Parquet files."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of a file."""
        return FILES

    def reader(self, schema: StructType) -> FilesBatchReader:
        """Return the reader of a batch query."""
        del schema
        return FilesBatchReader(*self._parsed(streaming=False))

    def streamReader(self, schema: StructType) -> FilesStreamReader:
        """Return the reader of a streaming query."""
        del schema
        return FilesStreamReader(*self._parsed(streaming=True))

    def _parsed(self, *, streaming: bool) -> tuple[Options, pa.Schema, FileLayout]:
        given: Mapping[str, str] = self.options
        found = json.loads(given[_OPTION])
        named = {name: value for name, value in given.items() if name.lower() != _OPTION.lower()}
        options = parse_options(named, streaming=streaming)
        layout: dict[str, Any] = found["layout"]
        layout |= {name: tuple(layout[name]) for name in ("columns", "partition_by")}
        return options, arrow_schema(StructType.fromJson(found["columns"]), options), FileLayout(**layout)


class FilesBatchReader(BatchReader):
    """Write the messages that exist at planning time."""

    def __init__(self, options: Options, schema: pa.Schema, layout: FileLayout) -> None:
        super().__init__(options, schema)
        self._layout = layout

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Write the files of a task and yield them. Spark calls this in a worker."""
        return _written(super().read(partition), self._schema, self._layout)


class FilesStreamReader(StreamReader):
    """Follow topics, and write their messages."""

    def __init__(self, options: Options, schema: pa.Schema, layout: FileLayout) -> None:
        super().__init__(options, schema)
        self._layout = layout

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Write the files of a task and yield them. Spark calls this in a worker."""
        return _written(super().read(partition), self._schema, self._layout)


def _written(batches: Iterator[pa.RecordBatch], schema: pa.Schema, layout: FileLayout) -> Iterator[pa.RecordBatch]:
    """Write the files of a task, then yield them.

    Raises:
        ExportError: a file cannot be written.
    """
    context = TaskContext.get()
    with FileWriter(layout, schema, 0 if context is None else context.partitionId()) as writer:
        for batch in batches:
            with _named(layout.folder):
                writer.write(batch)
        with _named(layout.folder):
            files = writer.finish()
    if files:
        yield pa.RecordBatch.from_pylist([file._asdict() for file in files], _FILES)


@contextmanager
def _named(folder: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ExportError(f"files below {folder} cannot be written: {error}") from error
