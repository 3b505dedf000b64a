"""A Spark with the source `pulsar-readonly`, as a program with the protocol of SparkSide.java."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from readonly_spark.rows.columns import BY_NAME
from readonly_spark.source import PulsarReadOnly

if TYPE_CHECKING:
    from collections.abc import Mapping


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
    """Execute a line; for the command `check`, return the number of rows and their checksum."""
    schema = ", ".join(f"{name} {BY_NAME[name].spark}" for name in columns)
    rows = spark.read.format(source).options(**options).schema(schema).load()
    if command == "check":
        found = rows.agg(sf.count(sf.lit(1)), sf.sum(sf.expr("crc32(value)"))).head()
        assert found is not None
        return {"rows": found[0], "checksum": found[1] or 0}
    if command == "noop":
        rows.write.format("noop").mode("overwrite").save()
    else:
        rows.write.mode("overwrite").parquet(folder)
    return {"rows": 0}


if __name__ == "__main__":
    main(*sys.argv[1:])
