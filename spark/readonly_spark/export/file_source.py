"""The data source of an export to Parquet files: its tasks write the files, and its rows are the files that they wrote.

So messages stay in Arrow's memory and never become rows of Spark. Spark still plans the micro-batches and runs the tasks, and
drops the row of a task that failed, or that ran twice: its files are in no commit.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from readonly_spark.export.destinations import Target
from readonly_spark.export.errors import ExportError
from readonly_spark.export.file_writer import CODECS, FileLayout, FileWriter
from readonly_spark.export.store_leftovers import tagged_schema
from readonly_spark.export.store_settings import StoreSettings
from readonly_spark.options import parse_options
from readonly_spark.source import BatchReader, StreamReader, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql.datasource import InputPartition

    from readonly_spark.export.settings import ExportSettings
    from readonly_spark.options import Options

FORMAT: Final = "pulsar-readonly-files"
FILES: Final = "file string, messages bigint, bytes bigint"
"""The columns: the name of a file relative to the target's folder, its rows, and the bytes of their values."""

CODEC: Final = "spark.sql.parquet.compression.codec"
_OPTION: Final = "writtenFiles"
_SECRETS: Final = "writtenFilesSecrets"
"""The keys of the store. Spark shows no value of a name like this (spark.redaction.regex)."""

# Of a task in a micro-batch, set by Spark (StreamExecution.QUERY_ID_KEY, MicroBatchExecution.BATCH_ID_KEY).
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
_FILES: Final = pa.schema([("file", pa.string()), ("messages", pa.int64()), ("bytes", pa.int64())])


def options_for(layout: FileLayout, target: Target, columns: StructType) -> dict[str, str]:
    """Return the options that this source needs beside those of `pulsar-readonly`.

    Args:
        layout: the files to write.
        target: where to write them.
        columns: the columns to read.
    """
    given = asdict(target)
    keys = None if target.store is None else given["store"].pop("keys")
    made = {"layout": asdict(layout), "target": given, "columns": columns.jsonValue()}
    return {_OPTION: json.dumps(made), **({} if keys is None else {_SECRETS: json.dumps(keys)})}


def layout_of(settings: ExportSettings, columns: StructType, codec: str) -> FileLayout:
    """Return the files of a table.

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
    schema = StructType([columns[name] for name in names]).json()
    return FileLayout(names, schema, settings.partition_by, codec.lower())


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

    def _parsed(self, *, streaming: bool) -> tuple[Options, pa.Schema, FileLayout, Target]:
        given: Mapping[str, str] = self.options
        found = json.loads(given[_OPTION])
        own = {_OPTION.lower(), _SECRETS.lower()}
        named = {name: value for name, value in given.items() if name.lower() not in own}
        options = parse_options(named, streaming=streaming)
        layout: dict[str, Any] = found["layout"]
        layout |= {name: tuple(layout[name]) for name in ("columns", "partition_by")}
        target: dict[str, Any] = found["target"]
        if target["store"] is not None:
            target["store"] = StoreSettings(**target["store"], keys=tuple(json.loads(given[_SECRETS])))
        schema = arrow_schema(StructType.fromJson(found["columns"]), options)
        return options, schema, FileLayout(**layout), Target(**target)


class FilesBatchReader(BatchReader):
    """Write the messages that exist at planning time."""

    def __init__(self, options: Options, schema: pa.Schema, layout: FileLayout, target: Target) -> None:
        super().__init__(options, schema)
        self._layout = layout
        self._target = target

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Write the files of a task and yield them. Spark calls this in a worker."""
        return _written(super().read(partition), self._schema, self._layout, self._target)


class FilesStreamReader(StreamReader):
    """Follow topics, and write their messages."""

    def __init__(self, options: Options, schema: pa.Schema, layout: FileLayout, target: Target) -> None:
        super().__init__(options, schema)
        self._layout = layout
        self._target = target

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Write the files of a task and yield them. Spark calls this in a worker."""
        return _written(super().read(partition), self._schema, self._layout, self._target)


def _written(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, layout: FileLayout, target: Target
) -> Iterator[pa.RecordBatch]:
    """Write the files of a task, then yield them.

    Raises:
        ExportError: a file cannot be written.
    """
    context = TaskContext.get()
    task, query, number = 0, None, None
    if context is not None:
        task, query, number = context.partitionId(), context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
    if target.store is not None and query is not None and number is not None:
        layout = replace(layout, spark_schema=tagged_schema(layout.spark_schema, query, number))
    with _named(target.where):
        destination = target.open()
    with FileWriter(layout, destination, schema, task) as writer:
        for batch in batches:
            with _named(target.where):
                writer.write(batch)
        with _named(target.where):
            files = writer.finish()
    if files:
        yield pa.RecordBatch.from_pylist([file._asdict() for file in files], _FILES)


@contextmanager
def _named(where: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ExportError(f"files below {where} cannot be written: {error}") from error
