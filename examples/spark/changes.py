"""A table with the newest row of each key, from a topic with changes as Debezium writes them (KEY_VALUE of Avro or JSON).

    export PULSAR_READONLY_SPARK_JARS=FOLDER
    python examples/spark/changes.py zk:localhost:2181 persistent://public/default/rows TABLE CHECKPOINT

Each run takes the changes since the last one, with the newest version of the schema, and merges them into a Delta table. Run it
by a scheduler. FOLDER has Delta's jars: `python -m devstack jars fetch delta` prints one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as sf
from readonly_spark.source import PulsarReadOnly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

METADATA, TOPIC, TABLE, CHECKPOINT = sys.argv[1:5]

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.jars", ",".join(map(str, Path(os.environ["PULSAR_READONLY_SPARK_JARS"]).glob("*.jar"))))
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.shuffle.partitions", "2")  # enough for small tables, as the next one
    .config("spark.databricks.delta.snapshotPartitions", "2")
    .config("spark.ui.enabled", "false")
    .config("spark.log.level", "ERROR")
    .getOrCreate()
)
spark.dataSource.register(PulsarReadOnly)


def merge(batch: DataFrame, number: int) -> None:
    """Merge the changes of one micro-batch. A repeated micro-batch changes nothing."""
    del number
    keys = batch.schema["value"].dataType["key"].dataType.names
    newest_first = [sf.desc("ledgerId"), sf.desc("entryId"), sf.desc("batchIndex")]
    rows = (
        batch.where("value.value IS NOT NULL")  # the null after a deletion is for compaction
        .withColumn("age", sf.row_number().over(Window.partitionBy("value.key").orderBy(*newest_first)))
        .where("age = 1")
        .select("value.value.op", sf.coalesce("value.value.after", "value.value.before").alias("row"))
        .select("op", "row.*")
    )
    # A new version of the schema adds its columns; the first run makes the table.
    rows.drop("op").limit(0).write.format("delta").mode("append").option("mergeSchema", "true").save(TABLE)
    rows.createOrReplaceTempView("changes")
    columns = [name for name in rows.columns if name != "op"]
    same = " AND ".join(f"t.`{name}` = c.`{name}`" for name in keys)
    changed = ", ".join(f"t.`{name}` = c.`{name}`" for name in columns)
    names, values = ", ".join(f"`{name}`" for name in columns), ", ".join(f"c.`{name}`" for name in columns)
    batch.sparkSession.sql(
        # Names of an Avro schema have letters, digits and underscores only.
        f"MERGE INTO delta.`{TABLE}` t USING changes c ON {same} WHEN MATCHED AND c.op = 'd' THEN DELETE "  # noqa: S608
        f"WHEN MATCHED THEN UPDATE SET {changed} WHEN NOT MATCHED AND c.op <> 'd' THEN INSERT ({names}) VALUES ({values})"
    )


(
    spark.readStream.format("pulsar-readonly")
    .option("metadataStoreUrl", METADATA)
    .option("topic", TOPIC)
    .option("startingOffsets", "earliest")
    .option("valueSchema", "auto")
    .load()
    .writeStream.foreachBatch(merge)
    .option("checkpointLocation", CHECKPOINT)
    .trigger(availableNow=True)
    .start()
    .awaitTermination()
)
for row in spark.read.format("delta").load(TABLE).toJSON().collect():
    print(row)
spark.stop()
