"""The data source `pulsar-readonly` as Spark sees it: thin, everything else knows nothing of Spark.

    spark.dataSource.register(PulsarReadOnly)
    spark.read.format("pulsar-readonly").option("metadataUrl", "zk:...").option("topic", "orders").load()

Spark pickles readers to send them to tasks and makes several of them: nothing is connected before something is asked.
"""

from __future__ import annotations

import gc
import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.metadata.errors import MetadataError

from readonly_spark.errors import SourceError
from readonly_spark.loop_thread import LoopThread
from readonly_spark.offsets import Offsets
from readonly_spark.options import EARLIEST, LATEST, RAW, OptionError, parse_options
from readonly_spark.plan.admission import Limits
from readonly_spark.plan.catalog import Catalog
from readonly_spark.plan.planner import Planner
from readonly_spark.read.task_reader import read_work
from readonly_spark.rows.columns import BY_NAME, COLUMNS, NAMES
from readonly_spark.values.schema import value_type
from readonly_spark.values.type_names import TypeNameError, arrow_type, spark_name

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping, Sequence
    from typing import TypeVar

    from pyspark.sql.types import StructType
    from readonly_engine.topic.position import Position

    from readonly_spark.options import Options
    from readonly_spark.plan.topic_state import TopicState
    from readonly_spark.task import Work

    T = TypeVar("T")

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
        """Stands in for Spark's class of this name, which these versions do not ask for."""


FORMAT: Final = "pulsar-readonly"

_PLANNER: Final = "pyspark.sql.streaming.python_streaming_source_runner"

PLAN_TIMEOUT_S: Final = 300.0
"""For one step of planning, over all topics; each request in it has a deadline of its own."""


class TaskPartition(InputPartition):
    """The work of one task, in the wrapping that Spark asks for."""

    def __init__(self, work: Work) -> None:
        super().__init__(None)
        self.work = work

    def __repr__(self) -> str:
        pieces = self.work.pieces
        return f"{pieces[0].topic} {pieces[0].ledger.ledger_id}:{pieces[0].first} ({len(pieces)} pieces)"


