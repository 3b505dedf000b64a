#!/bin/bash
# pyiceberg refuses to append times that have a zone other than UTC, though Arrow stores them as the same instants.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
${PYTHON:-python3} -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check 'pyiceberg[sql-sqlite]==0.12.0' pyarrow==26.0.1
cd "$folder"
venv/bin/python - <<'PROGRAM'
from datetime import datetime, timezone
from pathlib import Path

import pyarrow
import pyiceberg
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException

print("pyiceberg", pyiceberg.__version__)
catalog = SqlCatalog("c", uri="sqlite:///c.db", warehouse=f"file://{Path.cwd()}/warehouse")
catalog.create_namespace("n")

at = [datetime(2024, 1, 1, tzinfo=timezone.utc)]
seen = []
for number, zone in enumerate(("UTC", "Europe/Berlin")):
    table = catalog.create_table(f"n.t{number}", pyarrow.schema([("at", pyarrow.timestamp("us", "UTC"))]))
    try:
        table.append(pyarrow.table({"at": pyarrow.array(at, pyarrow.timestamp("us", zone))}))
        seen.append("accepted")
    except UnsupportedPyArrowTypeException:
        seen.append("refused")
expected = ["accepted", "refused"]
print("guess:", 'times of Arrow with the zone Europe/Berlin are taken for a timestamptz: they are instants, stored in UTC as any other')
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: times are in UTC or without a zone (spark/readonly_spark/values/type_names.py).
