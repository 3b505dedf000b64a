#!/bin/bash
# In the Python client a message id that a program makes cannot be compared with one that comes from the client.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
${PYTHON:-python3} -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check pulsar-client==3.13.0
"$folder/venv/bin/python" - <<'PROGRAM'
import pulsar

print("pulsar-client", pulsar.__version__)
made = pulsar.MessageId(partition=-1, ledger_id=2, entry_id=3, batch_index=4)
given = pulsar.MessageId.deserialize(made.serialize())
try:
    seen = made == given
except AttributeError:
    seen = "AttributeError"
expected = "AttributeError"
print("guess:", 'a message id that was serialized and deserialized equals the original, as in Java')
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: ids of the Python client are compared by their parts (lab/longtests/compat/python/values.py).
