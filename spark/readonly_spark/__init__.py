"""The Apache Spark data source `pulsar-readonly`: Pulsar topics read from bookies and tiered storage, without a broker.

source    the classes that Spark calls
options   the source's options
plan      on the driver: from options and offsets to tasks
read      in a task: entries from bookies and tiered storage
rows      entries to Arrow record batches, in Python and in C
values    message values by their schema
lag       how far a query is behind, for Prometheus
export    the command `pulsar-readonly export`

`task` is what a plan hands to a task. Of the engine only `topic` and the layers below it are used.
"""

from __future__ import annotations

from readonly_engine import __version__

__all__ = ["__version__"]
