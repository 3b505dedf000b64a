#!/bin/bash
# Oxia's get of the next higher key gives a record of the server's own when there is no higher key of the clients.
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
import sys
import time
from importlib.metadata import version

import oxia
from oxia.ex import KeyNotFound

print("oxia (server) 0.14.0, oxia (Python)", version("oxia"))
for left in reversed(range(100)):
    try:
        client = oxia.Client(f"127.0.0.1:{sys.argv[1]}")
        client.put("a", "1")
        break
    except Exception:
        if not left:
            raise
        time.sleep(0.2)
listed = client.list("a", "zz")
try:
    found = client.get("z", comparison_type=oxia.ComparisonType.HIGHER)[0]
except KeyNotFound:
    found = "KeyNotFound"
client.close()
seen = (listed, found)
expected = (["a"], "__oxia/commit-offset")
print("guess:", "there is no key above z, the only one being a: KeyNotFound")
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: no neighbours of keys are asked for (engine/readonly_engine/metadata/oxia).
