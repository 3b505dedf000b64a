#!/bin/bash
# pyiceberg commits an append again by itself if another commit came between; the caller hears of no conflict.
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
catalog.create_table("n.t", pyarrow.schema([("a", pyarrow.int64())]))
row = pyarrow.table({"a": [1]})
first, second = catalog.load_table("n.t"), catalog.load_table("n.t")
first.append(row)
second.append(row)
seen = catalog.load_table("n.t").scan().to_arrow().num_rows
expected = 2
print("guess:", 'the second of two appends to one loaded state of a table raises CommitFailedException')
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: an export checks the snapshot itself and does not rely on a conflict (spark/readonly_spark/export/iceberg.py).
