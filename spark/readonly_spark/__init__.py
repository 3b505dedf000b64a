"""Pulsar's topics in Apache Spark, read straight from storage: the data source `pulsar-readonly`.

Pure parts (options, offsets, planning, decoding) know neither Spark nor sockets; `catalog` asks the cluster for the driver,
`entry_source` the bookies for a task; `source` is what Spark calls. Of the engine only `topic` and what is below it is used.
"""

from __future__ import annotations

from readonly_engine import __version__

__all__ = ["__version__"]
