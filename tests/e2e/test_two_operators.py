"""Two operators share a cluster by labels of pools: each serves its own, and a changed label hands a pool over as it is."""

import contextlib
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import SYSTEM
from tests.e2e.install import CHART, VALUES, helm
from tests.e2e.kubernetes import Kubernetes, equal, eventually

pytestmark = pytest.mark.nightly

CANARY = "pulsar-readonly-canary"
STABLE_OPERATOR = ("pulsar-readonly-operator", SYSTEM)
CANARY_OPERATOR = ("canary-pulsar-readonly-operator", CANARY)
OPERATORS = "app.kubernetes.io/name=pulsar-readonly-operator"
CHILDREN = "statefulsets,services,configmaps,serviceaccounts,poddisruptionbudgets,pods"
READY = {"Ready": ("True", "BrokersReady")}
HELD = {"Ready": ("True", "Held"), "LookupConfigured": ("True", "Held")}


def scale(kubernetes: Kubernetes, operator: tuple[str, str], replicas: int) -> None:
    """Start or stop an operator, and wait for it."""
    name, namespace = operator
    kubernetes("scale", f"deployment/{name}", "-n", namespace, f"--replicas={replicas}")
    kubernetes("rollout", "status", f"deployment/{name}", "-n", namespace, "--timeout=180s", timeout=200)

    eventually(lambda: equal(len(kubernetes.list("pods", namespace, OPERATORS)), replicas), 60)


@contextlib.contextmanager
def stopped(kubernetes: Kubernetes, operator: tuple[str, str]) -> Iterator[None]:
    """No process of this operator."""
    scale(kubernetes, operator, 0)
    try:
        yield
    finally:
        scale(kubernetes, operator, 1)


@pytest.fixture
def two(operator) -> Iterator[Kubernetes]:
    """The operator of the session without pools of the label operator=canary, and a second release of the chart for these."""
    name, namespace = STABLE_OPERATOR
    select = ("set", "env", f"deployment/{name}", "-n", namespace)
    wait = ("rollout", "status", f"deployment/{name}", "-n", namespace, "--timeout=180s")
    options = ("--namespace", CANARY, "--create-namespace", "--values", str(VALUES))
    try:
        operator(*select, "PULSAR_READONLY_SELECTOR=operator!=canary")
        operator(*wait, timeout=200)
        select_own = ("--set", "settings.selector=operator=canary")
        helm(operator, "upgrade", "--install", "canary", str(CHART), *options, *select_own)
        scale(operator, CANARY_OPERATOR, 1)
        yield operator
    finally:
        with contextlib.suppress(AssertionError):  # where it was not installed
            helm(operator, "uninstall", "canary", "--namespace", CANARY)
        operator("delete", "namespace", CANARY, "--ignore-not-found", "--wait=false")
        operator(*select, "PULSAR_READONLY_SELECTOR-")
        operator(*wait, timeout=200)


def test_each_serves_its_own_and_a_label_hands_a_pool_over(two, writer, namespace, pool, binding):
    kubernetes = two
    topic = f"persistent://public/default/{namespace}"
    fresh = pool("fresh", replicas=1)
    fresh["metadata"]["labels"] = {"operator": "canary"}
    kubernetes.apply(pool("stable", replicas=1), fresh)
    kubernetes.apply(*(binding(name, f"{topic}-{name}", pool=name) for name in ("stable", "fresh")))
    for name in ("stable", "fresh"):
        kubernetes.expect("robp", name, namespace, READY, timeout=240)
        kubernetes.expect("rotb", name, namespace, HELD, timeout=60)

    def children(name: str) -> dict[tuple[str, str], str]:
        found = kubernetes.list(CHILDREN, namespace, f"pulsar-readonly.io/pool={name}")
        return {(one["kind"], one["metadata"]["name"]): one["metadata"]["uid"] for one in found}

    def check_repaired(name: str) -> None:
        kubernetes("delete", "service", name, "-n", namespace)
        eventually(lambda: kubernetes.get("service", name, namespace), 30)

    def check_only(served: str, other: str, number: int) -> None:
        """The running operator serves one pool, and does nothing with the other one: neither its objects nor its status."""
        kubernetes("delete", "service", other, "-n", namespace)
        kubernetes("patch", "robp", other, "-n", namespace, "--type=merge", "-p", f'{{"spec":{{"replicas":{number}}}}}')
        for _ in range(2):
            check_repaired(served)
        with pytest.raises(LookupError):
            kubernetes.get("service", other, namespace)
        assert kubernetes.get("statefulset", other, namespace)["spec"]["replicas"] != number
        body = kubernetes.get("robp", other, namespace)
        assert body["status"]["observedGeneration"] < body["metadata"]["generation"]

    def wait_for_scale(name: str, replicas: int) -> None:
        def scaled() -> None:
            kubernetes.get("service", name, namespace)
            assert kubernetes.get("statefulset", name, namespace)["spec"]["replicas"] == replicas

        eventually(scaled, 60)
        kubernetes.expect("robp", name, namespace, READY, timeout=180)

    with stopped(kubernetes, CANARY_OPERATOR):
        check_only("stable", "fresh", 2)
    wait_for_scale("fresh", 2)
    with stopped(kubernetes, STABLE_OPERATOR):
        check_only("fresh", "stable", 2)
    wait_for_scale("stable", 2)

    # bindings of pools of both operators count for conflicts
    kubernetes.apply(binding("clash", f"{topic}-stable", pool="fresh"))
    kubernetes.expect("rotb", "clash", namespace, {"Ready": ("False", "Conflict")}, timeout=60)
    kubernetes("delete", "rotb", "clash", "-n", namespace)

    before, generation = children("fresh"), kubernetes.get("statefulset", "fresh", namespace)["metadata"]["generation"]
    kubernetes("label", "robp", "fresh", "-n", namespace, "operator-")
    with stopped(kubernetes, CANARY_OPERATOR):
        kubernetes("patch", "robp", "fresh", "-n", namespace, "--type=merge", "-p", '{"spec":{"logLevel":"info"}}')
        kubernetes.expect("robp", "fresh", namespace, READY, timeout=60)
        kubernetes.expect("rotb", "fresh", namespace, HELD)
        assert children("fresh") == before, "something was deleted or made again"
        check_repaired("fresh")
        kubernetes("label", "robp", "fresh", "-n", namespace, "operator=canary")
        check_only("stable", "fresh", 1)
    wait_for_scale("fresh", 1)
    assert kubernetes.get("statefulset", "fresh", namespace)["metadata"]["generation"] == generation + 1
    kubernetes.expect("rotb", "fresh", namespace, HELD)
    assert children("fresh")["Pod", "fresh-0"] == before["Pod", "fresh-0"]
