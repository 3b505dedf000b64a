"""`pulsar-readonly export`: topics into tables of Parquet, Delta or Iceberg, by a Spark query on the source.

settings     what was asked for, checked before anything starts; pure
checkpoint   one export at a time on a checkpoint, and always the same one
totals       what a query's reports come to; pure
lag          how far behind the topics' ends it is
iceberg      commits of micro-batches, each once
session      Spark, its configuration and its sinks: with `command`, which calls it, all that knows Spark here
command      the command line
"""
