"""Spark: a session with what the export needs, and the query itself."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from readonly_spark.export.errors import ExportError
from readonly_spark.export.settings import AVAILABLE_NOW, DELTA, DERIVED
from readonly_spark.export.totals import OBSERVED
from readonly_spark.rows.columns import COLUMNS
from readonly_spark.source import FORMAT, PulsarReadOnly

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql.streaming.query import StreamingQuery

    from readonly_spark.export.settings import ExportSettings
    from readonly_spark.export.table import ExportTable

PACKAGES: Final = ("readonly_spark", "readonly_engine")
JARS_VARIABLE: Final = "PULSAR_READONLY_SPARK_JARS"
_DELTA: Final = "io.delta.sql.DeltaSparkSessionExtension"
_UNPACKED: Final = shutil.ignore_patterns("__pycache__", "*.c", "*.so")

_CONFIGURATION: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


@contextmanager
def session(
    settings: ExportSettings, master: str | None, jars: str, configuration: Mapping[str, str], *, ship: bool
) -> Iterator[SparkSession]:
    """A session for the export; it ends with the context.

    Args:
        settings: the export.
        master: Spark's master; None for spark-submit's, else this process.
        jars: files or folders of jars, with commas between them.
        configuration: the user's settings of Spark, which win.
        ship: whether executors get this project's code from here.

    Raises:
        ExportError: jars are missing.
    """
    # Executors of a cluster have a Python of their own; here it is the one that has these packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"pulsar-readonly export to {settings.to}")
    submitted = os.environ.get("PYSPARK_GATEWAY_PORT") is not None
    if master is not None or not submitted:
        builder = builder.master(master or "local[*]")
    found = [] if submitted else _jars(jars)  # spark-submit has started the JVM, and its jars are in it
    if found:
        builder = builder.config("spark.jars", ",".join(found))
    if settings.table_format == DELTA:
        named = any("delta" in Path(jar).name for jar in found) or submitted
        if not named and not {"spark.jars.packages", "spark.jars"} & configuration.keys():
            raise ExportError(
                f"--format delta needs Delta's jars: give them by --jars or {JARS_VARIABLE} (the spark image has them), "
                "or let Spark fetch them: --conf spark.jars.packages=io.delta:delta-spark_4.2_2.13:4.4.0"
            )
        if not submitted and (master or "local").startswith("local"):
            builder = builder.config("spark.databricks.delta.snapshotPartitions", "4")  # 50 are for a cluster
        builder = builder.config("spark.sql.extensions", _DELTA)
        builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    for name, value in {**_CONFIGURATION, **configuration}.items():
        builder = builder.config(name, value)
    with tempfile.TemporaryDirectory(prefix="pulsar-readonly-export-") as folder:
        archive = str(packed(Path(folder))) if ship else ""
        if ship:
            # The driver's own planner looks there; only tasks look at what was added.
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [archive, os.environ.get("PYTHONPATH", "")]))
        spark = builder.getOrCreate()
        try:
            if ship:
                spark.sparkContext.addPyFile(archive)
            spark.dataSource.register(PulsarReadOnly)
            yield spark
        finally:
            with suppress(OSError, Py4JError):  # a signal to the whole group has ended the JVM already
                spark.stop()


def packed(folder: Path) -> Path:
    """This project's packages as one archive, for `addPyFile`; what they need must be installed where it is used.

    Modules in C cannot be loaded from an archive: their twins in Python do their work.
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
            raise ExportError(f"--jars: there is no file or folder {name}")
    return found


def start(
    spark: SparkSession, settings: ExportSettings, table: ExportTable
) -> tuple[StreamingQuery, Mapping[int, tuple[int, int]]]:
    """Start the query; also what its sink counts, see `Totals.add`.

    Args:
        spark: from `session`.
        settings: the export.
        table: open, and held by the caller.

    Raises:
        ExportError: there is no such topic, or no schema.
    """
    reader = spark.readStream.format(FORMAT).options(**settings.source)
    kinds = {column.name: column.spark for column in COLUMNS}
    if settings.decodes:
        kinds["value"] = table.remembered(lambda: reader.load().schema["value"].dataType.simpleString())  # noqa: PLW0108  what is before the call asks the cluster
    rows = reader.schema(", ".join(f"{name} {kinds[name]}" for name in settings.read)).load()
    rows = rows.select(*(sf.expr(DERIVED[name]).alias(name) if name in DERIVED else name for name in settings.wanted))
    counted = getattr(table.sink, "counted", None)
    if counted is None:
        sized = "value" in settings.wanted and not settings.decodes
        size = sf.sum(sf.octet_length("value")) if sized else sf.sum(sf.lit(0))
        rows = rows.observe(OBSERVED, sf.count(sf.lit(1)).alias("messages"), size.alias("bytes"))
    else:
        # Iceberg has no times of 96 bits, which is what a Spark writes that was not made by `session`.
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    writer = rows.writeStream.foreachBatch(table.write).option("checkpointLocation", settings.checkpoint)
    if settings.trigger == AVAILABLE_NOW:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{settings.interval_s:g} seconds")
    return writer.start(), {} if counted is None else counted
