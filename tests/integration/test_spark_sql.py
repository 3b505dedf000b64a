"""The source without code that registers it, in SQL, and with filters that Spark passes to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.integration.spark_driver import DEADLINE_S, Driver, numbers, publish

if TYPE_CHECKING:
    from devstack.pulsar.cluster import PulsarCluster

ROOT: Final = Path(__file__).parents[2]

COUNT: Final = 120
"""More than a ledger holds."""

PROGRAM: Final = """
import os, sys
import pyspark
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
spark = builder.config("spark.sql.warehouse.dir", sys.argv[3]).getOrCreate()
options = f"OPTIONS (metadataUrl '{sys.argv[1]}', topic '{sys.argv[2]}')"
reader = spark.read.format("pulsar-readonly")
print("format", reader.option("metadataUrl", sys.argv[1]).option("topic", sys.argv[2]).load().count())
spark.sql(f"CREATE TEMPORARY VIEW orders USING `pulsar-readonly` {options}")
print("view", spark.sql("SELECT count(*) FROM orders WHERE entryId % 2 = 0").first()[0])
spark.sql(f"CREATE TABLE stored USING `pulsar-readonly` {options}")
try:
    print("table", spark.sql("SELECT count(*) FROM stored").first()[0])
except PySparkException as error:
    print("table", [line for line in str(error).splitlines() if "OptionError" in line][-1])
if tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 3):
    try:
        reader.option("pushFilters", "true").load().count()
    except PySparkException as error:
        print("refused", "pushFilters requires Spark 4.3 or later" in str(error))
    sys.exit()
spark.conf.set("spark.sql.python.filterPushdown.enabled", True)
reader = reader.option("pushFilters", "true").option("publishTimeSlack", "60").option("maxBytesPerPartition", "1")
for name, condition in {
    "all": "true", "ledger": f"ledgerId = {sys.argv[4]}", "other": "topic = 'persistent://public/default/other'",
    "late": "publishTime > current_timestamp() + interval 1 hour", "soon": "publishTime > current_timestamp() - interval 1 hour",
}.items():
    found = reader.load().where(condition)
    print(name, found.rdd.getNumPartitions(), found.count())
shared = reader.load()
print("shared", shared.where("topic = 'persistent://public/default/other'").count(), shared.count())
spark.stop()
"""


def test_topics_in_sql(spark_stack: PulsarCluster, spark_client, driver, topic: str, tmp_path) -> None:
    publish(spark_client, topic, 0, COUNT - 1)
    reading: Driver = driver(topic)
    reading.await_values(numbers(0, COUNT - 1))
    ledgers = reading.states()[topic].ledgers
    words = [
        sys.executable,
        "-c",
        PROGRAM,
        spark_stack.endpoints.metadata_store,
        topic,
        str(tmp_path),
        str(ledgers[1].ledger_id),
    ]
    # Spark looks into folders, which an editable installation has none of.
    earlier = filter(None, [os.environ.get("PYTHONPATH")])  # another version of Spark
    folders = os.pathsep.join([*earlier, *(str(ROOT / name) for name in ("engine", "spark"))])
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=DEADLINE_S, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": folders},
    )  # fmt: skip
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert {"soon", "refused"} & said.keys(), done.stdout + done.stderr
    assert (said["format"], said["view"]) == (str(COUNT), str(COUNT // 2))
    assert said["table"] == "10" or "use CREATE TEMPORARY VIEW" in said["table"]
    in_ledger = ledgers[1].last + 1
    expected = {"all": COUNT, "ledger": in_ledger, "other": 0, "late": 0, "soon": COUNT}
    if "refused" in said:
        assert said["refused"] == "True"
        return
    # Each entry is a task of its own; Spark makes one for none.
    assert said["shared"] == f"0 {COUNT}", "what one query excludes is there for the next one"
    assert {name: said[name] for name in expected} == {
        name: f"{max(count, 1)} {count}" for name, count in expected.items()
    }
