"""Consumers at a pool while servers are away that they do not need: Kubernetes' API server, and the source cluster's ZooKeeper.

Both are shared with whoever uses the same Kubernetes: nothing else should run on it meanwhile.
"""

import itertools
import json
import os
import pathlib
import signal
import threading
import time
from dataclasses import dataclass

import pytest

from devstack.kube.choice import choose
from devstack.kube.layout import default_layout
from devstack.kube.local import LocalCluster
from devstack.kube.node_processes import NodeProcesses, resume
from tests.e2e.conftest import SOURCE, SYSTEM, devstack
from tests.e2e.kubernetes import client_pod, equal

pytestmark = pytest.mark.slow

API_AWAY_SECONDS = 60.0
ZOOKEEPER_AWAY_SECONDS = 45.0
CLIENTS = pathlib.Path(__file__).parent / "chaos_clients.py"
READY = {"Ready": ("True", "BrokersReady")}
BROKERS = "pulsar-readonly.io/pool=demo"
BOOKIES = "component=bookie"
SESSION_SECONDS = 45.0
"""After so long ZooKeeper knows which sessions did not survive its absence (zkTimeout of the bookies is 30 s)."""
OPERATORS = "app.kubernetes.io/name=pulsar-readonly-operator"


@dataclass(frozen=True)
class TrafficTotals:
    """What the clients saw.

    Attributes:
        sent: when each message was published.
        got: by consumer, which messages came when.
    """

    sent: list[float]
    got: dict[str, list[list[float]]]

    def check(self) -> None:
        """Every consumer got everything, in order, and nothing twice."""
        for name, got in self.got.items():
            numbers = [int(number) for number, _ in got]
            assert numbers == list(range(len(self.sent))), (
                f"{name} got {len(numbers)} of {len(self.sent)}, or not in order"
            )

    def gap(self, name: str, begin: float, end: float) -> float:
        """The longest time without a message at a consumer, of what began in a span of time."""
        times = [at for _, at in self.got[name]]
        return max(after - at for at, after in itertools.pairwise(times) if begin <= after and at <= end)


@pytest.fixture
def flowing(kubernetes, namespace, pool, binding, eventually):
    """Starts a pool with a topic, a producer, and consumers at the pool and at the owner; ends them and tells what they saw."""
    topic = f"persistent://public/default/chaos-{namespace}"
    clients = [f"pool-{one}=pulsar://demo.{namespace}.svc.cluster.local:6650" for one in "ab"]
    clients.append(f"owner={SOURCE['serviceUrl']}")
    pod = client_pod(namespace, "clients", "-c", CLIENTS.read_text(), SOURCE["serviceUrl"], topic, *clients)
    pod["spec"]["restartPolicy"] = "Never"

    def start():
        devstack("image", "build", "--load", "client", timeout=900)
        kubernetes.apply(pool(replicas=2), binding("chaos", topic))
        kubernetes.expect("robp", "demo", namespace, READY, timeout=180)
        kubernetes.expect("rotb", "chaos", namespace, {"LookupConfigured": ("True", "Held")}, timeout=60)
        kubernetes.apply(pod)

        def flows():
            assert "messages flow" in kubernetes("logs", "clients", "-n", namespace)

        eventually(flows, 120)

    def end() -> TrafficTotals:
        kubernetes("exec", "clients", "-n", namespace, "--", "python", "-c", "open('/tmp/stop', 'w').close()")

        eventually(
            lambda: equal(kubernetes.get("pod", "clients", namespace)["status"]["phase"], "Succeeded"), 240, every=0.5
        )
        return TrafficTotals(**json.loads(kubernetes("logs", "clients", "-n", namespace).splitlines()[-1]))

    return start, end


def restarts(kubernetes, namespace: str, selector: str) -> dict[str, int]:
    """How often each container was started again, by uid of its pod."""
    return {
        pod["metadata"]["uid"]: sum(one["restartCount"] for one in pod["status"].get("containerStatuses", ()))
        for pod in kubernetes.list("pods", namespace, selector)
    }


@pytest.fixture
def api_server() -> int:
    """The process of the API server."""
    if not isinstance(choose(), LocalCluster):
        pytest.skip("the API server of kind is not a process of this machine")
    layout = default_layout()
    pid = NodeProcesses(layout.processes, layout.logs).pid("kube-apiserver")
    assert pid is not None
    return pid


