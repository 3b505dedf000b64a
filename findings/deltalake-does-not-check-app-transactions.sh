#!/bin/bash
# delta-rs writes down the version of an application transaction and does not check it: a repeated or older version is committed again.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
${PYTHON:-python3} -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check deltalake==1.6.6 pyarrow==26.0.1
cd "$folder"
venv/bin/python - <<'PROGRAM'
import deltalake
import pyarrow
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

print("deltalake", deltalake.__version__)
row = pyarrow.table({"a": [1]})
for version in (1, 1, 0):
    transaction = CommitProperties(app_transactions=[Transaction("app", version)])
    write_deltalake("table", row, mode="append", commit_properties=transaction)
table = DeltaTable("table")
seen = (table.count(), table.transaction_version("app"))
expected = (3, 0)
print("guess:", 'an append whose txn version is not above the last one is skipped or refused, as Spark does with txnVersion')
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: Delta is written by Spark, which skips a known version (spark/readonly_spark/export).
