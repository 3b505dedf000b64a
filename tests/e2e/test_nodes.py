"""A node is drained while stock clients read through the brokers on it."""

import threading

import pytest

from tests.e2e.conftest import SOURCE
from tests.e2e.traffic import Traffic, plan

pytestmark = pytest.mark.slow

POOL_LABEL = "pulsar-readonly.io/pool=demo"
REPLICAS = 3
SETTLED = {"Ready": ("True", "BrokersReady"), "Progressing": ("False", "Settled")}
LOOK_SECONDS = 0.2


@pytest.fixture
def two_nodes(kubernetes):
    """Names of the nodes that take pods; all of them do so again afterwards."""
    found = [
        one["metadata"]["name"]
        for one in kubernetes.list("nodes", "default")
        if not any(taint["effect"] == "NoSchedule" for taint in one["spec"].get("taints", ()))
    ]
    if len(found) < 2:
        pytest.skip(
            f"a drain needs two nodes that take pods, and there is {', '.join(found)}: make test-e2e brings up two"
        )
    yield found
    kubernetes("uncordon", *found)


def ready(pod) -> bool:
    conditions = pod["status"].get("conditions", ())
    return "deletionTimestamp" not in pod["metadata"] and any(
        one["type"] == "Ready" and one["status"] == "True" for one in conditions
    )


class Watch:
    """Looks at the pool's pods all the time, in a thread.

    Args:
        kubernetes: the cluster.
        namespace: of the pool.
    """

    def __init__(self, kubernetes, namespace) -> None:
        self.fewest = REPLICAS
        self._kubernetes, self._namespace = kubernetes, namespace
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            pods = self._kubernetes.list("pods", self._namespace, POOL_LABEL)
            self.fewest = min(self.fewest, sum(map(ready, pods)))

    def stop(self) -> int:
        """Look no more; returns how many brokers there were at least."""
        self._stop.set()
        self._thread.join()
        return self.fewest


def test_a_node_is_drained(
    operator, writer, client_image, namespace, pool, binding, two_nodes, eventually, measured
) -> None:
    def nodes() -> dict[str, str]:
        return {
            one["metadata"]["name"]: one["spec"]["nodeName"]
            for one in operator.list("pods", namespace, POOL_LABEL)
            if ready(one)
        }

    operator.apply(pool(replicas=REPLICAS), binding("all", f"persistent://public/default/{namespace}-.*"))
    operator.expect("robp", "demo", namespace, SETTLED, timeout=180)
    clients = Traffic(operator, namespace, plan(namespace, SOURCE))
    clients.wait_for_more(eventually)

    def allowed():
        assert operator.get("poddisruptionbudget", "demo", namespace)["status"]["disruptionsAllowed"] == 1

    eventually(allowed)
    # the node with most of them, so that the budget has something to forbid: they are spread as far as the scheduler likes
    drained = max(two_nodes, key=lambda node: list(nodes().values()).count(node))
    others = set(two_nodes) - {drained}
    watch = Watch(operator, namespace)
    try:
        # the source cluster's pods stay: its data is on a node
        said = operator(
            *("drain", drained, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=150s"),
            f"--pod-selector={POOL_LABEL}",
            timeout=160,
        )
        operator.expect("robp", "demo", namespace, SETTLED, timeout=120)
    finally:
        fewest = watch.stop()
    assert f"{drained} drained" in said
    assert fewest == REPLICAS - 1, "the budget lets one broker go at a time"
    assert set(nodes().values()) <= others
    clients.wait_for_more(eventually)

    history = clients.finish()
    history.check()
    history.moves.check()
    measured(f"drain of one of two nodes: {history.summary()}")
