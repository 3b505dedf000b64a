#!/bin/bash
# A key that a patch of kopf removes takes its parent along, when it was the only one, in the JSON patch for an admission webhook.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
${PYTHON:-python3} -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check kopf==1.45.2
"$folder/venv/bin/python" - <<'PROGRAM'
from importlib.metadata import version

import kopf

print("kopf", version("kopf"))
patch = kopf.Patch()
patch.spec["suspended"] = None
seen = [patch.as_json_patch({"spec": spec}) for spec in ({"suspended": True, "size": 1}, {"suspended": True}, {})]
guess = [[{"op": "remove", "path": "/spec/suspended"}], [{"op": "remove", "path": "/spec/suspended"}], []]
expected = [[{"op": "remove", "path": "/spec/suspended"}], [{"op": "remove", "path": "/spec"}], [{"op": "remove", "path": "/spec"}]]
print("guess:", guess)
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: the operator only watches by kopf (operator/readonly_operator/runtime/handlers.py).
