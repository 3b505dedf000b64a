"""Plan micro-batches of a topic as Spark does, for ever; print the number of entries in the tasks so far after each.

Usage: `python -m longtests.transactions.planner METADATA_URL TOPIC`.
"""

from __future__ import annotations

import sys
import time
from typing import Final

from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, StructType
from readonly_spark.source import PulsarReadOnly

TRIGGER_S: Final = 10.0


def main() -> None:
    """Run the program until it is killed."""
    options = {"metadataStoreUrl": sys.argv[1], "topic": sys.argv[2], "startingOffsets": "earliest"}
    reader = PulsarReadOnly(options).streamReader(StructType().add("value", BinaryType()))
    offset, planned = reader.initialOffset(), 0
    while True:
        end = reader.latestOffset(offset, ReadAllAvailable())
        tasks = reader.partitions(offset, end) if end != offset else []
        planned += sum(one.last - one.first + 1 for task in tasks for one in task.plan.ranges)  # type: ignore[attr-defined]
        reader.commit(end)
        offset = end
        print(planned, flush=True)  # noqa: T201
        time.sleep(TRIGGER_S)


if __name__ == "__main__":
    main()
