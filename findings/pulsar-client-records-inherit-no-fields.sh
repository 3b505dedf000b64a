#!/bin/bash
# A Record class of the Python client has no fields of its base class: their values are dropped without an error.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
${PYTHON:-python3} -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check pulsar-client==3.13.0
"$folder/venv/bin/python" - <<'PROGRAM'
import pulsar
from pulsar.schema import Integer, JsonSchema, Record


class Base(Record):
    a = Integer()


class Derived(Base):
    b = Integer()


print("pulsar-client", pulsar.__version__)
seen = ([one["name"] for one in Derived.schema()["fields"]], JsonSchema(Derived).encode(Derived(a=1, b=2)).split())
expected = (["b"], [b"{", b'"b":', b"2", b"}"])
print("guess:", 'the fields of a Record class that inherits from another one are its own and the inherited ones')
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: columns come from the schema that the topic has, whoever made it (spark/readonly_spark/values).
