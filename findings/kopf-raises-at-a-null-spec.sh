#!/bin/bash
# kopf shows a missing part of an object as empty, but raises for one that is null.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
${PYTHON:-python3} -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check kopf==1.45.2
"$folder/venv/bin/python" - <<'PROGRAM'
from importlib.metadata import version

import kopf

print("kopf", version("kopf"))
seen = []
for body in ({}, {"spec": {}}, {"spec": None}):
    try:
        seen.append(kopf.Body(body).spec.get("size", 3))
    except TypeError:
        seen.append("TypeError")
expected = [3, 3, "TypeError"]
print("guess:", [3, 3, 3])
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: bodies are plain dicts, and null is taken for empty (operator/readonly_operator/assembly).
