"""Labels of namespaces, and objects of one pool in several namespaces."""

import copy

import pytest
from readonly_operator.bindings.topic_index import BindingTopicIndex
from readonly_operator.kube.kinds import BINDING, POOL
from readonly_operator.kube.names import PoolKey
from readonly_operator.kube.namespaces import NamespaceLabels
from readonly_operator.kube.store import Store

DEMO = PoolKey("team", "demo")
OTHER = PoolKey("team", "other")


def namespace(name, version=1, **labels):
    return {"metadata": {"name": name, "resourceVersion": str(version), "labels": labels}}


@pytest.fixture
def known():
    return NamespaceLabels()


@pytest.fixture
def store():
    return Store(BindingTopicIndex())


@pytest.fixture
def foreign(binding_body):
    """A binding of another namespace, and what its reference to the pool has."""

    def make(place, name="orders", **reference):
        body = copy.deepcopy(binding_body(name))
        body["metadata"] |= {"namespace": place, "uid": f"{place}-{name}"}
        body["spec"]["poolRef"] |= reference
        return body

    return make


def test_labels_are_those_of_the_newest_version(known):
    assert known.put(namespace("shop", 9, tier="gold"))
    assert not known.put(namespace("shop", 8, tier="old")), "a late answer to a read"
    assert not known.put(namespace("shop", 10, tier="gold")), "nothing that counts has changed"
    assert known.labels("shop") == {"tier": "gold"}
    assert known.labels("web") is None
    assert known.put(namespace("shop", 11))
    assert known.labels("shop") == {}


def test_a_list_names_what_has_changed_and_drops_what_is_gone(known):
    for name in ("same", "changed", "gone"):
        known.put(namespace(name, 1, a="1"))
    listed = [namespace("same", 2, a="1"), namespace("changed", 2, a="2"), namespace("new", 2)]
    assert known.replace(listed, known.checkpoint()) == {"changed", "gone", "new"}
    assert known.labels("gone") is None
    assert known.drop("new")
    assert not known.drop("new")


def test_a_list_counts_also_after_a_restore_of_the_api_servers_data(known):
    """Resource versions are lower then. A label that is gone must not go on admitting bindings."""
    known.put(namespace("shop", 90, tier="gold"))
    began = known.checkpoint()
    assert known.replace([namespace("shop", 40)], began) == {"shop"}
    assert known.labels("shop") == {}


def test_what_was_recorded_during_a_list_is_newer_than_the_list(known):
    known.put(namespace("shop", 1, tier="old"))
    began = known.checkpoint()
    known.put(namespace("shop", 3, tier="gold"))
    known.put(namespace("new", 4, tier="gold"))
    assert known.replace([namespace("shop", 2, tier="old")], began) == set()
    assert (known.labels("shop"), known.labels("new")) == ({"tier": "gold"}, {"tier": "gold"})


def test_labels_that_cannot_be_read_any_more_are_not_used(known):
    known.put(namespace("shop", 1, a="1"))
    assert known.forbid("namespaces is forbidden") == {"shop"}
    assert (known.labels("shop"), known.problem) == (None, "namespaces is forbidden")
    known.replace([namespace("shop", 1, a="1")], known.checkpoint())
    assert (known.labels("shop"), known.problem) == ({"a": "1"}, "")


def test_bindings_of_one_name_in_two_namespaces_are_two_of_the_same_pool(store, binding_body, foreign):
    assert store.put(BINDING, binding_body()) == {DEMO}
    assert store.put(BINDING, foreign("shop", namespace="team")) == {DEMO}
    assert [body["metadata"]["namespace"] for body in store.of_pool(BINDING, DEMO)] == ["shop", "team"]
    assert store.get(BINDING, "shop", "orders")["metadata"]["uid"] == "shop-orders"
    assert store.remove(BINDING, foreign("shop", namespace="team")) == {DEMO}
    assert [body["metadata"]["namespace"] for body in store.of_pool(BINDING, DEMO)] == ["team"]


def test_without_a_namespace_a_reference_is_to_the_bindings_own(store, foreign):
    assert store.put(BINDING, foreign("shop")) == {PoolKey("shop", "demo")}
    store.put(BINDING, foreign("web", namespace="web"))
    assert [body["metadata"]["namespace"] for body in store.of_pool(BINDING, PoolKey("web", "demo"))] == ["web"]


def test_a_pool_affects_the_pools_of_bindings_for_the_same_topics_in_other_namespaces(store, pool_body, foreign):
    store.put(BINDING, foreign("shop", namespace="team"))
    store.put(BINDING, foreign("web", name="orders", namespace="team") | {"spec": rival("other")})
    assert store.put(POOL, pool_body()) == {DEMO, OTHER}


def test_a_namespace_affects_the_pools_of_other_namespaces_and_their_rivals(store, binding_body, foreign):
    store.put(BINDING, foreign("shop", namespace="team"))
    store.put(BINDING, foreign("shop", name="own", namespace="shop"))
    store.put(BINDING, foreign("web", name="rival") | {"spec": rival("other", "web")})
    assert store.bound_from("shop") == {DEMO, PoolKey("shop", "demo"), PoolKey("web", "other")}
    assert store.bound_from("team") == set()


def rival(pool, place="team"):
    return {"poolRef": {"name": pool, "namespace": place}, "topics": ["persistent://public/default/orders"]}


def test_a_full_list_of_some_namespaces_leaves_bindings_of_others(store, foreign):
    store.put(BINDING, foreign("shop", namespace="team"))
    store.put(BINDING, foreign("web", namespace="team"))
    store.replace(BINDING, [], ("shop",), store.checkpoint())
    assert [body["metadata"]["namespace"] for body in store.of_pool(BINDING, DEMO)] == ["web"]
