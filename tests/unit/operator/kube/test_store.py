"""What the operator knows of the cluster."""

import copy

import pytest
from readonly_operator.bindings.topic_index import BindingTopicIndex
from readonly_operator.kube.kinds import BINDING, CHILDREN, CONFIG_MAP, POD, POOL, SOURCE
from readonly_operator.kube.names import LABEL_POOL, PoolKey
from readonly_operator.kube.store import Store

DEMO = PoolKey("team", "demo")
OTHER = PoolKey("team", "other")


@pytest.fixture
def store():
    return Store(BindingTopicIndex())


def changed(body, version, **spec):
    body = copy.deepcopy(body)
    body["metadata"]["resourceVersion"] = str(version)
    body["spec"].update(spec)
    return body


def test_objects_are_found_by_name_and_by_pool(store, pool_body, binding_body):
    assert store.put(POOL, pool_body()) == {DEMO}
    assert store.put(BINDING, binding_body("b")) == {DEMO}
    assert store.put(BINDING, binding_body("a")) == {DEMO}
    assert [body["metadata"]["name"] for body in store.of_pool(BINDING, DEMO)] == ["a", "b"]
    assert store.get(POOL, "team", "demo")["metadata"]["uid"] == "uid-of-demo"
    assert store.get(POOL, "elsewhere", "demo") is None
    assert [body["metadata"]["name"] for body in store.pools()] == ["demo"]


def test_the_same_and_older_versions_say_nothing_new(store, pool_body):
    store.put(POOL, changed(pool_body(), 10, replicas=5))
    assert store.put(POOL, changed(pool_body(), 10)) == set()
    assert store.put(POOL, changed(pool_body(), 9)) == set()
    assert store.get(POOL, "team", "demo")["spec"]["replicas"] == 5


def test_versions_are_compared_as_numbers(store, pool_body):
    store.put(POOL, changed(pool_body(), 9))
    assert store.put(POOL, changed(pool_body(), 10)) == {DEMO}


def test_a_binding_that_moves_concerns_both_pools(store, binding_body):
    store.put(BINDING, binding_body())
    assert store.put(BINDING, changed(binding_body(), 9, poolRef={"name": "other"})) == {DEMO, OTHER}
    assert store.of_pool(BINDING, DEMO) == []
    assert len(store.of_pool(BINDING, OTHER)) == 1


def test_what_was_deleted_does_not_come_back_by_a_late_event(store, pool_body):
    store.put(POOL, pool_body())
    assert store.remove(POOL, changed(pool_body(), 100)) == {DEMO}
    assert store.put(POOL, changed(pool_body(), 99)) == set()
    assert store.get(POOL, "team", "demo") is None


def child(version, **labels):
    metadata = {"name": "x", "namespace": "team", "uid": "u", "resourceVersion": str(version), "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def test_the_controller_of_a_child_counts_before_its_label(store):
    body = child(10, **{LABEL_POOL: "other"})
    owner = {"apiVersion": POOL.api_version, "kind": POOL.kind, "name": "demo", "uid": "p", "controller": True}
    body["metadata"]["ownerReferences"] = [owner]
    assert store.put(CONFIG_MAP, body) == {DEMO}


def pod(name, owner=None, namespace="team"):
    references = [] if owner is None else [{"uid": "s", "controller": True, **owner}]
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": name,
        "resourceVersion": "5",
        "labels": {LABEL_POOL: "demo"},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "ownerReferences": references}}


OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "demo"}


@pytest.mark.parametrize(
    ("body", "is_broker"),
    [
        (pod("demo-0", OWNER), True),
        (pod("demo-0"), True),  # after kubectl delete statefulset --cascade=orphan, until the new one adopts it
        (pod("copy-of-demo-0"), False),
        (pod("demo-00"), False),
        (pod("demo-debug"), False),
        (pod("demo-0", {**OWNER, "name": "other"}), False),
        (pod("demo-0", {**OWNER, "apiVersion": "apps.example.com/v1"}), False),
        (pod("demo-7d9f-x2x", {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "demo"}), False),
    ],
)
def test_only_pods_of_the_stateful_set_are_brokers(store, body, is_broker):
    """`kubectl debug --copy-to --keep-labels` makes a pod with all labels of a broker."""
    assert store.put(POD, body) == ({DEMO} if is_broker else set())
    assert len(store.of_pool(POD, DEMO)) == is_broker


