"""Bindings of other namespaces: the pool allows them, by scope, label and tenant, and every change counts at once."""

import json
import uuid

import pytest

TOPIC = "persistent://public/default/orders"
AT_ONCE_SECONDS = 30.0
"""Far less than the operator's resync."""
LABEL = "pulsar-readonly-tests"


@pytest.fixture
def other(kubernetes):
    """A second namespace."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    kubernetes.create_namespace(name)
    yield name
    kubernetes.delete_namespace(name)


@pytest.fixture
def bound(operator, namespace, other, binding):
    """A binding in the other namespace that names the pool of the test's own."""
    body = binding("orders", TOPIC)
    body["metadata"]["namespace"] = other
    body["spec"]["poolRef"]["namespace"] = namespace
    operator.apply(body)
    return other


def allow(operator, namespace, allowed) -> None:
    patch = json.dumps({"spec": {"allowedBindings": allowed}})
    operator("patch", "robp", "demo", "-n", namespace, "--type=merge", "-p", patch)


def held(operator, namespace) -> set[str]:
    return {one["name"] for one in operator.broker("demo-0", namespace, "/bindings")["bindings"]}


REFUSED = {
    "Ready": ("False", "NotAllowedByPool"),
    "Accepted": ("False", "NotAllowedByPool"),
    "Stalled": ("True", "NotAllowedByPool"),
}
SERVED = {"Ready": ("True", "Held"), "LookupConfigured": ("True", "Held")}


def test_a_pool_serves_another_namespace_while_it_allows_it(operator, writer, namespace, bound, pool, eventually):
    operator.apply(pool(replicas=1))
    message = operator.expect("rotb", "orders", bound, REFUSED)["Ready"]
    assert f"spec.allowedBindings.namespaces of ReadOnlyBrokerPool {namespace}/demo" in message
    selector = {"matchLabels": {LABEL: "yes"}}
    allow(operator, namespace, {"namespaces": {"from": "Selector", "selector": selector}})
    operator.expect("rotb", "orders", bound, REFUSED)
    operator("label", "namespace", bound, f"{LABEL}=yes")
    operator.expect("rotb", "orders", bound, SERVED, timeout=120)
    operator.expect("rotb", "orders", bound, {"Accepted": ("True", "Accepted")})
    assert held(operator, namespace) == {f"{bound}/orders"}
    assert operator.get("robp", "demo", namespace)["status"]["bindings"] == 1

    def released():
        assert held(operator, namespace) == set()

    operator("label", "namespace", bound, f"{LABEL}-")
    operator.expect("rotb", "orders", bound, REFUSED, timeout=AT_ONCE_SECONDS)
    eventually(released, timeout=AT_ONCE_SECONDS)
    allow(operator, namespace, {"namespaces": {"from": "All", "selector": None}})
    operator.expect("rotb", "orders", bound, SERVED, timeout=AT_ONCE_SECONDS)
    allow(operator, namespace, {"tenants": ["another"]})
    message = operator.expect("rotb", "orders", bound, REFUSED, timeout=AT_ONCE_SECONDS)["Ready"]
    assert "spec.allowedBindings.tenants" in message
    assert "public/default" in message
    eventually(released, timeout=AT_ONCE_SECONDS)


@pytest.mark.nightly
def test_a_restart_of_the_operator_releases_no_binding_of_a_selected_namespace(
    operator, writer, namespace, bound, pool
):
    operator("label", "namespace", bound, f"{LABEL}=yes")
    selector = {"matchLabels": {LABEL: "yes"}}
    operator.apply(pool(replicas=1, allowedBindings={"namespaces": {"from": "Selector", "selector": selector}}))
    operator.expect("rotb", "orders", bound, SERVED, timeout=120)
    before = operator.get("configmap", "demo-bindings", namespace)["metadata"]["resourceVersion"]
    system = ("deployment/pulsar-readonly-operator", "-n", "pulsar-readonly-system")
    operator("rollout", "restart", *system)
    operator("rollout", "status", *system, "--timeout=180s", timeout=200)
    # a pool that is made afterwards shows that the new process has reconciled the others
    operator.apply(pool("later", replicas=0))
    operator.expect("robp", "later", namespace, {"Ready": ("True", "ScaledToZero")}, timeout=60)
    operator.expect("rotb", "orders", bound, SERVED)
    assert operator.get("configmap", "demo-bindings", namespace)["metadata"]["resourceVersion"] == before
