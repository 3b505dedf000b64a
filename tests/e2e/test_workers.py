"""A pool whose brokers have several worker processes: all serve, and the operator asks all of them."""

import json

import pytest

pytestmark = pytest.mark.nightly

READY = {"Ready": ("True", "BrokersReady"), "LookupConfigured": ("True", "Held")}


def numbers(service) -> dict[str, int]:
    return {port["name"]: port["port"] for port in service["spec"]["ports"]}


def test_workers_serve_and_hold_the_bindings(operator, writer, namespace, pool, binding, eventually):
    operator.apply(pool(replicas=1, workers=2, networkPolicy={}))
    operator.apply(binding("orders", "persistent://public/default/orders"))
    said = operator.expect("robp", "demo", namespace, READY, timeout=180)
    assert said["LookupConfigured"] == "1 of 1 brokers hold 1 binding"
    operator.expect("rotb", "orders", namespace, {"Ready": ("True", "Held")}, timeout=60)
    for port in (8180, 8280):
        path = f"/api/v1/namespaces/{namespace}/pods/demo-0:{port}/proxy/bindings"
        held = json.loads(operator("get", "--raw", path))
        assert [one["name"] for one in held["bindings"]] == [f"{namespace}/orders"]

    def members():
        path = f"/api/v1/namespaces/{namespace}/pods/demo-0:8180/proxy/stats"
        assert len(json.loads(operator("get", "--raw", path))["brokers"]) == 2, "each worker is a member of the pool"

    eventually(members, 30)


def test_workers_come_and_go_by_a_rollout(operator, writer, namespace, pool, eventually):
    operator.apply(pool(replicas=1))
    operator.expect("robp", "demo", namespace, READY, timeout=120)
    assert "pulsar-0" not in numbers(operator.get("service", "demo-headless", namespace))
    first = operator.get("pod", "demo-0", namespace)["metadata"]["uid"]
    operator.apply(pool(replicas=1, workers=2))

    def replaced():
        pod = operator.get("pod", "demo-0", namespace)
        assert pod["metadata"]["uid"] != first
        assert "http-1" in [port["name"] for port in pod["spec"]["containers"][0]["ports"]]

    eventually(replaced, 120)
    operator.expect("robp", "demo", namespace, READY, timeout=120)
    operator.apply(pool(replicas=1))

    def gone():  # once the last broker with workers has ended
        assert numbers(operator.get("service", "demo-headless", namespace)) == {"pulsar": 6650, "http": 8080}

    eventually(gone, 180)


STOP_ONE = "import os, signal; os.kill(int(open('/proc/1/task/1/children').read().split()[0]), signal.SIGSTOP)"


def test_a_worker_that_hangs_is_named_and_replaced_in_its_pod(operator, writer, namespace, pool):
    operator.apply(pool(replicas=1, workers=2))
    operator.expect("robp", "demo", namespace, READY, timeout=180)
    operator("exec", "demo-0", "-n", namespace, "--", "python", "-c", STOP_ONE)
    said = operator.expect("robp", "demo", namespace, {"Ready": ("False", "BrokersNotReady")}, timeout=60)
    assert "worker " in said["Ready"]
    assert "does not answer" in said["Ready"]
    operator.expect("robp", "demo", namespace, READY, timeout=180)
    pod = operator.get("pod", "demo-0", namespace)
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0, "the other worker went on"
