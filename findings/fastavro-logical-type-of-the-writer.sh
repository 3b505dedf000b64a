#!/bin/bash
# fastavro gives a logical type by the writer's schema, and Avro's Java library by the reader's.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
${PYTHON:-python3} -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check fastavro==1.13.1
"$folder/venv/bin/python" - <<'PROGRAM'
import io

import fastavro


def record(kind):
    return fastavro.parse_schema({"type": "record", "name": "R", "fields": [{"name": "at", "type": kind}]})


print("fastavro", fastavro.__version__)
written = io.BytesIO()
fastavro.schemaless_writer(written, record("long"), {"at": 1_700_000_000_000})
written.seek(0)
reader = record({"type": "long", "logicalType": "timestamp-millis"})
seen = fastavro.schemaless_reader(written, record("long"), reader)["at"]
expected = 1_700_000_000_000
print("guess:", 'a long that is read as timestamp-millis is a time')
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: values are resolved by the reader's schema as in Java (spark/readonly_spark/values/avro_resolution.py, tests/unit/spark/values/java_cells.json).
