"""The data source `pulsar-readonly`: the classes that Spark calls. Only this module and `export` import Spark.

    spark.dataSource.register(PulsarReadOnly)
    spark.read.format("pulsar-readonly").option("metadataStoreUrl", "zk:...").option("topic", "orders").load()

Spark pickles readers for tasks and makes several of them, so a reader connects on its first query.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
import zlib
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyspark
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from readonly_spark.connection import Connection
from readonly_spark.option_values import RAW
from readonly_spark.options import OptionError, parse_options
from readonly_spark.plan.admission import Limits
from readonly_spark.position_options import EARLIEST
from readonly_spark.read.task_reader import read_task
from readonly_spark.rows.columns import BY_NAME, COLUMNS, NAMES, RAW_VALUE
from readonly_spark.rows.field_columns import (
    PREFIX,
    FieldColumnsError,
    field_types,
    source_column,
    with_field_columns,
)
from readonly_spark.stream import StreamPlanner
from readonly_spark.values.type_names import TypeNameError, arrow_type, column_name, spark_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from readonly_engine.topic.position import Position

    from readonly_spark.options import Options
    from readonly_spark.plan.catalog import Catalog
    from readonly_spark.plan.planner import Planner
    from readonly_spark.plan.topic_state import TopicState
    from readonly_spark.task import TaskPlan

try:  # Spark 4.2 and later
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # 4.0 and 4.1: streams without limits
    ReadAllAvailable = ReadMaxBytes = ReadMaxRows = None  # type: ignore[assignment, misc]

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Replace Spark's class of this name, which these versions do not have."""


FORMAT: Final = "pulsar-readonly"

_PLANNER: Final = "pyspark.sql.streaming.python_streaming_source_runner"


class TaskPartition(InputPartition):
    """The plan of one task as Spark's InputPartition.

    Spark sends it compressed: a task of 1,000 small topics has 5,000 versions of schemas, which are much alike.
    """

    def __init__(self, plan: TaskPlan) -> None:
        super().__init__(None)
        self.plan = plan

    def __getstate__(self) -> bytes:
        return zlib.compress(pickle.dumps(self.plan))

    def __setstate__(self, state: bytes) -> None:
        self.__init__(pickle.loads(zlib.decompress(state)))  # type: ignore[misc]  # noqa: S301  from Spark's own pickle

    def __repr__(self) -> str:
        ranges = self.plan.ranges
        return f"{ranges[0].topic} {ranges[0].ledger.ledger_id}:{ranges[0].first} ({len(ranges)} ranges)"


class PulsarReadOnly(DataSource):
    """Read Pulsar topics from bookies and tiered storage."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return all columns; with a value schema, `value` has its type."""
        options = parse_options(self.options, streaming=None)
        columns = [*COLUMNS, RAW_VALUE] if options.raw_value else COLUMNS
        if options.value_schema == RAW:
            return ", ".join(f"{column.name} {column.spark}" for column in columns)
        connection = Connection(options)
        try:
            value = connection.call(lambda: _value_type(connection.catalog))
        finally:
            connection.close()
        if options.field_columns:
            others = [column for column in columns if column.name != "value"]
            try:
                fields = field_types(value, (column.name for column in others))
            except FieldColumnsError as error:
                raise OptionError(str(error)) from None
            described = [(column_name(name), kind) for name, kind in fields]
            described += [(f"{PREFIX}{column.name}", column.spark) for column in others]
        else:
            described = [
                (column.name, spark_name(value) if column.name == "value" else column.spark) for column in columns
            ]
        return ", ".join(f"{name} {kind}" for name, kind in described)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query. Spark calls this in a worker, as it does `partitions`."""
        _freeze_loaded_modules()
        options = parse_options(self.options, streaming=False)
        return BatchReader(options, *_requested(schema, options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a streaming query. Spark calls this in a worker or in its planner."""
        _freeze_loaded_modules()
        options = parse_options(self.options, streaming=True)
        limits = {"maxBytesPerTrigger": options.trigger_bytes, "maxMessagesPerTrigger": options.trigger_messages}
        for name, limit in limits.items():
            if limit is not None and ReadAllAvailable is None:
                raise OptionError(f"{name} requires Spark 4.2 or later; this is {pyspark.__version__}")
        return StreamReader(options, *_requested(schema, options))


async def _value_type(catalog: Catalog) -> pa.DataType:
    return await catalog.value_type(await catalog.selection.remaining())


def arrow_schema(schema: StructType, options: Options) -> pa.Schema:
    """Return the requested columns as an Arrow schema.

    Args:
        schema: the columns that Spark requests.
        options: the options of the source. Decoded values have the type that Spark requests, so a query keeps the type that it
            was planned with.

    Raises:
        OptionError: a column does not exist, or has another type.
    """
    fields = []
    for requested in schema.fields:
        column = BY_NAME.get(requested.name)
        if column is None:
            raise OptionError(f"schema: unknown column {requested.name!r}; the columns are {', '.join(NAMES)}")
        if column.name == "value" and options.value_schema != RAW:
            try:
                fields.append(pa.field("value", arrow_type(requested.dataType.jsonValue())))
            except TypeNameError as error:
                raise OptionError(f"schema: {error}") from None
            continue
        if requested.dataType.simpleString() != column.spark:
            raise OptionError(
                f"schema: column {requested.name} has type {column.spark}, not {requested.dataType.simpleString()}"
            )
        fields.append(pa.field(column.name, column.arrow))
    return pa.schema(fields)


