"""Registers the source `pulsar-readonly` without code: Spark 4 imports every module whose name begins with `pyspark_`.

So `spark.read.format("pulsar-readonly")` and `CREATE TABLE ... USING "pulsar-readonly"` work where this package is installed.
"""

from readonly_spark.source import PulsarReadOnly as DefaultSource

__all__ = ["DefaultSource"]
