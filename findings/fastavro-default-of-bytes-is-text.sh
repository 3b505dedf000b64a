#!/bin/bash
# fastavro does not decode the default of a field of bytes, which Avro writes as text, one character for each byte.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
${PYTHON:-python3} -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check fastavro==1.13.1
"$folder/venv/bin/python" - <<'PROGRAM'
import io

import fastavro

print("fastavro", fastavro.__version__)
old = [{"name": "a", "type": "long"}]
new = [*old, {"name": "b", "type": "bytes", "default": "\u00ff"}]
writer, reader = (fastavro.parse_schema({"type": "record", "name": "R", "fields": fields}) for fields in (old, new))
written = io.BytesIO()
fastavro.schemaless_writer(written, writer, {"a": 1})
written.seek(0)
seen = fastavro.schemaless_reader(written, writer, reader)["b"]
expected = "\u00ff"
print("guess:", "an added field of bytes with the default of code point 255 is the byte 255 in old records")
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: defaults are decoded (spark/readonly_spark/values/avro_resolution.py).
