#!/bin/bash
# Spark keeps the filters that one query passes to a Python data source for all queries of the same DataFrame.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
${PYTHON:-python3} -m venv venv
venv/bin/pip install -q --disable-pip-version-check pyspark==4.3.0 pyarrow==26.0.1
cat > program.py <<'PROGRAM'
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, InputPartition


class Reader(DataSourceReader):
    def __init__(self):
        self.topics = ["a", "b"]

    def pushFilters(self, filters):
        for one in filters:
            if isinstance(one, EqualTo) and one.attribute == ("topic",):
                self.topics = [topic for topic in self.topics if topic == one.value]
            yield one  # Spark evaluates it again

    def partitions(self):
        return [InputPartition(topic) for topic in self.topics]

    def read(self, partition):
        yield (partition.value,)


class Source(DataSource):
    @classmethod
    def name(cls):
        return "topics"

    def schema(self):
        return "topic string"

    def reader(self, schema):
        return Reader()


print("pyspark", pyspark.__version__)
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.python.filterPushdown.enabled", "true")
spark = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
spark.dataSource.register(Source)


def topics(frame):
    return sorted(row.topic for row in frame.collect())


frame = spark.read.format("topics").load()
seen = [topics(frame.where("topic = 'a'")), topics(frame), topics(frame.where("topic = 'b'").union(frame.where("topic = 'a'")))]
spark.stop()
guess = [["a"], ["a", "b"], ["a", "b"]]
expected = [["a"], ["a"], ["a"]]
print("guess:", guess)
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
export SPARK_LOCAL_IP=127.0.0.1 PYSPARK_PYTHON="$folder/venv/bin/python"
venv/bin/python program.py 2> spark.log || { status=$?; cat spark.log; exit "$status"; }
# Here: the source takes no filters (docs/reference/spark.md).
