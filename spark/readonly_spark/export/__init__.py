"""The command `pulsar-readonly export`: a Spark query from topics to a Parquet, Delta or Iceberg table.

command      the command line
settings     the settings of an export, checked before anything starts; pure
session      the Spark session and the query; only this module, `command` and `file_source` import Spark
file_source  the data source whose tasks write Parquet files, with file_writer; its rows are these files
partitions   the folders of partitions; pure
table        lock, ownership check, and the commit of each micro-batch
ownership    whether an export may write a table; pure
marker       the owner of a table and the content of its micro-batches; pure
checkpoint   the state of the query, locked
sink         the interface of tables: parquet, delta, iceberg
leftovers    files of killed micro-batches
lock, lease  one export at a time: on local file systems, and elsewhere
files        a folder on a local file system; hadoop_files: elsewhere
totals       totals of progress reports; pure
metrics      Prometheus metrics of an export
"""
