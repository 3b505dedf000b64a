"""Orders by minute, straight from the topic: the cells of a notebook.

    python examples/spark/analysis.py zk:localhost:2181 persistent://public/default/orders orders.png

Each message is JSON: {"shop": "north", "amount": 12.5}.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta

import matplotlib as mpl
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from readonly_spark.source import PulsarReadOnly

mpl.use("Agg")  # leave this line out in a notebook
from matplotlib import pyplot as plt

METADATA, TOPIC, PICTURE = sys.argv[1:4]

# %% A Spark on this machine, which knows the source
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .getOrCreate()
)
spark.dataSource.register(PulsarReadOnly)

# %% Read: the last hour, and of its messages three columns. The others are not even decoded.
since = datetime.now(UTC) - timedelta(hours=1)
messages = (
    spark.read.format("pulsar-readonly")
    .option("metadataStoreUrl", METADATA)
    .option("topic", TOPIC)
    .option("startingTimestamp", since.isoformat())
    .schema("publishTime timestamp, key binary, value binary")
    .load()
    # An entry may hold earlier messages too: the time is looked at once more, message by message.
    .where(sf.col("publishTime") >= sf.lit(since))
)

# %% Decode JSON
orders = messages.select(
    "publishTime", sf.from_json(sf.decode("value", "UTF-8"), "shop string, amount double").alias("order")
).select("publishTime", "order.*")

# %% Add up by shop and minute
by_minute = (
    orders.groupBy("shop", sf.date_trunc("MINUTE", "publishTime").alias("minute"))
    .agg(sf.count("*").alias("orders"), sf.sum("amount").alias("turnover"))
    .orderBy("shop", "minute")
).collect()
for row in by_minute:
    print(f"{row.minute:%H:%M}  {row.shop:8}  {row.orders:6}  {row.turnover:10.2f}")

# %% Plot
figure, axes = plt.subplots()
for shop in sorted({row.shop for row in by_minute}):
    mine = [row for row in by_minute if row.shop == shop]
    axes.plot([row.minute for row in mine], [row.turnover for row in mine], marker="o", label=shop)
axes.set_ylabel("turnover by minute")
axes.legend()
figure.autofmt_xdate()
figure.savefig(PICTURE)