def _requested(schema: StructType, options: Options) -> tuple[pa.Schema, tuple[str, ...] | None]:
    """Return the columns to read, and the names of the columns to return if they differ (option `fieldColumns`).

    Raises:
        OptionError: a column has another type, or a field has a type that is not supported.
    """
    if not options.field_columns:
        return arrow_schema(schema, options), None
    inner = StructType()
    fields = StructType()
    for requested in schema.fields:
        name = source_column(requested.name)
        if name is None:
            fields.add(requested)
        else:
            inner.add(name, requested.dataType)
    if fields.fields:
        inner.add("value", fields)
    return arrow_schema(inner, options), tuple(schema.names)


def _read(partition: InputPartition, schema: pa.Schema, names: tuple[str, ...] | None) -> Iterator[pa.RecordBatch]:
    _freeze_loaded_modules()
    # Without partitions Spark makes one of its own.
    if isinstance(partition, TaskPartition):
        for batch in read_task(partition.plan, schema):
            yield batch if names is None else with_field_columns(batch, names)


@cache
def _freeze_loaded_modules() -> None:
    """Exclude loaded modules from garbage collection, once per worker.

    Spark runs a full collection after each task and each step of planning, of 40 ms with our modules (measured). Other
    processes, such as a user's program, keep their settings.
    """
    if _main_module().startswith("pyspark."):
        gc.collect()
        gc.freeze()


class BatchReader(DataSourceReader):
    """Read the messages that exist at planning time."""

    def __init__(self, options: Options, schema: pa.Schema, names: tuple[str, ...] | None = None) -> None:
        self._options = options
        self._schema = schema
        self._names = names

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks. Spark calls this on the driver."""
        connection = Connection(self._options)
        try:
            planner = connection.planner
            plans = connection.call(lambda: planner.tasks_of(lambda: self._ranges(planner)))
            return [TaskPartition(plan) for plan in plans]
        finally:
            connection.close()

    async def _ranges(self, planner: Planner) -> tuple[dict[str, TopicState], dict[str, Position], dict[str, Position]]:
        states = await planner.states()
        return states, await planner.starts(states, EARLIEST), await planner.ends(states)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of a task. Spark calls this in a worker."""
        return _read(partition, self._schema, self._names)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follow topics. The rows between two offsets are the same whenever they are read."""

    def __init__(self, options: Options, schema: pa.Schema, names: tuple[str, ...] | None = None) -> None:
        self._options = options
        self._schema = schema
        self._names = names
        self._planned: StreamPlanner | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the planner: Spark sends readers to tasks."""
        return {**self.__dict__, "_planned": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @property
    def _planner(self) -> StreamPlanner:
        if self._planned is None:
            self._planned = StreamPlanner(self._options)
        return self._planned

    def initialOffset(self) -> dict[str, Any]:
        """Return the start of a new query. Spark calls this without a checkpoint."""
        return self._planner.start()

    def getDefaultReadLimit(self) -> Any:
        """Return the limit of the options, which `latestOffset` applies. Spark 4.2 and later call this."""
        if self._options.trigger_bytes is not None:
            return ReadMaxBytes(self._options.trigger_bytes)
        if self._options.trigger_messages is not None:
            return ReadMaxRows(self._options.trigger_messages)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """Return the end of the next micro-batch. Spark 4.0 and 4.1 pass no arguments; then there is no limit."""
        unlimited = start is None or ReadAllAvailable is None or limit is None or isinstance(limit, ReadAllAvailable)
        options = self._options
        return self._planner.end(
            start, Limits() if unlimited else Limits(options.trigger_bytes, options.trigger_messages)
        )

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return the latest known ends for the query's progress. Spark 4.2 and later call this."""
        return self._planner.reported()

    def prepareForTriggerAvailableNow(self) -> None:
        """Leave later messages and new topics to the next run. Spark 4.2 and later call this."""
        self._planner.freeze()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks between two offsets. After a restart Spark calls this again with the same offsets."""
        return [TaskPartition(plan) for plan in self._planner.tasks(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of a task. Spark calls this in a worker."""
        return _read(partition, self._schema, self._names)

    def commit(self, end: dict[str, Any]) -> None:
        """Note that the sink has everything up to an offset. Spark calls this before the next micro-batch."""
        self._planner.commit(end)

    def stop(self) -> None:
        """Close the connection. Spark calls this when the query ends."""
        if self._planned is not None:
            self._planned.close()
            self._planned = None
        if _is_planner() and isinstance(sys.exc_info()[1], EOFError):
            # The JVM closed its end, as it does at the end of a query. Spark's planner (4.2) would report this as an error
            # and print tracebacks of a broken pipe. The process has nothing else left to do.
            os._exit(0)


def _is_planner() -> bool:
    """Return whether this process only plans one query."""
    return _main_module() == _PLANNER


def _main_module() -> str:
    """Return the module that this process was started with, or nothing if it was not started with `-m`."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec.name if spec is not None else ""


__all__ = [
    "FORMAT", "BatchReader", "PulsarReadOnly", "StreamReader", "TaskPartition", "arrow_schema"
]  # fmt: skip
