#!/bin/bash
# fastavro writes an int to the first number of a union, also to a double that cannot hold it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
${PYTHON:-python3} -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check fastavro==1.13.1
"$folder/venv/bin/python" - <<'PROGRAM'
import io

import fastavro

print("fastavro", fastavro.__version__)
schema = fastavro.parse_schema({"type": "record", "name": "R", "fields": [{"name": "n", "type": ["double", "long"]}]})
written = io.BytesIO()
fastavro.schemaless_writer(written, schema, {"n": 2**60 + 1})
written.seek(0)
seen = fastavro.schemaless_reader(written, schema, None)["n"]
expected = float(2**60)
print("guess:", '2**60 + 1 in a union of double and long is kept, since only the long holds it')
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: Avro is read, not written.
