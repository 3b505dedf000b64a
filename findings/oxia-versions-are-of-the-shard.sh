#!/bin/bash
# Oxia numbers the versions of a shard, not of a record: a record that was deleted and put again does not begin at 0, as in ZooKeeper.
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
seen = [client.put("a", "1")[1].version_id()]
client.delete("a")
seen.append(client.put("a", "1")[1].version_id())
client.put("b", "1")
seen.append(client.put("a", "2")[1].version_id())
client.close()
expected = [0, 1, 3]
print("guess:", "versions 0, 0 after the deletion, and 1")
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: a write expects the version that was read, and never computes the next one (engine/readonly_engine/metadata/oxia/store.py).
