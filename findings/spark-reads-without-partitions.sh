#!/bin/bash
# Spark reads a Python data source that has no partitions once, with a partition of its own that has no value.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
${PYTHON:-python3} -m venv venv
venv/bin/pip install -q --disable-pip-version-check pyspark==4.2.1 pyarrow==26.0.1
cat > program.py <<'PROGRAM'
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader


class Reader(DataSourceReader):
    def partitions(self):
        return []

    def read(self, partition):
        yield (repr(partition),)


class Source(DataSource):
    @classmethod
    def name(cls):
        return "nothing"

    def schema(self):
        return "partition string"

    def reader(self, schema):
        return Reader()


print("pyspark", pyspark.__version__)
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
spark.dataSource.register(Source)
seen = [row.partition for row in spark.read.format("nothing").load().collect()]
spark.stop()
expected = ["InputPartition(value=None)"]
print("guess:", "a source whose partitions are an empty list has no rows, and its read is not called")
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
export SPARK_LOCAL_IP=127.0.0.1 PYSPARK_PYTHON="$folder/venv/bin/python"
venv/bin/python program.py 2> spark.log || { status=$?; cat spark.log; exit "$status"; }
# Here: a read without a partition gives nothing (spark/readonly_spark/source.py).
