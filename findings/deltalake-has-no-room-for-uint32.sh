#!/bin/bash
# delta-rs makes a column of unsigned 32-bit integers a signed one of 32 bits, and refuses half of the values later.
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
write_deltalake("table", pyarrow.table({"a": pyarrow.array([1], pyarrow.uint32())}))
try:
    write_deltalake("table", pyarrow.table({"a": pyarrow.array([2**32 - 1], pyarrow.uint32())}), mode="append")
    largest = "accepted"
except DeltaError:
    largest = "refused"
seen = (DeltaTable("table").schema().fields[0].type.type, largest)
expected = ("integer", "refused")
print("guess:", 'a column of uint32 becomes a long, since Delta has no unsigned types and an integer does not hold 2**32 - 1')
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: no column is unsigned (spark/readonly_spark/values/type_names.py).
