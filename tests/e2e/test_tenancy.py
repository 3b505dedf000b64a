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


@pytest.mark.nightly
def test_two_spellings_of_a_cluster_conflict_and_two_short_names_do_not(
    operator, writer, namespace, other, pool, binding
):
    """Services of one name in two namespaces stand for two releases of a chart; only one of them leads to a Pulsar."""
    port = {"name": "client", "port": 2181}
    for where, target in ((namespace, f"pulsar-zookeeper.{writer}.svc.cluster.local"), (other, "nowhere.invalid")):
        operator.apply(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "zookeeper", "namespace": where},
                "spec": {"type": "ExternalName", "externalName": target, "ports": [port]},
            }
        )
    short, elsewhere, spelled = (pool(name) for name in ("short", "elsewhere", "spelled"))
    for body, replicas in ((short, 1), (elsewhere, 0), (spelled, 1)):
        body["spec"] |= {"replicas": replicas, "source": dict(body["spec"]["source"])}
    for body in (short, elsewhere):
        body["spec"]["source"]["metadataStoreUrl"] = "zk:zookeeper:2181"
    elsewhere["metadata"]["namespace"] = other
    later = binding("elsewhere", TOPIC, pool="elsewhere")
    later["metadata"]["namespace"] = other
    operator.apply(short, elsewhere, binding("short", TOPIC, pool="short"))
    operator.expect("rotb", "short", namespace, SERVED, timeout=120)
    operator.apply(later, spelled, binding("spelled", TOPIC, pool="spelled"))
    message = operator.expect("rotb", "spelled", namespace, {"Ready": ("False", "Conflict")}, timeout=120)["Ready"]
    assert f"{namespace}/short" in message
    instances = [operator.get("robp", name, namespace)["status"]["bookkeeperInstance"] for name in ("short", "spelled")]
    assert len(set(instances)) == 1
    conditions = {
        one["type"]: one["reason"] for one in operator.get("rotb", "elsewhere", other)["status"]["conditions"]
    }
    assert conditions["Ready"] != "Conflict"
    assert "TopicConflict" not in conditions


@pytest.mark.nightly
def test_the_namespace_of_the_pool_cannot_change(operator, namespace, bound):
    patch = json.dumps({"spec": {"poolRef": {"namespace": bound}}})
    done = operator.run("patch", "rotb", "orders", "-n", bound, "--type=merge", "-p", patch)
    assert done.returncode != 0
    assert "cannot change; make a new binding for a pool of another namespace" in done.stderr


RIGHTS = {
    ("get", "readonlybrokerpools"): {"view", "edit", "admin"},
    ("get", "readonlytopicbindings/status"): {"view", "edit", "admin"},
    ("create", "readonlytopicbindings"): {"edit", "admin"},
    ("delete", "readonlytopicbindings"): {"edit", "admin"},
    ("create", "readonlybrokerpools"): {"admin"},
    ("patch", "readonlysources"): {"admin"},
    ("update", "readonlybrokerpools/scale"): {"admin"},
    ("patch", "readonlybrokerpools/status"): set(),
    ("patch", "readonlytopicbindings/status"): set(),
    ("update", "readonlybrokerpools/finalizers"): set(),
}


@pytest.mark.nightly
def test_people_get_their_rights_by_the_roles_of_kubernetes(operator, namespace, eventually):
    roles = ("view", "edit", "admin")
    for role in roles:
        operator(
            "create", "rolebinding", role, "-n", namespace, f"--clusterrole={role}", f"--user={role}-of-{namespace}"
        )

    def may(role: str, verb: str, resource: str) -> bool:
        kind, _, subresource = resource.partition("/")
        asked = ("auth", "can-i", verb, f"{kind}.pulsar-readonly.io", "-n", namespace, f"--as={role}-of-{namespace}")
        return operator.run(*asked, *([f"--subresource={subresource}"] if subresource else [])).stdout.strip() == "yes"

    def granted():
        assert {key: {role for role in roles if may(role, *key)} for key in RIGHTS} == RIGHTS

    eventually(granted)  # a controller adds the rules to the roles