def test_a_broker_that_gets_another_owner_is_none_any_more(store):
    store.put(POD, pod("demo-0", OWNER))
    changed_owner = pod("demo-0", {**OWNER, "name": "other"})
    changed_owner["metadata"]["resourceVersion"] = "6"
    assert store.put(POD, changed_owner) == {DEMO}
    assert store.of_pool(POD, DEMO) == []


def test_only_the_operators_own_label_selects_children():
    for kind in (*CHILDREN, POD):
        assert LABEL_POOL in kind.selector
        assert "managed-by" not in kind.selector, "other tools write that label"


def test_after_a_restore_of_etcd_a_list_has_lower_versions_and_is_taken(store, pool_body):
    store.put(POOL, changed(pool_body(), 500, replicas=9))
    store.put(POOL, changed(pool_body("gone"), 510))
    store.remove(POOL, changed(pool_body("gone"), 520))
    bodies = [changed(pool_body(), 300, replicas=4), changed(pool_body("gone"), 310)]
    assert store.replace(POOL, bodies, (), store.checkpoint()) == {DEMO, PoolKey("team", "gone")}
    assert store.get(POOL, "team", "demo")["spec"]["replicas"] == 4
    assert store.get(POOL, "team", "gone") is not None, "the restore has brought it back"
    assert store.put(POOL, changed(pool_body(), 301, replicas=3)) == {DEMO}


def test_what_changed_or_went_while_a_list_was_made_is_newer_than_the_list(store, pool_body):
    store.put(POOL, changed(pool_body(), 10))
    store.put(POOL, changed(pool_body("gone"), 11))
    began = store.checkpoint()
    store.put(POOL, changed(pool_body(), 12, replicas=7))
    store.remove(POOL, changed(pool_body("gone"), 13))
    store.replace(POOL, [changed(pool_body(), 10), changed(pool_body("gone"), 11)], (), began)
    assert store.get(POOL, "team", "demo")["spec"]["replicas"] == 7
    assert store.get(POOL, "team", "gone") is None


def test_a_new_object_of_the_same_name_is_another_one(store, pool_body):
    store.put(POOL, changed(pool_body(), 50))
    store.remove(POOL, pool_body())
    successor = changed(pool_body(), 51)
    successor["metadata"]["uid"] = "another"
    assert store.put(POOL, successor) == {DEMO}
    assert store.remove(POOL, pool_body()) == set()
    assert store.get(POOL, "team", "demo") is not None


def test_a_list_drops_what_is_gone_and_touches_what_is_there(store, pool_body):
    store.put(POOL, pool_body("demo"))
    store.put(POOL, pool_body("other"))
    assert store.replace(POOL, [pool_body("demo")], (), store.checkpoint()) == {DEMO, OTHER}
    assert store.get(POOL, "team", "other") is None


def test_what_came_while_a_list_was_made_is_not_gone(store, pool_body):
    store.put(POOL, pool_body("demo"))
    began = store.checkpoint()
    store.put(POOL, pool_body("late"))
    assert store.replace(POOL, [], (), began) == {DEMO}
    assert store.get(POOL, "team", "late") is not None, "the list is older, and no event will tell of it again"
    assert store.replace(POOL, [], (), store.checkpoint()) == {PoolKey("team", "late")}


def test_a_list_of_some_namespaces_leaves_the_others_alone(store, pool_body):
    store.put(POOL, pool_body("demo"))
    assert store.replace(POOL, [], ("elsewhere",), store.checkpoint()) == set()
    assert store.get(POOL, "team", "demo") is not None


def test_objects_of_no_pool_are_not_kept(store):
    body = {"metadata": {"name": "x", "namespace": "team", "uid": "u", "resourceVersion": "1", "labels": {}}}
    assert store.put(CONFIG_MAP, body) == set()
    assert store.get(CONFIG_MAP, "team", "x") is None


def test_managed_fields_are_not_kept_and_the_event_is_left_alone(store):
    metadata = {"name": "x", "namespace": "team", "uid": "u", "resourceVersion": "1", "managedFields": [{}]}
    body = {"metadata": {**metadata, "labels": {LABEL_POOL: "demo"}}}
    assert store.put(CONFIG_MAP, body) == {DEMO}
    assert "managedFields" not in store.get(CONFIG_MAP, "team", "x")["metadata"]
    assert "managedFields" in body["metadata"]


