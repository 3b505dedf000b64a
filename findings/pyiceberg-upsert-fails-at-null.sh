#!/bin/bash
# pyiceberg's upsert fails as a whole if one row has no key.
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

rows = pyarrow.table({"k": pyarrow.array([1, None], pyarrow.int64()), "v": [1, 2]})
table = catalog.create_table("n.t", rows.schema)
try:
    table.upsert(rows, join_cols=["k"])
    seen = table.scan().to_arrow().num_rows
except TypeError as error:
    seen = (str(error), table.scan().to_arrow().num_rows)
expected = ("Invalid literal value: None", 0)
print("guess:", 'upsert of a row whose key is null inserts it, as MERGE of SQL does: null matches no row')
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: an export adds files to a table and merges nothing (spark/readonly_spark/export/iceberg.py).
