#!/bin/bash
# fastavro promotes an int to a float that no Avro float can hold.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
${PYTHON:-python3} -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check fastavro==1.13.1
"$folder/venv/bin/python" - <<'PROGRAM'
import io

import fastavro


def record(kind):
    return fastavro.parse_schema({"type": "record", "name": "R", "fields": [{"name": "n", "type": kind}]})


print("fastavro", fastavro.__version__)
written = io.BytesIO()
fastavro.schemaless_writer(written, record("int"), {"n": 16_777_217})
written.seek(0)
seen = fastavro.schemaless_reader(written, record("int"), record("float"))["n"]
expected = 16_777_217.0
print("guess:", '16777217 that is read as float is 16777216.0, since a float has 24 bits, as in Java')
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: promoted values have the precision of their type (spark/readonly_spark/values/avro_resolution.py).