TOPIC = "persistent://public/default/orders"


def of(binding_body, name, pool, *topics, version=8, generation=1):
    body = binding_body(name, pool, list(topics))
    body["metadata"] |= {"resourceVersion": str(version), "generation": generation}
    return body


def conflicting(store, name):
    return [body["metadata"]["name"] for body in store.conflicting_bindings("team", name)]


def test_bindings_of_other_pools_that_claim_a_topic_conflict(store, binding_body):
    store.put(BINDING, of(binding_body, "a", "demo", TOPIC))
    assert store.put(BINDING, of(binding_body, "b", "other", TOPIC + ".*")) == {DEMO, OTHER}
    store.put(BINDING, of(binding_body, "c", "demo", TOPIC))
    assert store.put(BINDING, of(binding_body, "d", "other", "persistent://public/default/else")) == {OTHER}, (
        "names are compared as names, so that thousands of them concern nobody else"
    )
    assert conflicting(store, "a") == ["b"]
    assert conflicting(store, "b") == ["a", "c"]
    assert conflicting(store, "d") == []


def test_a_conflicting_binding_that_changes_or_goes_affects_the_other_pool(store, binding_body):
    store.put(BINDING, of(binding_body, "a", "demo", TOPIC))
    store.put(BINDING, of(binding_body, "b", "other", TOPIC))
    reported = of(binding_body, "b", "other", TOPIC, version=9)
    assert store.put(BINDING, reported | {"status": {"brokers": 1}}) == {OTHER}, "a status is nobody else's business"
    elsewhere = "persistent://public/default/else"
    assert store.put(BINDING, of(binding_body, "b", "other", elsewhere, version=10, generation=2)) == {DEMO, OTHER}
    assert conflicting(store, "a") == []
    store.put(BINDING, of(binding_body, "b", "other", TOPIC, version=11, generation=3))
    going = of(binding_body, "b", "other", TOPIC, version=12, generation=4)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert store.put(BINDING, going) == {DEMO, OTHER}
    assert conflicting(store, "a") == []
    assert store.remove(BINDING, going) == {DEMO, OTHER}


def test_a_new_pool_affects_the_pools_of_conflicting_bindings(store, pool_body, binding_body):
    store.put(BINDING, of(binding_body, "a", "demo", TOPIC))
    store.put(BINDING, of(binding_body, "b", "other", TOPIC))
    assert store.put(POOL, pool_body()) == {DEMO, OTHER}
    assert store.put(POOL, changed(pool_body(), 9)) == {DEMO}
    assert store.remove(POOL, pool_body()) == {DEMO, OTHER}


def source_body(version=5, generation=1):
    metadata = {"name": "pulsar", "namespace": "team", "uid": "uid-of-source", "generation": generation}
    return {"metadata": {**metadata, "resourceVersion": str(version)}, "spec": {}}


def test_a_changed_source_concerns_the_pools_that_name_it_and_no_others(store, pool_body):
    assert store.put(SOURCE, source_body()) == set()
    named = pool_body()
    named["spec"] = {"sourceRef": {"name": "pulsar"}}
    elsewhere = copy.deepcopy(named)
    elsewhere["metadata"].update(namespace="elsewhere", uid="another")
    for body in (named, elsewhere, pool_body("other")):
        store.put(POOL, body)
    assert store.put(SOURCE, source_body(6, generation=2)) == {DEMO}
    assert store.put(SOURCE, source_body(7, generation=2)) == set(), "only its status has changed"
    assert [body["metadata"]["name"] for body in store.sources("team")] == ["pulsar"]
    assert store.sources("elsewhere") == []
    assert store.remove(SOURCE, source_body(8)) == {DEMO}


def test_a_list_of_sources_concerns_the_pools_of_those_that_are_gone(store, pool_body):
    store.put(SOURCE, source_body())
    named = pool_body()
    named["spec"] = {"sourceRef": {"name": "pulsar"}}
    store.put(POOL, named)
    assert store.replace(SOURCE, [source_body()], (), store.checkpoint()) == set()
    assert store.replace(SOURCE, [], (), store.checkpoint()) == {DEMO}
