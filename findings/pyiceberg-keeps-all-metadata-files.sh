#!/bin/bash
# Iceberg keeps old metadata files also beyond write.metadata.previous-versions-max, which limits their log only.
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
properties = {"write.metadata.previous-versions-max": "2"}
table = catalog.create_table("n.t", pyarrow.schema([("a", pyarrow.int64())]), properties=properties)
for _ in range(6):
    table.append(pyarrow.table({"a": [1]}))
seen = len(list(Path("warehouse").rglob("*.metadata.json")))
expected = 7
print("guess:", 'with write.metadata.previous-versions-max=2 there are 3 metadata files after 6 commits')
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: an export sets write.metadata.delete-after-commit.enabled (spark/readonly_spark/export/iceberg.py).
