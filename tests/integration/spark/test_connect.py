"""The data source by Spark Connect: a client without a JVM, and a server of its own process."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.pulsar.spark_driver import publish

pytestmark = pytest.mark.nightly

SECONDS: Final = 300

# The client starts a server in a process of its own, as `pyspark --remote local` does.
PROGRAM: Final = """
import json, os, sys
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
from readonly_spark.source import PulsarReadOnly

url, topic, folder = sys.argv[1:]
builder = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
spark = builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse").getOrCreate()
spark.dataSource.register(PulsarReadOnly)
options = {"metadataStoreUrl": url, "topic": topic}
rows = spark.read.format("pulsar-readonly").options(**options).load()
batch = sorted(int(bytes(row["value"])[2:]) for row in rows.select("value").collect())
stream = spark.readStream.format("pulsar-readonly").options(**options, startingOffsets="earliest").load()
writer = stream.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
query = writer.trigger(availableNow=True).start(f"{folder}/table")
query.awaitTermination()
table = sorted(int(bytes(row["value"])[2:]) for row in spark.read.parquet(f"{folder}/table").collect())
try:
    spark.read.format("pulsar-readonly").options(**options, subscription="s").load().count()
    error = ""
except Exception as caught:
    error = str(caught)
print(json.dumps({"kind": type(spark).__module__, "batch": batch, "table": table, "error": error}))
spark.stop()
"""


def test_batches_and_streams_by_connect(spark_stack, spark_client, driver, topic, tmp_path: Path) -> None:
    publish(spark_client, topic, 0, 99, 3)
    driver(topic).plan(34)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, spark_stack.endpoints.metadata_store, topic, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["kind"] == "pyspark.sql.connect.session"
    assert found["batch"] == found["table"] == list(range(100))
    assert "unknown option 'subscription'" in found["error"]
