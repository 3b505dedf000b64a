"""The data source `pulsar-readonly`: the classes that Spark calls. Only this module and `export` import Spark.

    spark.dataSource.register(PulsarReadOnly)
    spark.read.format("pulsar-readonly").option("metadataUrl", "zk:...").option("topic", "orders").load()

Spark pickles readers for tasks and makes several of them, so a reader connects on its first query.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.metadata.errors import MetadataError

from readonly_spark.connection import Connection
from readonly_spark.errors import SourceError
from readonly_spark.offsets import Offsets
from readonly_spark.options import EARLIEST, LATEST, RAW, OptionError, parse_options
from readonly_spark.outages import Outages, is_transient
from readonly_spark.plan.admission import Limits
from readonly_spark.read.task_reader import read_task
from readonly_spark.rows.columns import BY_NAME, COLUMNS, NAMES, RAW_VALUE
from readonly_spark.values.type_names import TypeNameError, arrow_type, spark_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql.types import StructType
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


log = logging.getLogger(__name__)

FORMAT: Final = "pulsar-readonly"

_PLANNER: Final = "pyspark.sql.streaming.python_streaming_source_runner"


class TaskPartition(InputPartition):
    """The plan of one task as Spark's InputPartition."""

    def __init__(self, plan: TaskPlan) -> None:
        super().__init__(None)
        self.plan = plan

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
        value = BY_NAME["value"].spark
        if options.value_schema != RAW:
            connection = Connection(options)
            try:
                value = spark_name(connection.call(lambda: _value_type(connection.catalog)))
            finally:
                connection.close()
        columns = [*COLUMNS, RAW_VALUE] if options.raw_value else COLUMNS
        return ", ".join(f"{column.name} {value if column.name == 'value' else column.spark}" for column in columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        options = parse_options(self.options, streaming=False)
        return BatchReader(options, arrow_schema(schema, options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a streaming query."""
        options = parse_options(self.options, streaming=True)
        return StreamReader(options, arrow_schema(schema, options))


async def _value_type(catalog: Catalog) -> pa.DataType:
    return await catalog.value_type(await catalog.remaining_topics())


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


def _read(partition: InputPartition, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    _freeze_loaded_modules()
    # Without partitions Spark makes one of its own.
    if isinstance(partition, TaskPartition):
        yield from read_task(partition.plan, schema)


@cache
def _freeze_loaded_modules() -> None:
    """Exclude loaded modules from garbage collection, once per worker: Spark runs a full collection after every task."""
    gc.collect()
    gc.freeze()


class BatchReader(DataSourceReader):
    """Read the messages that exist at planning time."""

    def __init__(self, options: Options, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks. Spark calls this on the driver."""
        connection = Connection(self._options)
        try:
            return [TaskPartition(plan) for plan in connection.call(lambda: self._plans(connection.planner))]
        finally:
            connection.close()

    async def _plans(self, planner: Planner) -> list[TaskPlan]:
        states = await planner.states()
        starts = await planner.starts(states, EARLIEST)
        return await planner.tasks(states, starts, await planner.ends(states))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of a task. Spark calls this in a worker."""
        return _read(partition, self._schema)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follow topics. The rows between two offsets are the same whenever they are read."""

    def __init__(self, options: Options, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._connected: Connection | None = None
        self._cluster = ""
        self._frozen: dict[str, Position] | None = None
        self._latest: dict[str, Position] = {}
        self._admitted: tuple[dict[str, Position], dict[str, TopicState]] = ({}, {})
        self._outages = Outages(options.retry_s)
        self._replaced: dict[str, int] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out connections and planning state: Spark sends readers to tasks."""
        return {**self.__dict__, "_connected": None, "_latest": {}, "_admitted": ({}, {})}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @property
    def _connection(self) -> Connection:
        if self._connected is None:
            self._connected = Connection(self._options)
            self._cluster = self._connected.call(self._connected.catalog.cluster_id)
        return self._connected

    def initialOffset(self) -> dict[str, Any]:
        """Return the start of a new query. Spark calls this without a checkpoint."""
        planner = self._connection.planner

        async def starts() -> dict[str, Position]:
            return await planner.starts(await planner.states(), LATEST)

        return Offsets(self._cluster, self._connection.call(starts)).to_dict()

    def getDefaultReadLimit(self) -> Any:
        """Return the limit of the options, which `latestOffset` applies. Spark 4.2 and later call this."""
        if self._options.trigger_bytes is not None:
            return ReadMaxBytes(self._options.trigger_bytes)
        if self._options.trigger_messages is not None:
            return ReadMaxRows(self._options.trigger_messages)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """Return the end of the next micro-batch. Spark 4.0 and 4.1 pass no arguments; then there is no limit."""
        connection = self._connection
        before = Offsets(self._cluster, {}) if start is None else Offsets.from_dict(start, self._cluster)
        starts = before.topics
        unlimited = start is None or ReadAllAvailable is None or limit is None or isinstance(limit, ReadAllAvailable)
        options = self._options
        limits = Limits() if unlimited else Limits(options.trigger_bytes, options.trigger_messages)
        # A run with availableNow ends when nothing is left, so it waits. A stream tries again with its next trigger.
        wait = self._frozen is not None or not (starts or self._admitted[0])
        try:
            ends = connection.call(lambda: self._ends(connection.planner, before, limits, wait=wait), retry=wait)
        except (MetadataError, BookKeeperError) as error:
            self._tolerate("", error)
            return Offsets(self._cluster, starts or self._admitted[0], before.following).to_dict()
        self._outages.ended([""])
        return Offsets(self._cluster, ends, self._following(ends, before.following)).to_dict()

    def _following(self, ends: Mapping[str, Position], before: Mapping[str, int]) -> dict[str, int]:
        """Return the ledger after each closed one that was read to its end with this micro-batch."""
        _, states = self._admitted
        found: dict[str, int | None] = {}
        for name, end in ends.items():
            if name in self._replaced:
                found[name] = self._replaced[name]
            elif name in states:
                found[name] = states[name].following if end == states[name].latest else None
            else:  # it cannot be read now, and stays where it is
                found[name] = before.get(name)
        return {name: ledger for name, ledger in found.items() if ledger is not None}

    async def _ends(self, planner: Planner, start: Offsets, limits: Limits, *, wait: bool) -> dict[str, Position]:
        frozen, starts = self._frozen, start.topics
        before = starts or self._admitted[0]  # without limits Spark passes no start
        states, failed = await planner.reachable_states(frozen, before)
        refused = not states and not any(map(is_transient, failed.values()))
        if failed and (wait or refused):
            raise min(failed.values(), key=is_transient)
        for name, error in failed.items():
            self._tolerate(name, error)
        self._outages.ended(states)
        self._outages.keep(["", *states, *failed])
        ends = {name: state.latest for name, state in states.items()}
        self._latest = ends
        if frozen is not None:
            ends = {name: min(end, frozen[name]) for name, end in ends.items()}
        # A topic that cannot be read now stays where it is.
        held = {name: before[name] for name in failed if name in before}
        # A topic whose last ledger was replaced stays for one micro-batch, which records the new one.
        self._replaced = {}
        for name, position in starts.items():
            if (
                name in states
                and name in self._admitted[1]
                and states[name].gap(position, ends[name], start.following.get(name))
            ):
                ledger = states[name].replacement(self._admitted[1][name], position, start.following.get(name))
                if ledger is not None:
                    self._replaced[name], held[name] = ledger, position
        admitted = {**planner.admit(starts, states, ends, limits), **held}
        self._admitted = (admitted, states)
        return admitted

    def _tolerate(self, name: str, error: Exception) -> None:
        """Go on without a topic that cannot be read, or without any (no name), for the time of the option `retryTimeout`.

        Raises:
            SourceError: this time is over.
        """
        now, what = time.monotonic(), name or "all topics"
        if self._outages.failed(name, now) is None:
            raise SourceError(
                f"{name or 'the cluster'} could not be read for {self._options.retry_s:g} s: {error}"
            ) from error
        if self._outages.to_log(name, now):
            log.warning("%s cannot be read now, the stream goes on without it: %s", what, error)

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return the latest known ends for the query's progress. Spark 4.2 and later call this."""
        return Offsets(self._cluster, self._latest).to_dict()

    def prepareForTriggerAvailableNow(self) -> None:
        """Leave later messages and new topics to the next run. Spark 4.2 and later call this."""
        connection = self._connection
        states = connection.call(connection.planner.remaining_states)
        self._frozen = {name: state.latest for name, state in states.items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks between two offsets. After a restart Spark calls this again with the same offsets."""
        connection = self._connection
        begin = Offsets.from_dict(start, self._cluster)
        ends = Offsets.from_dict(end, self._cluster).topics
        # Spark requests the tasks right after the end, so the topics need not be queried twice.
        admitted, states = self._admitted
        known = states if admitted == ends else {}
        return [
            TaskPartition(plan) for plan in connection.call(lambda: _between(connection.planner, begin, ends, known))
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of a task. Spark calls this in a worker."""
        return _read(partition, self._schema)

    def stop(self) -> None:
        """Close the connection. Spark calls this when the query ends."""
        if self._connected is not None:
            self._connected.close()
            self._connected = None
        if _is_planner() and isinstance(sys.exc_info()[1], EOFError):
            # The JVM closed its end, as it does at the end of a query. Spark's planner (4.2) would report this as an error
            # and print tracebacks of a broken pipe. The process has nothing else left to do.
            os._exit(0)


def _is_planner() -> bool:
    """Return whether this process only plans one query."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name == _PLANNER


async def _between(
    planner: Planner, begin: Offsets, ends: Mapping[str, Position], known: Mapping[str, TopicState]
) -> list[TaskPlan]:
    moved = [name for name, end in ends.items() if begin.topics.get(name) != end]
    states = known or await planner.states(moved)
    return await planner.tasks(states, begin.topics, {name: ends[name] for name in moved}, begin.following)


__all__ = ["FORMAT", "BatchReader", "PulsarReadOnly", "StreamReader", "TaskPartition", "arrow_schema"]
