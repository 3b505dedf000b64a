#!/bin/bash
# fastavro gives the default of a record as it stands in the schema, without the defaults of its fields.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
${PYTHON:-python3} -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check fastavro==1.13.1
"$folder/venv/bin/python" - <<'PROGRAM'
import io

import fastavro

print("fastavro", fastavro.__version__)
inner = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int", "default": 3}]}
old = [{"name": "a", "type": "long"}]
new = [*old, {"name": "b", "type": inner, "default": {}}]
writer, reader = (fastavro.parse_schema({"type": "record", "name": "R", "fields": fields}) for fields in (old, new))
written = io.BytesIO()
fastavro.schemaless_writer(written, writer, {"a": 1})
written.seek(0)
seen = fastavro.schemaless_reader(written, writer, reader)["b"]
expected = {}
print("guess:", 'an added record with default {} whose field has default 3 is {x: 3} in old records, as in Java')
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: defaults are completed (spark/readonly_spark/values/avro_resolution.py).
