"""A Spark with the source `pulsar-readonly`, as a program with the protocol of SparkSide.java."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType
from readonly_spark.export.file_source import FILES, FORMAT, WrittenFiles, layout_of, options_for
from readonly_spark.export.files import LocalFiles
from readonly_spark.export.parquet import ParquetTable
from readonly_spark.export.settings import ExportSettings
from readonly_spark.rows.columns import BY_NAME
from readonly_spark.source import PulsarReadOnly

if TYPE_CHECKING:
    from collections.abc import Mapping

RECORD: Final = (
    "crc32(cast(concat_ws('|', cast(value.id as string), value.customer, cast(value.cents as string), value.note) "
    "as binary))"
)


def main(master: str, memory: str) -> None:
    """Answer lines of standard input until it ends."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": memory,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.python.unix.domain.socket.enabled": "true",
    }
    builder = SparkSession.builder.master(master).appName("bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(PulsarReadOnly)
    spark.dataSource.register(WrittenFiles)
    print(json.dumps({"ready": True}), flush=True)  # noqa: T201
    for line in sys.stdin:
        command, source, columns, folder, *options = line.rstrip("\n").split("\t")
        named = dict(option.split("=", 1) for option in options)
        began = time.perf_counter()
        answer = answered(spark, command, source, columns.split(";"), folder, named)
        print(json.dumps({**answer, "seconds": time.perf_counter() - began}), flush=True)  # noqa: T201
    spark.stop()


def answered(
    spark: SparkSession, command: str, source: str, columns: list[str], folder: str, options: Mapping[str, str]
) -> dict[str, int]:
    """Execute a line; see SparkSide.java. A column of decoded values has its type beside its name, as `value TYPE`."""
    if command == "stream":
        stream(spark, source, columns, folder, dict(options))
        return {"rows": 0}
    schema = ", ".join(name if " " in name else f"{name} {BY_NAME[name].spark}" for name in columns)
    rows = spark.read.format(source).options(**options).schema(schema).load()
    if command.startswith("check"):
        summed = "crc32(value)" if command == "check" else RECORD
        found = rows.agg(sf.count(sf.lit(1)), sf.sum(sf.expr(summed))).head()
        assert found is not None
        return {"rows": found[0], "checksum": found[1] or 0}
    if command == "export":
        export(spark, schema, folder, options)
    elif command == "noop":
        rows.write.format("noop").mode("overwrite").save()
    else:
        rows.write.mode("overwrite").parquet(folder)
    return {"rows": 0}


def export(spark: SparkSession, schema: str, folder: str, options: Mapping[str, str]) -> None:
    """Write and commit a table as `pulsar-readonly export` does with one micro-batch."""
    shutil.rmtree(folder, ignore_errors=True)
    columns = StructType.fromDDL(schema)
    assert isinstance(columns, StructType)
    settings = ExportSettings(
        source=options, to=folder, checkpoint=f"{folder}-checkpoint", columns=tuple(columns.names)
    )
    table = ParquetTable(settings, spark, LocalFiles(folder, folder))
    assert table.target is not None
    own = options_for(layout_of(settings, columns, "snappy"), table.target, columns)
    files = spark.read.format(FORMAT).options(**options, **own).schema(FILES).load()
    table.commit(files, str(uuid4()), 0)


def stream(spark: SparkSession, source: str, columns: list[str], folder: str, options: dict[str, str]) -> None:
    """Append a stream to a Parquet table for the seconds of the option `seconds`, with the trigger of `trigger`."""
    seconds, trigger = int(options.pop("seconds")), options.pop("trigger")
    schema = ", ".join(f"{name} {BY_NAME[name].spark}" for name in columns)
    rows = spark.readStream.format(source).options(**options).schema(schema).load()
    writer = rows.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.trigger(processingTime=trigger).start(f"{folder}/table")
    query.awaitTermination(seconds)
    query.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
