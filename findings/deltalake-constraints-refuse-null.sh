#!/bin/bash
# A constraint of a Delta table must be true: null does not pass, other than in the CHECK constraints of SQL.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
${PYTHON:-python3} -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check deltalake==1.6.6 pyarrow==26.0.1
cd "$folder"
venv/bin/python - <<'PROGRAM'
import deltalake
import pyarrow
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

print("deltalake", deltalake.__version__)
write_deltalake("table", pyarrow.table({"a": [1]}))
DeltaTable("table").alter.add_constraint({"positive": "a > 0"})
try:
    write_deltalake("table", pyarrow.table({"a": pyarrow.array([None], pyarrow.int64())}), mode="append")
    seen = "accepted"
except DeltaError:
    seen = "refused"
expected = "refused"
print("guess:", 'a > 0 accepts null, as a CHECK constraint of SQL does')
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: an export makes no constraints (spark/readonly_spark/export).
