"""The uid by which brokers know their pool."""

from __future__ import annotations

import pytest
from readonly_operator.assembly.identity import identified
from readonly_operator.bindings.topic_index import BindingTopicIndex
from readonly_operator.kube.kinds import CONFIG_MAP
from readonly_operator.kube.names import ANNOTATION_APPLIED_HASH
from readonly_operator.kube.store import Store
from readonly_operator.model.configmaps import config_map


@pytest.fixture
def store():
    return Store(BindingTopicIndex())


def left(pool, uid, **metadata):
    """The ConfigMap with the brokers' settings, as a pool of this uid made it."""
    body = config_map(pool)
    annotations = {**body["metadata"]["annotations"], "pulsar-readonly.io/pool-uid": uid, ANNOTATION_APPLIED_HASH: "0"}
    body["metadata"] |= {"uid": "c", "resourceVersion": "1", "annotations": annotations, **metadata}
    return body


def test_a_pool_without_objects_has_its_own_uid(store, make_pool):
    pool = identified(store, make_pool())
    assert (pool.membership_uid, pool.identity) == ("uid-of-demo", "team.demo@uid-of-demo")
    assert config_map(pool)["metadata"]["annotations"] == {"pulsar-readonly.io/pool-uid": "uid-of-demo"}


def test_a_pool_keeps_the_uid_of_the_brokers_that_a_deleted_pool_has_left(store, make_pool):
    store.put(CONFIG_MAP, left(make_pool(), "former", ownerReferences=[]))
    pool = identified(store, make_pool())
    assert (pool.uid, pool.identity) == ("uid-of-demo", "team.demo@former")
    store.put(CONFIG_MAP, left(pool, "former", resourceVersion="2"))
    assert identified(store, make_pool()).membership_uid == "former", "also once the objects are its own"


def test_objects_of_another_pool_say_nothing(store, make_pool):
    owner = {"apiVersion": "pulsar-readonly.io/v1alpha1", "kind": "ReadOnlyBrokerPool", "name": "demo", "uid": "other"}
    store.put(CONFIG_MAP, left(make_pool(), "other", ownerReferences=[{**owner, "controller": True}]))
    assert identified(store, make_pool()).membership_uid == "uid-of-demo"
