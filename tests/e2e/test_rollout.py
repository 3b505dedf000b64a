"""Brokers of a pool are replaced, taken away and added while stock clients read: nothing is lost, doubled or disordered.

Every consumer is told to go, and is at another broker, before its connection to the old one ends.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.conftest import SOURCE
from tests.e2e.kubernetes import Kubernetes
from tests.e2e.traffic import Traffic, plan

pytestmark = pytest.mark.slow

POOL_LABEL = "pulsar-readonly.io/pool=demo"
SETTLED = {"Ready": ("True", "BrokersReady"), "Progressing": ("False", "Settled")}


@pytest.fixture
def traffic(operator, writer, client_image, namespace, pool, binding) -> Callable[..., Traffic]:
    """Starts a pool of three brokers and traffic through it; takes fields of the binding's spec."""

    def start(**fields: Any) -> Traffic:
        topics = binding("all", f"persistent://public/default/{namespace}-.*")
        topics["spec"].update(fields)
        operator.apply(pool(replicas=3), topics)
        operator.expect("robp", "demo", namespace, SETTLED, timeout=180)
        operator.expect("rotb", "all", namespace, {"LookupConfigured": ("True", "Held")}, timeout=60)
        return Traffic(operator, namespace, plan(namespace, SOURCE))

    return start


def brokers(kubernetes: Kubernetes, namespace: str) -> dict[str, dict[str, Any]]:
    """The pods that are not about to go, by name."""
    return {
        one["metadata"]["name"]: one
        for one in kubernetes.list("pods", namespace, POOL_LABEL)
        if "deletionTimestamp" not in one["metadata"]
    }


def shares(kubernetes: Kubernetes, namespace: str) -> dict[str, int]:
    """How many consumers each broker has."""
    return {
        name: kubernetes.broker(name, namespace, "/stats")["consumers"]
        for name in sorted(brokers(kubernetes, namespace))
    }


def test_a_rolling_update(operator, namespace, pool, traffic, eventually, measured):
    clients = traffic()
    clients.wait_for_more(eventually)
    before = brokers(operator, namespace)
    operator.apply(pool(replicas=3, resources={"requests": {"cpu": "30m", "memory": "128Mi"}}))
    operator.expect("robp", "demo", namespace, SETTLED, timeout=240)
    after = brokers(operator, namespace)
    assert set(after) == set(before)
    for name, pod in after.items():
        assert pod["metadata"]["uid"] != before[name]["metadata"]["uid"]
        assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "30m"
    clients.wait_for_more(eventually)
    history = clients.finish()
    history.check()
    history.moves.check()
    measured(f"rolling update of 3 brokers: {history.summary()}")


def test_scaling_down_and_up(operator, namespace, pool, traffic, eventually, measured):
    clients = traffic()
    clients.wait_for_more(eventually)
    operator("scale", "robp/demo", "--replicas=1", "-n", namespace)

    def one_is_left():
        assert [one["metadata"]["name"] for one in operator.list("pods", namespace, POOL_LABEL)] == ["demo-0"]

    eventually(one_is_left, 120)
    operator.expect("robp", "demo", namespace, SETTLED, timeout=60)
    everybody = sum(shares(operator, namespace).values())
    clients.wait_for_more(eventually)
    operator("scale", "robp/demo", "--replicas=3", "-n", namespace)
    operator.expect("robp", "demo", namespace, SETTLED, timeout=120)

    def spread():
        found = shares(operator, namespace)
        assert len(found) == 3
        assert min(found.values()) >= everybody // 6, found
        return found

    measured(f"consumers of 1 broker, {everybody}, after scaling to 3: {sorted(eventually(spread, 180).values())}")
    clients.wait_for_more(eventually)
    history = clients.finish()
    history.check()
    history.moves.check()
    measured(f"scaling 3 to 1 to 3: {history.summary()}")


def test_a_deleted_pools_consumers_go_to_the_owner(operator, namespace, pool, traffic, eventually, measured):
    """Where the binding lets them; else they try again, until there is a pool."""
    clients = traffic(fallback="Owner")
    clients.wait_for_more(eventually)
    operator("delete", "robp/demo", "-n", namespace)

    def gone():
        assert operator.list("pods,services,statefulsets", namespace, POOL_LABEL) == []

    eventually(gone, 90)
    clients.wait_for_more(eventually)
    history = clients.finish()
    history.check()
    history.moves.check()
    measured(f"deletion of a pool: {history.summary()}")
