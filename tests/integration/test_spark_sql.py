"""The source without code that registers it: Spark finds the package `pyspark_pulsar_readonly` by its name."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

from tests.integration.spark_driver import DEADLINE_S, Driver, numbers, publish

if TYPE_CHECKING:
    from devstack.pulsar.cluster import PulsarCluster

PROGRAM: Final = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
spark = builder.config("spark.sql.warehouse.dir", sys.argv[3]).getOrCreate()
options = f"OPTIONS (metadataUrl '{sys.argv[1]}', topic '{sys.argv[2]}')"
reader = spark.read.format("pulsar-readonly")
print("format", reader.option("metadataUrl", sys.argv[1]).option("topic", sys.argv[2]).load().count())
spark.sql(f"CREATE TEMPORARY VIEW orders USING `pulsar-readonly` {options}")
print("view", spark.sql("SELECT count(*) FROM orders WHERE CAST(value AS STRING) < 'm-5'").first()[0])
spark.sql(f"CREATE TABLE stored USING `pulsar-readonly` {options}")
try:
    print("table", spark.sql("SELECT count(*) FROM stored").first()[0])
except PySparkException as error:
    print("table", [line for line in str(error).splitlines() if "OptionError" in line][-1])
spark.stop()
"""


def test_topics_in_sql(spark_stack: PulsarCluster, spark_client, driver, topic: str, tmp_path) -> None:
    publish(spark_client, topic, 0, 9)
    reading: Driver = driver(topic)
    reading.await_values(numbers(0, 9))
    words = [sys.executable, "-c", PROGRAM, spark_stack.endpoints.metadata_store, topic, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_S, check=False, cwd=tmp_path)
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(("format", "view", "table")))
    assert said.keys() == {"format", "view", "table"}, done.stdout + done.stderr
    assert (said["format"], said["view"]) == ("10", "5")
    assert said["table"] == "10" or "use CREATE TEMPORARY VIEW" in said["table"]
