"""`pulsar-readonly export`: topics into tables of Parquet, Delta or Iceberg, by a Spark query on the source.

settings     what was asked for, checked before anything starts; pure
claim        whether an export may write a table; pure
marker       whose a table is, and what it holds; pure
table        the claim carried out, and each micro-batch committed under it
lock, lease  one export at a time: on a file system, and elsewhere
files        a folder on a file system; hadoop_files: anywhere else
checkpoint   one export at a time on a checkpoint, and always the same one
totals       what a query's reports come to; pure
lag          how far behind the topics' ends it is
parquet, delta, iceberg   commits of micro-batches, each once
leftovers    files of killed micro-batches
session      Spark, its configuration and its sinks: with `command`, which calls it, all that knows Spark here
command      the command line
"""
