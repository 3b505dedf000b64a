"""A real local Spark with the data source; a process has one at most."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import pytest

from devstack.pulsar.cluster import PulsarCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT: Final = "pulsar-readonly"

LIMITS: Final = find_spec("pyspark.sql.streaming.datasource") is not None

needs_limits = pytest.mark.skipif(not LIMITS, reason="only Spark 4.2 and later limit micro-batches")
"""Of tests that `make -C lab spark-versions` cannot run."""

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.log.level": "ERROR",
}


@contextmanager
def local_spark() -> Iterator[SparkSession]:
    """Start it, register the source, stop it at the end."""
    # Spark's Python workers are to be this Python, with its packages.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="pulsar-readonly-spark-") as folder:
        warnings.simplefilter("ignore")  # what Spark's own start has to say of itself
        from pyspark.sql import SparkSession  # noqa: PLC0415 - only who needs it waits for it
        from readonly_spark.source import PulsarReadOnly  # noqa: PLC0415

        builder = SparkSession.builder.master("local[2]").config("spark.local.dir", folder)
        for key, value in _SETTINGS.items():
            builder = builder.config(key, value)
        session = builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse").getOrCreate()
        session.dataSource.register(PulsarReadOnly)
        try:
            yield session
        finally:
            session.stop()


def batch(spark: SparkSession, stack: PulsarCluster, topic: str, **options: Any) -> DataFrame:
    """A batch over one topic; `columns` names those that are wanted."""
    columns = options.pop("columns", None)
    reader = spark.read.format(FORMAT).options(metadataStoreUrl=stack.endpoints.metadata_store)
    if columns is not None:
        reader = reader.schema(columns)
    named = {} if topic == "" else {"topic": topic}
    return reader.options(**named, **options).load()


def stream(spark: SparkSession, stack: PulsarCluster, topic: str, **options: Any) -> DataFrame:
    """A stream over one topic from its first message on; an empty name where an option names others."""
    columns = options.pop("columns", None)
    reader = spark.readStream.format(FORMAT).options(metadataStoreUrl=stack.endpoints.metadata_store)
    if columns is not None:
        reader = reader.schema(columns)
    named = {} if topic == "" else {"topic": topic}
    return reader.options(**{"startingOffsets": "earliest", **named, **options}).load()
