#!/bin/bash
# Fingerprints of a schema with a logical type differ: Avro's Python library leaves the type an object, fastavro does not.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
${PYTHON:-python3} -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check avro==1.12.2 fastavro==1.13.1
"$folder/venv/bin/python" - <<'PROGRAM'
import json
from importlib.metadata import version

import avro.schema
from fastavro.schema import fingerprint, to_parsing_canonical_form

print("avro", version("avro"), "fastavro", version("fastavro"))
schema = {"type": "record", "name": "R", "fields": [{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}
text = json.dumps(schema)
canonical = to_parsing_canonical_form(schema)
seen = [avro.schema.parse(text).fingerprint("CRC-64-AVRO").hex(), fingerprint(canonical, "CRC-64-AVRO")]
expected = ["5312ab1e52ef69c9", "6c0bd53cce34e207"]
print("guess:", 'a schema has the same Rabin fingerprint in both libraries, as the specification says')
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: schemas are told apart by their versions in the topic (spark/readonly_spark/plan/schema_registry.py).
