#!/bin/bash
# delta-rs gives the first version of a table for a time before the table existed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
${PYTHON:-python3} -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check deltalake==1.6.6 pyarrow==26.0.1
cd "$folder"
venv/bin/python - <<'PROGRAM'
from datetime import datetime, timezone

import deltalake
import pyarrow
from deltalake import DeltaTable, write_deltalake

print("deltalake", deltalake.__version__)
write_deltalake("table", pyarrow.table({"a": [1]}))
table = DeltaTable("table")
table.load_as_version(datetime(2020, 1, 1, tzinfo=timezone.utc))
seen = (table.version(), table.to_pyarrow_table().num_rows)
expected = (0, 1)
print("guess:", 'load_as_version with a time before the first commit is an error, as in Spark')
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: nothing reads a Delta table by time.
