"""Twenty pools of a source cluster that never answers, beside a pool of a healthy one: deletions there are done soon."""

import time

import pytest

from tests.e2e.conftest import _binding, _pool

pytestmark = pytest.mark.nightly

POOLS = 20
SECONDS = 10.0
"""Longest deletion of a binding of the healthy cluster."""
PORTS = {"pulsar": 6650, "admin": 8080, "store": 2181}
ACCEPT = f"""
import socket, time
kept = [socket.create_server(("", port), backlog=4096) for port in {list(PORTS.values())}]
time.sleep(1e9)
"""
"""Servers that take connections, and never answer: each request to them takes its whole time limit."""
HOSTS = [f"dead-{number}" for number in range(3)]


def dead_cluster(namespace: str) -> list[dict]:
    """A pod of such servers, and three hosts that lead to it."""
    labels = {"app": "dead"}
    security = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    container = {
        "name": "dead",
        "image": "localhost/pulsar-readonly/engine:dev",
        "imagePullPolicy": "Never",
        "command": ["python", "-c", ACCEPT],
    }
    spec = {"containers": [container], "securityContext": security, "terminationGracePeriodSeconds": 0}
    metadata = {"name": "dead", "namespace": namespace, "labels": labels}
    ports = [{"name": name, "port": port} for name, port in PORTS.items()]
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
        *(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": host, "namespace": namespace},
                "spec": {"selector": labels, "ports": ports},
            }
            for host in HOSTS
        ),
    ]


def test_a_deletion_at_a_healthy_cluster_does_not_wait_for_a_dead_one(
    operator, writer, namespace, pool, binding, may_finalize, eventually, measured
):
    operator.apply(
        *dead_cluster(namespace), pool(replicas=1, cursors="Local", cursorPartitions=1, onDeletion="Release")
    )
    bindings = [
        binding(f"healthy-{number}", f"persistent://public/default/{namespace}-{number}") for number in range(3)
    ]
    for body in bindings:
        body["spec"]["onDeletion"] = "Release"
    operator.apply(*bindings)
    hosts = [f"{host}.{namespace}.svc.cluster.local" for host in HOSTS]
    source = {
        "serviceUrl": "pulsar://" + ",".join(f"{host}:6650" for host in hosts),
        "adminUrl": "http://" + ",".join(f"{host}:8080" for host in hosts),
        "metadataStoreUrl": "zk:" + ",".join(f"{host}:2181" for host in hosts),
    }
    names = [f"lost-{number}" for number in range(POOLS)]
    spec = {"cursors": "Local", "onDeletion": "Release", "source": source, "replicas": 0}
    made = [_pool(namespace, name, **spec, lookup={"clusterName": f"{namespace}-{name}"}) for name in names]
    for name in names:
        body = _binding(namespace, name, f"persistent://public/default/{name}", pool=name)
        body["spec"]["onDeletion"] = "Release"
        made.append(body)
    operator.apply(*made)
    operator.expect("robp", "demo", namespace, {"Ready": ("True", "BrokersReady")}, timeout=240)
    for body in bindings:
        operator.expect("rotb", body["metadata"]["name"], namespace, {"LocalCursors": ("True", "Allowed")}, timeout=60)

    def finalized() -> None:
        found = operator.list("rotb,robp", namespace)
        assert len(found) == 2 * POOLS + len(bindings) + 1
        assert all(one["metadata"].get("finalizers") for one in found)

    eventually(finalized, 120)
    operator("delete", "-n", namespace, "--wait=false", *(f"rotb/{name}" for name in names))
    operator("delete", "-n", namespace, "--wait=false", *(f"robp/{name}" for name in names[POOLS // 2 :]))

    def waiting() -> int:
        """Half of the bindings, and the pools of the others: a pool that goes takes all its guards along."""
        return sum("deletionTimestamp" in one["metadata"] for one in operator.list("rotb,robp", namespace))

    def silent() -> None:
        message = operator.condition("rotb", names[0], namespace, "LocalCursors")["message"]
        assert "the source cluster does not answer" in message

    eventually(silent, 60)
    durations = []
    for body in bindings:
        assert waiting() == POOLS, "the dead cluster must keep the operator busy"
        name, began = body["metadata"]["name"], time.monotonic()
        operator("delete", f"rotb/{name}", "-n", namespace, f"--timeout={SECONDS:.0f}s")
        durations.append(time.monotonic() - began)
    measured(
        f"deletions of bindings beside {POOLS} pools of a dead cluster: {', '.join(f'{one:.1f} s' for one in durations)}"
    )
    assert max(durations) < SECONDS
    began = time.monotonic()
    operator("delete", "robp/demo", "-n", namespace, "--timeout=120s")
    measured(f"deletion of the pool of the healthy cluster: {time.monotonic() - began:.1f} s")
