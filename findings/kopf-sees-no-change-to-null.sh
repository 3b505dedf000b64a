#!/bin/bash
# The diff that kopf gives to handlers does not show a field that was set to null, though the states that it compares differ.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
${PYTHON:-python3} -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check kopf==1.45.2
"$folder/venv/bin/python" - <<'PROGRAM'
from importlib.metadata import version

import kopf
from kopf._cogs.structs.diffs import diff  # makes the keyword argument "diff" of handlers

print("kopf", version("kopf"))
storage = kopf.AnnotationsDiffBaseStorage()
before, after = (storage.build(body=kopf.Body({"spec": spec})) for spec in ({"size": 1}, {"size": 1, "limit": None}))
seen = (before == after, list(diff(before, after)))
expected = (False, [])
print("guess:", (False, [("add", ("spec", "limit"), None, None)]))
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: the operator takes no diffs of kopf, only events (operator/readonly_operator/runtime/handlers.py).
