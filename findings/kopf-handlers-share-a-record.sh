#!/bin/bash
# kopf keeps one record of progress for the handlers "deploy/pods" (pods within deploy) and "deploy.pods": the last one's.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
${PYTHON:-python3} -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check kopf==1.45.2
"$folder/venv/bin/python" - <<'PROGRAM'
from importlib.metadata import version

import kopf

print("kopf", version("kopf"))
storage, patch = kopf.AnnotationsProgressStorage(), kopf.Patch()
retries = {"deploy/pods": 1, "deploy.pods": 2, "deploy_pods": 3}
for handler, count in retries.items():
    storage.store(key=handler, record={"retries": count}, body=kopf.Body({}), patch=patch)
body = kopf.Body(dict(patch))
seen = {handler: storage.fetch(key=handler, body=body)["retries"] for handler in retries}
expected = {"deploy/pods": 2, "deploy.pods": 2, "deploy_pods": 3}
print("guess:", retries)
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: kopf keeps no progress of the operator, whose handlers only watch (operator/readonly_operator/runtime/handlers.py).