def test_messages_flow_without_an_api_server(
    operator, writer, namespace, flowing, api_server, binding, eventually, measured
):
    start, end = flowing
    start()
    of_operator, of_brokers = restarts(operator, SYSTEM, OPERATORS), restarts(operator, namespace, BROKERS)
    transitions = operator.get("lease", "pulsar-readonly-operator", SYSTEM)["spec"]["leaseTransitions"]
    os.kill(api_server, signal.SIGSTOP)
    stopped = time.time()
    try:
        threading.Event().wait(API_AWAY_SECONDS)
    finally:
        resume(api_server)
    back = time.time()

    eventually(lambda: equal(operator.run("get", "--raw", "/readyz", timeout=30).returncode, 0), 60)
    operator.apply(binding("later", f"persistent://public/default/later-{namespace}"))
    operator.expect("rotb", "later", namespace, {"LookupConfigured": ("True", "Held")}, timeout=120)
    taken_up = time.time() - back

    def is_led():
        spec = operator.get("lease", "pulsar-readonly-operator", SYSTEM)["spec"]
        pods = [pod["metadata"]["name"] for pod in operator.list("pods", SYSTEM, OPERATORS)]
        assert spec["holderIdentity"].partition("_")[0] in pods
        assert spec["leaseTransitions"] <= transitions + 1, "the Lease went to and fro"

    eventually(is_led, 60)
    operator.expect("robp", "demo", namespace, {**READY, "LookupConfigured": ("True", "Held")}, timeout=60)
    # the watches are there again: what is changed now is taken up at once
    began = time.time()
    operator("delete", "rotb/later", "-n", namespace)
    operator("delete", "service/demo-headless", "-n", namespace)
    eventually(lambda: operator.get("service", "demo-headless", namespace), 60)

    def dropped():
        for pod in ("demo-0", "demo-1"):
            assert [one["name"] for one in operator.broker(pod, namespace, "/bindings")["bindings"]] == [
                f"{namespace}/chaos"
            ]

    eventually(dropped, 60)
    watched = time.time() - began
    flow = end()
    flow.check()
    gaps = [flow.gap(one, stopped, back + taken_up) for one in ("pool-a", "pool-b", "owner")]
    after = restarts(operator, SYSTEM, OPERATORS)
    measured(
        f"API server away for {API_AWAY_SECONDS:.0f} s: a change made then is held by brokers {taken_up:.1f} s after it is "
        f"back, the next one after {watched:.1f} s; longest gap at the pool {max(gaps[:2]):.2f} s, at the owner {gaps[2]:.2f} s; "
        f"restarts of the operator: {sum(after.values()) - sum(of_operator.values())}"
    )
    assert max(gaps[:2]) < max(5.0, 2 * gaps[2]), gaps
    assert restarts(operator, namespace, BROKERS) == of_brokers
    assert after.keys() == of_operator.keys()
    assert sum(after.values()) <= sum(of_operator.values()) + 1, (
        "who has lost the Lease ends once, and waits for it again"
    )


@pytest.fixture
def zookeeper(kubernetes, writer):
    """Takes ZooKeeper of the source cluster away, and brings it back."""
    name = ("statefulset/pulsar-zookeeper", "-n", writer)

    def away():
        kubernetes("scale", *name, "--replicas=0")
        kubernetes("wait", "--for=delete", "pod/pulsar-zookeeper-0", "-n", writer, "--timeout=60s")

    def back():
        kubernetes("scale", *name, "--replicas=1")
        kubernetes("rollout", "status", *name, "--timeout=120s", timeout=130)

    def registered() -> int:
        shell = ("bin/pulsar", "zookeeper-shell", "-server", "localhost:2181", "ls", "/ledgers/available")
        return kubernetes("exec", "pulsar-zookeeper-0", "-n", writer, "--", *shell).count("pulsar-bookie-")

    yield away, back
    back()
    # Bookies whose sessions ended meanwhile find their old registration there and keep it (ResourceLockImpl). They are
    # without one as soon as ZooKeeper takes the old sessions for dead, and nobody could make a ledger then.
    bookies = len(kubernetes.list("pods", writer, BOOKIES))
    judged = time.monotonic() + SESSION_SECONDS
    while registered() == bookies and time.monotonic() < judged:
        continue
    if registered() < bookies:
        kubernetes("delete", "pods", "-l", BOOKIES, "-n", writer)
    for part in ("bookie", "broker"):
        kubernetes("rollout", "status", f"statefulset/pulsar-{part}", "-n", writer, "--timeout=180s", timeout=190)


def test_messages_flow_without_zookeeper(operator, writer, namespace, flowing, zookeeper, eventually, measured):
    start, end = flowing
    away, back = zookeeper
    start()
    operator.expect("robp", "demo", namespace, {"SourceReachable": ("True", "Answers")}, timeout=60)
    of_brokers = restarts(operator, namespace, BROKERS)
    away()
    gone = time.time()
    message = operator.expect("robp", "demo", namespace, {"SourceReachable": ("False", "Unreachable")}, timeout=60)
    said = time.time() - gone
    assert f"spec.source.metadataStoreUrl {SOURCE['metadataStoreUrl']}: " in message["SourceReachable"]
    unready = looks = 0

    def is_over():
        nonlocal unready, looks
        ready = operator.condition("robp", "demo", namespace, "Ready")
        unready += ready["status"] != "True"
        looks += 1
        assert time.time() - gone > ZOOKEEPER_AWAY_SECONDS

    eventually(is_over, 2 * ZOOKEEPER_AWAY_SECONDS, every=1)
    back()
    returned = time.time()
    operator.expect("robp", "demo", namespace, {"SourceReachable": ("True", "Answers"), **READY}, timeout=120)
    seen = time.time() - returned
    flow = end()
    gaps = [flow.gap(one, gone, returned + 30) for one in ("pool-a", "pool-b", "owner")]
    measured(
        f"ZooKeeper away for {returned - gone:.0f} s: said after {said:.1f} s, and that it is back after {seen:.1f} s; longest "
        f"gap at the pool {max(gaps[:2]):.2f} s, at the owner {gaps[2]:.2f} s; it was not ready in {unready} of {looks} "
        "looks; sent twice: " + ", ".join(f"{name} {len(got) - len(flow.sent)}" for name, got in flow.got.items())
    )
    for name in flow.got:
        assert {int(number) for number, _ in flow.got[name]} == set(range(len(flow.sent))), f"{name} lacks messages"
    assert restarts(operator, namespace, BROKERS) == of_brokers, "probes do not restart brokers for it"
    assert max(gaps[:2]) < max(5.0, 1.5 * gaps[2]), gaps
