#!/bin/bash
# DuckDB reads a column of several Parquet files by the type of the first file, and rounds the doubles of a later one to its integers.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
${PYTHON:-python3} -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check duckdb==2.0.0 pyarrow==26.0.1
cd "$folder"
venv/bin/python - <<'PROGRAM'
import duckdb
import pyarrow
from pyarrow import dataset, parquet

print("duckdb", duckdb.__version__)
parquet.write_table(pyarrow.table({"a": [1]}), "1.parquet")
parquet.write_table(pyarrow.table({"a": [1.5]}), "2.parquet")
try:
    arrow = dataset.dataset(["1.parquet", "2.parquet"]).to_table()["a"].to_pylist()
except pyarrow.ArrowInvalid:
    arrow = "refused by pyarrow"
seen = (duckdb.sql("select a from read_parquet(['1.parquet', '2.parquet'])").fetchall(), arrow)
expected = ([(1,), (2,)], "refused by pyarrow")
print("guess:", 'the column of a file of bigint and a file of double is double, the wider of both')
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: a column of an export has one type in all files (spark/readonly_spark/export).
