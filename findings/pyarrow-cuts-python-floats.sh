#!/bin/bash
# pyarrow.array takes Python floats for a type of integers and cuts them, though it refuses a bool there and casts of arrays are checked.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
${PYTHON:-python3} -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PROGRAM'
import pyarrow

print("pyarrow", pyarrow.__version__)
try:
    pyarrow.array([1.5]).cast(pyarrow.int32())
    cast = "accepted"
except pyarrow.ArrowInvalid:
    cast = "refused"
seen = (pyarrow.array([1.5], pyarrow.int32()).to_pylist(), cast)
expected = ([1], "refused")
print("guess:", '1.5 in an array of int32 is an error, as in a cast of an Arrow array')
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: a JSON value that does not fit its type is an error or null, never cut (spark/readonly_spark/values/json_values.py).
