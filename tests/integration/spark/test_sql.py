"""The source without code that registers it, and in SQL."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from devstack.pulsar.cluster import PulsarCluster
from tests.support.pulsar.spark_driver import DEADLINE_S, Driver, numbers, publish

pytestmark = pytest.mark.nightly

ROOT: Final = Path(__file__).parents[3]

COUNT: Final = 120
"""More than a ledger holds."""

PROGRAM: Final = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
spark = builder.config("spark.sql.warehouse.dir", sys.argv[3]).getOrCreate()
options = f"OPTIONS (metadataStoreUrl '{sys.argv[1]}', topic '{sys.argv[2]}')"
reader = spark.read.format("pulsar-readonly")
print("format", reader.option("metadataStoreUrl", sys.argv[1]).option("topic", sys.argv[2]).load().count())
spark.sql(f"CREATE TEMPORARY VIEW orders USING `pulsar-readonly` {options}")
print("view", spark.sql("SELECT count(*) FROM orders WHERE entryId % 2 = 0").first()[0])
spark.sql(f"CREATE TABLE stored USING `pulsar-readonly` {options}")
try:
    print("table", spark.sql("SELECT count(*) FROM stored").first()[0])
except PySparkException as error:
    print("table", [line for line in str(error).splitlines() if "OptionError" in line][-1])
spark.stop()
"""


def test_topics_in_sql(spark_stack: PulsarCluster, spark_client, driver, topic: str, tmp_path) -> None:
    publish(spark_client, topic, 0, COUNT - 1)
    reading: Driver = driver(topic)
    reading.await_values(numbers(0, COUNT - 1))
    words = [sys.executable, "-c", PROGRAM, spark_stack.endpoints.metadata_store, topic, str(tmp_path)]
    # Spark looks into folders, which an editable installation has none of.
    earlier = filter(None, [os.environ.get("PYTHONPATH")])  # another version of Spark
    folders = os.pathsep.join([*earlier, *(str(ROOT / name) for name in ("engine", "spark"))])
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=DEADLINE_S, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": folders},
    )  # fmt: skip
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert "table" in said, done.stdout + done.stderr
    assert (said["format"], said["view"]) == (str(COUNT), str(COUNT // 2))
    assert said["table"] == "10" or "use CREATE TEMPORARY VIEW" in said["table"]
