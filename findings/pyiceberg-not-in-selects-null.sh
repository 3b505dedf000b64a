#!/bin/bash
# In filters of pyiceberg null is not in a list, but is not unequal to its members either.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
${PYTHON:-python3} -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check 'pyiceberg[sql-sqlite]==0.12.0' pyarrow==26.0.1
cd "$folder"
venv/bin/python - <<'PROGRAM'
from pathlib import Path

import pyarrow
import pyiceberg
from pyiceberg.catalog.sql import SqlCatalog

print("pyiceberg", pyiceberg.__version__)
catalog = SqlCatalog("c", uri="sqlite:///c.db", warehouse=f"file://{Path.cwd()}/warehouse")
catalog.create_namespace("n")

rows = pyarrow.table({"a": pyarrow.array([1, 2, None, 5], pyarrow.int64())})
table = catalog.create_table("n.t", rows.schema)
table.append(rows)
filters = ("a not in (1, 5)", "a != 1 and a != 5")
seen = [table.scan(row_filter=one).to_arrow()["a"].to_pylist() for one in filters]
expected = [[2, None], [2]]
print("guess:", '"a not in (1, 5)" and "a != 1 and a != 5" select the same rows')
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: pyiceberg commits files that Spark wrote, and selects no rows (spark/readonly_spark/export/iceberg.py).
