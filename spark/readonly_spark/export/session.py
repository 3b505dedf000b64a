"""The Spark session of an export, and its query."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyspark
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from readonly_spark.export.errors import ExportError
from readonly_spark.export.field_names import check_field_names
from readonly_spark.export.file_source import CODEC, FILES, WrittenFiles, layout_of, options_for
from readonly_spark.export.file_source import FORMAT as FILES_FORMAT
from readonly_spark.export.progress import ProgressListener
from readonly_spark.export.settings import AVAILABLE_NOW, DELTA, DERIVED
from readonly_spark.export.totals import OBSERVED
from readonly_spark.rows.columns import COLUMNS
from readonly_spark.source import FORMAT, PulsarReadOnly

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader

    from readonly_spark.export.destinations import Target
    from readonly_spark.export.settings import ExportSettings
    from readonly_spark.export.table import ExportTable
    from readonly_spark.export.totals import Totals

PACKAGES: Final = ("readonly_spark", "readonly_engine")
JARS_VARIABLE: Final = "PULSAR_READONLY_SPARK_JARS"
_DELTA: Final = "io.delta.sql.DeltaSparkSessionExtension"
_UNPACKED: Final = shutil.ignore_patterns("__pycache__", "*.c", "*.so")

_CONFIGURATION: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
_FAILURE_LOGGERS: Final = ("org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",)


def check_version() -> None:
    """Check that Spark can run an export.

    Raises:
        ExportError: Spark does not limit the micro-batches of a Python source.
    """
    if find_spec("pyspark.sql.streaming.datasource") is None:
        raise ExportError(f"an export requires Spark 4.2 or later; this is {pyspark.__version__}")


@contextmanager
def session(
    settings: ExportSettings, master: str | None, jars: str, configuration: Mapping[str, str], *, ship: bool
) -> Iterator[SparkSession]:
    """Open a session for the export; it ends with the context.

    Args:
        settings: the export.
        master: Spark's master; None for the one of spark-submit, else local.
        jars: files or folders of jars, separated by commas.
        configuration: the user's Spark settings, which override the defaults.
        ship: whether to send this project's code to the executors.

    Raises:
        ExportError: jars are missing, or executors on other machines would not see the table's folder.
    """
    # Local tasks need this Python; executors of a cluster have their own.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"pulsar-readonly export to {settings.to}")
    submitted = os.environ.get("PYSPARK_GATEWAY_PORT") is not None
    if master is not None or not submitted:
        builder = builder.master(master or "local[*]")
    found = [] if submitted else _jars(jars)  # spark-submit has started the JVM with its jars
    if found:
        builder = builder.config("spark.jars", ",".join(found))
    if settings.table_format == DELTA:
        named = any("delta" in Path(jar).name for jar in found) or submitted
        if not named and not {"spark.jars.packages", "spark.jars"} & configuration.keys():
            raise ExportError(
                f"--format delta requires Delta's jars: set --jars or {JARS_VARIABLE} (the spark image has them), "
                "or let Spark download them: --conf spark.jars.packages=io.delta:delta-spark_4.2_2.13:4.4.0"
            )
        if not submitted and (master or "local").startswith("local"):
            builder = builder.config(
                "spark.databricks.delta.snapshotPartitions", "4"
            )  # the default of 50 suits a cluster
        builder = builder.config("spark.sql.extensions", _DELTA)
        builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    for name, value in {**_CONFIGURATION, **configuration}.items():
        builder = builder.config(name, value)
    with tempfile.TemporaryDirectory(prefix="pulsar-readonly-export-") as folder:
        archive = str(packed(Path(folder))) if ship else ""
        if ship:
            # The driver's planner process imports from PYTHONPATH; only tasks import from addPyFile.
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [archive, os.environ.get("PYTHONPATH", "")]))
        spark = builder.getOrCreate()
        try:
            settings.check_master(str(spark.sparkContext.master))
            if ship:
                spark.sparkContext.addPyFile(archive)
            spark.dataSource.register(PulsarReadOnly)
            if "spark.log.level" not in configuration:
                _keep_quiet(spark)
            yield spark
        finally:
            with suppress(OSError, Py4JError):  # a signal to the process group may have ended the JVM
                spark.stop()


def _keep_quiet(spark: SparkSession) -> None:
    """Have Spark log no stack trace of a query that fails: the command prints the cause."""
    log4j = spark.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # noqa: SLF001  the only way
    for name in _FAILURE_LOGGERS:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)


def packed(folder: Path) -> Path:
    """Archive this project's packages for `addPyFile`; their dependencies must be installed on the executors.

    Modules in C cannot be loaded from an archive; the implementations in Python replace them.
    """
    content = folder / "content"
    for name in PACKAGES:
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        shutil.copytree(Path(spec.origin).parent, content / name, ignore=_UNPACKED)
    return Path(shutil.make_archive(str(folder / "pulsar-readonly"), "zip", content))


def _jars(given: str) -> list[str]:
    found = []
    for name in filter(None, given.split(",")):
        path = Path(name)
        if path.is_dir():
            found += [str(jar) for jar in sorted(path.glob("*.jar"))]
        elif "://" in name or path.is_file():
            found.append(name)
        else:
            raise ExportError(f"--jars: file or folder {name} does not exist")
    return found


def _value_type(reader: DataStreamReader) -> str:
    """Return the type of values by the topics' schemas, which `load` reads."""
    kind = reader.load().schema["value"].dataType
    check_field_names(kind.jsonValue(), "value")
    return kind.simpleString()


