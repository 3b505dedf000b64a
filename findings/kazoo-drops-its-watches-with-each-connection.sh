#!/bin/bash
# kazoo drops all watches when a connection breaks, though the session goes on; ZooKeeper's own client sets them again.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
artifact=org.apache.pulsar:pulsar-server-distribution:4.0.8:tar.gz:bin
mvn -q -B -Dstyle.color=never org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -Dartifact="$artifact" -DoutputDirectory=.
tar -xzf pulsar-server-distribution-*.tar.gz --wildcards '*/lib/*'
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check kazoo==2.11.0
echo '<Configuration><Loggers><Root level="OFF"/></Loggers></Configuration>' > quiet.xml
cat > program.py <<'PROGRAM'
import socket
import subprocess
import sys
import time
from pathlib import Path

from kazoo.client import KazooClient, KazooState


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("not within a minute")
        time.sleep(0.05)


port, (jars,) = free_port(), {str(jar.parent) for jar in Path().glob("*/lib/*.jar")}
Path("zoo.cfg").write_text(f"tickTime=2000\ndataDir=data\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n")
java = ["java", "-Dlog4j2.configurationFile=quiet.xml", "-cp", f"{jars}/*", "org.apache.zookeeper.server.quorum.QuorumPeerMain"]


def server():
    return subprocess.Popen([*java, "zoo.cfg"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


running = server()
try:
    client = KazooClient(f"127.0.0.1:{port}", timeout=30)
    client.start(60)
    events, states, session = [], [], client.client_id[0]
    client.add_listener(states.append)
    client.create("/node", b"1")
    client.get("/node", watch=events.append)
    running.kill()
    running.wait()
    wait_for(lambda: KazooState.SUSPENDED in states)
    running = server()
    wait_for(lambda: KazooState.CONNECTED in states)
    client.set("/node", b"2")
    client.get("/node")
    time.sleep(2)
    same = client.client_id[0] == session
    seen = [(event.type, event.path) for event in events]
    client.stop()
finally:
    running.kill()
    running.wait()
print(f"kazoo 2.11.0, ZooKeeper of Pulsar 4.0.8: a watch on a node, a restart of the server in between, the session is the same: {same}")
print("guess: the watch is set again with the new connection, as ZooKeeper's own client does, and tells of the next change")
print(f"seen:  it tells of {seen}: the end of the connection, without a node, and of no change of the node after that")
if not same or seen != [("NONE", None)]:
    sys.exit("changed: it was [('NONE', None)], in the same session")
PROGRAM
venv/bin/python program.py
# Here: after each reconnection all watched nodes are read again, by turns (engine/readonly_engine/metadata/watchers.py).