class PulsarReadOnly(DataSource):
    """Reads topics of Apache Pulsar straight from storage."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> str:
        """All columns; with a schema of values, `value` is of its type."""
        options = parse_options(self.options, streaming=None)
        value = BY_NAME["value"].spark
        if options.value_schema != RAW:
            connection = _Connection(options)
            try:
                value = spark_name(connection.call(_value_type(connection.catalog)))
            finally:
                connection.close()
        return ", ".join(f"{column.name} {value if column.name == 'value' else column.spark}" for column in COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For batches."""
        options = parse_options(self.options, streaming=False)
        return BatchReader(options, arrow_schema(schema, options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For streams."""
        options = parse_options(self.options, streaming=True)
        return StreamReader(options, arrow_schema(schema, options))


async def _value_type(catalog: Catalog) -> pa.DataType:
    schema = await catalog.value_schema(await catalog.topics())
    assert schema is not None
    return value_type(schema.newest)


def arrow_schema(schema: StructType, options: Options) -> pa.Schema:
    """The wanted columns in Arrow's terms.

    Args:
        schema: the columns as Spark wants them.
        options: say whether values are decoded: then they have the type that Spark wants, so that a query keeps the type with
            which it was planned.

    Raises:
        OptionError: a column that there is not, or of another type.
    """
    fields = []
    for wanted in schema.fields:
        column = BY_NAME.get(wanted.name)
        if column is None:
            raise OptionError(f"schema: there is no column {wanted.name!r}; there are {', '.join(NAMES)}")
        if column.name == "value" and options.value_schema != RAW:
            try:
                fields.append(pa.field("value", arrow_type(wanted.dataType.jsonValue())))
            except TypeNameError as error:
                raise OptionError(f"schema: {error}") from None
            continue
        if wanted.dataType.simpleString() != column.spark:
            raise OptionError(f"schema: column {wanted.name} is {column.spark}, not {wanted.dataType.simpleString()}")
        fields.append(pa.field(column.name, column.arrow))
    return pa.schema(fields)


class _Connection:
    """A catalog and its planner behind blocking calls."""

    def __init__(self, options: Options) -> None:
        self._loop = LoopThread()
        try:
            self.catalog = self.call(_opened(options))
        except BaseException:
            self._loop.stop()
            raise
        self.planner = Planner(self.catalog, options)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine; errors of the cluster come as SourceError."""
        try:
            return self._loop.call(work, PLAN_TIMEOUT_S)
        except (MetadataError, BookKeeperError) as error:
            raise SourceError(str(error)) from error
        except TimeoutError:
            raise SourceError(f"planning has taken more than {PLAN_TIMEOUT_S:g} s") from None

    def close(self) -> None:
        try:
            self._loop.call(self.catalog.close(), PLAN_TIMEOUT_S)
        finally:
            self._loop.stop()


async def _opened(options: Options) -> Catalog:
    catalog = Catalog(options)
    await catalog.open()
    return catalog


def _read(partition: InputPartition, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    _set_aside_what_is_loaded()
    # Where there is nothing to read Spark makes up a partition of its own.
    if isinstance(partition, TaskPartition):
        yield from read_work(partition.work, schema)


@cache
def _set_aside_what_is_loaded() -> None:
    """Once in a worker: Spark collects garbage after every task, and would look through all modules each time."""
    gc.collect()
    gc.freeze()


class BatchReader(DataSourceReader):
    """Reads what there is when it is planned."""

    def __init__(self, options: Options, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Called by Spark on the driver."""
        connection = _Connection(self._options)
        try:
            return [TaskPartition(work) for work in connection.call(self._plan(connection.planner))]
        finally:
            connection.close()

    async def _plan(self, planner: Planner) -> list[Work]:
        states = await planner.states()
        starts = await planner.starts(states, EARLIEST)
        return await planner.work(states, starts, await planner.ends(states))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Called by Spark in a task."""
        return _read(partition, self._schema)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows topics. What lies between two offsets is the same whenever it is read."""

    def __init__(self, options: Options, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._connected: _Connection | None = None
        self._cluster = ""
        self._frozen: dict[str, Position] | None = None
        self._seen: dict[str, Position] = {}
        self._admitted: tuple[dict[str, Position], dict[str, TopicState]] = ({}, {})

    def __getstate__(self) -> dict[str, Any]:
        """Spark sends readers to tasks: without their connections, and what only plans need."""
        return {**self.__dict__, "_connected": None, "_seen": {}, "_admitted": ({}, {})}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @property
    def _connection(self) -> _Connection:
        if self._connected is None:
            self._connected = _Connection(self._options)
            self._cluster = self._connected.call(self._connected.catalog.cluster_id())
        return self._connected

    def initialOffset(self) -> dict[str, Any]:
        """Called by Spark when a query starts for the first time."""
        planner = self._connection.planner

        async def starts() -> dict[str, Position]:
            return await planner.starts(await planner.states(), LATEST)

        return Offsets(self._cluster, self._connection.call(starts())).to_dict()

    def getDefaultReadLimit(self) -> Any:
        """Called by Spark 4.2 and later: which limits there are. They are applied by `latestOffset`."""
        if self._options.trigger_bytes is not None:
            return ReadMaxBytes(self._options.trigger_bytes)
        if self._options.trigger_messages is not None:
            return ReadMaxRows(self._options.trigger_messages)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """Called by Spark for each micro-batch; by 4.0 and 4.1 without arguments, which then take all that there is."""
        connection = self._connection
        starts = {} if start is None else Offsets.from_dict(start, self._cluster).topics
        unlimited = start is None or ReadAllAvailable is None or limit is None or isinstance(limit, ReadAllAvailable)
        options = self._options
        limits = Limits() if unlimited else Limits(options.trigger_bytes, options.trigger_messages)
        ends = connection.call(self._ends(connection.planner, starts, limits))
        return Offsets(self._cluster, ends).to_dict()

    async def _ends(self, planner: Planner, starts: Mapping[str, Position], limits: Limits) -> dict[str, Position]:
        frozen = self._frozen
        states = await planner.states(None if frozen is None else frozen)
        ends = {name: state.latest for name, state in states.items()}
        self._seen = ends
        if frozen is not None:
            ends = {name: min(end, frozen[name]) for name, end in ends.items()}
        admitted = planner.admit(starts, states, ends, limits)
        self._admitted = (admitted, states)
        return admitted

    def reportLatestOffset(self) -> dict[str, Any]:
        """Called by Spark 4.2 and later, for the query's progress: what was there when it was last looked at."""
        return Offsets(self._cluster, self._seen).to_dict()

    def prepareForTriggerAvailableNow(self) -> None:
        """Called by Spark 4.2 and later: what comes from now on, new topics too, is left to the next run."""
        connection = self._connection
        states = connection.call(connection.planner.states())
        self._frozen = {name: state.latest for name, state in states.items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Called by Spark on the driver, again with the same offsets when a query is started again."""
        connection = self._connection
        starts = Offsets.from_dict(start, self._cluster).topics
        ends = Offsets.from_dict(end, self._cluster).topics
        # Spark asks for the tasks right after the end: the topics need not be looked at twice.
        admitted, states = self._admitted
        known = states if admitted == ends else {}
        return [TaskPartition(work) for work in connection.call(_between(connection.planner, starts, ends, known))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Called by Spark in a task."""
        return _read(partition, self._schema)

    def stop(self) -> None:
        """Called by Spark when the query ends."""
        if self._connected is not None:
            self._connected.close()
            self._connected = None
        if _is_planner() and isinstance(sys.exc_info()[1], EOFError):
            # The JVM has closed its end, which is how a query ends. Spark's planner (4.2) would go on to write to it that this is
            # an error, and print tracebacks of a broken pipe; there is nothing else left for its process to do.
            os._exit(0)


def _is_planner() -> bool:
    """Whether this process is there for one query's plans and for nothing else."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name == _PLANNER


async def _between(
    planner: Planner, starts: Mapping[str, Position], ends: Mapping[str, Position], known: Mapping[str, TopicState]
) -> list[Work]:
    moved = [name for name, end in ends.items() if starts.get(name) != end]
    states = known or await planner.states(moved)
    return await planner.work(states, starts, {name: ends[name] for name in moved})


__all__ = ["FORMAT", "BatchReader", "PulsarReadOnly", "StreamReader", "TaskPartition", "arrow_schema"]