def start(
    spark: SparkSession, settings: ExportSettings, table: ExportTable, totals: Totals
) -> tuple[StreamingQuery, ProgressListener]:
    """Start the query; return it with the listener of its progress.

    Args:
        spark: the session.
        settings: the export.
        table: the open table.
        totals: the totals, to which the progress is added.

    Raises:
        ExportError: a topic or a schema does not exist, or Spark could not read a table with such values.
    """
    task_size = settings.task_size(spark.sparkContext.defaultParallelism)
    source = {name: value for name, value in settings.source.items() if name.lower() != "maxbytesperpartition"}
    source |= {"maxBytesPerPartition": str(task_size), **settings.required_file}
    reader = spark.readStream.format(FORMAT).options(**source)
    kinds = {column.name: column.spark for column in COLUMNS}
    if settings.decodes:
        kinds["value"] = table.pinned_value_type(lambda: _value_type(reader))
    columns = ", ".join(f"{name} {kinds[name]}" for name in settings.source_columns)
    counted = getattr(table.sink, "counted", None)
    target = getattr(table.sink, "target", None)
    if target is not None:
        rows = _files(spark, settings, target, source, columns)
    else:
        rows = reader.schema(columns).load()
        rows = rows.select(
            *(sf.expr(DERIVED[name]).alias(name) if name in DERIVED else name for name in settings.table_columns)
        )
        if counted is None:
            sized = "value" in settings.table_columns and not settings.decodes
            size = sf.sum(sf.octet_length("value")) if sized else sf.sum(sf.lit(0))
            rows = rows.observe(OBSERVED, sf.count(sf.lit(1)).alias("messages"), size.alias("bytes"))
        else:
            # Iceberg has no 96 bit timestamps, which are the default of a session that `session` did not make.
            spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    writer = rows.writeStream.foreachBatch(table.write).option("checkpointLocation", settings.checkpoint)
    if settings.trigger == AVAILABLE_NOW:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{settings.interval_s:g} seconds")
    listener = ProgressListener(totals, {} if counted is None else counted)
    spark.streams.addListener(listener)
    return writer.start(), listener


def _files(
    spark: SparkSession, settings: ExportSettings, target: Target, source: Mapping[str, str], columns: str
) -> DataFrame:
    """Return the stream of the files that tasks write, with their numbers of messages observed."""
    read = StructType.fromDDL(columns)
    assert isinstance(read, StructType)
    layout = layout_of(settings, read, str(spark.conf.get(CODEC)))
    options = {**source, **options_for(layout, target, read)}
    spark.dataSource.register(WrittenFiles)
    files = spark.readStream.format(FILES_FORMAT).options(**options).schema(FILES).load()
    return files.observe(OBSERVED, *(sf.sum(name).alias(name) for name in ("messages", "bytes")))
