#!/bin/bash
# Oxia's deletion of a range is one notification with the range's ends, not one for each deleted record.
set -eu
folder=$(mktemp -d)
server=
finish() {
    status=$?
    if [ -n "$server" ]; then
        kill "$server" 2> /dev/null || true
        wait "$server" 2> /dev/null || true
    fi
    rm -rf "$folder"
    exit "$status"
}
trap finish EXIT
cd "$folder"
mkdir build
cat > build/go.mod <<'MODULE'
module findings

go 1.24.2

require github.com/oxia-db/oxia v0.14.0
MODULE
cat > build/tools.go <<'PROGRAM'
//go:build tools

package findings

import _ "github.com/oxia-db/oxia/cmd"
PROGRAM
(
    cd build
    export GOFLAGS=-mod=mod GOTOOLCHAIN=local
    go mod tidy 2> tidy.log || { cat tidy.log; exit 1; }
    go build -o ../oxia github.com/oxia-db/oxia/cmd
)
${PYTHON:-python3} -m venv venv
venv/bin/pip install -q --disable-pip-version-check oxia==0.2.1 betterproto2==0.9.1 betterproto2_compiler==0.9.0 xxhash==3.8.2
ports=$(venv/bin/python - <<'PROGRAM'
import socket

sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(one.getsockname()[1] for one in sockets))
PROGRAM
)
read -r public metrics <<< "$ports"
./oxia standalone --shards 1 -p "127.0.0.1:$public" -m "127.0.0.1:$metrics" --data-dir db --wal-dir wal > server.log 2>&1 &
server=$!
venv/bin/python - "$public" <<'PROGRAM'
import os
import sys
import threading
import time
from importlib.metadata import version

import oxia

print("oxia (server) 0.14.0, oxia (Python)", version("oxia"))
for left in reversed(range(100)):
    try:
        client = oxia.Client(f"127.0.0.1:{sys.argv[1]}")
        client.list("a", "b")
        break
    except Exception:
        if not left:
            raise
        time.sleep(0.2)
notifications = client.get_notifications()
seen = []
first, last = threading.Event(), threading.Event()


def follow():
    for one in notifications:
        first.set()
        if one.key() == "last":
            last.set()
        elif one.key() != "first":
            seen.append((one.notification_type().name, one.key(), one.key_range_end()))


threading.Thread(target=follow, daemon=True).start()
for left in reversed(range(100)):
    client.put("first", "")
    if first.wait(0.2):
        break
for key in ("n1", "n2", "n3"):
    client.put(key, "")
client.delete_range("n", "o")
client.put("last", "")
last.wait(30)
seen = seen[3:]
expected = [("KEY_RANGE_DELETED", "n", "o")]
print("guess:", "three notifications KEY_DELETED, of n1, n2 and n3")
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
sys.stdout.flush()
os._exit(0)
PROGRAM
# Here: a notification of a range changes every known record between its ends (engine/readonly_engine/metadata/oxia/index.py).
