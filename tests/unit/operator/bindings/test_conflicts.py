"""Which of a pool's bindings are held back."""

import copy
from dataclasses import astuple

import pytest
from readonly_operator.api.binding import Binding
from readonly_operator.api.pool import Pool
from readonly_operator.assembly.brokers import Brokers
from readonly_operator.assembly.context import Context
from readonly_operator.bindings.conflicts import BindingConflicts, find_conflicts, find_holders
from readonly_operator.bindings.topic_index import BindingTopicIndex
from readonly_operator.cluster.broker_ports import BrokerPorts
from readonly_operator.kube.kinds import BINDING, POOL
from readonly_operator.kube.names import PoolKey
from readonly_operator.kube.store import Store

DOMAIN = "cluster.local"
TOPIC = "persistent://public/default/orders"
OLD, NEW, NEWEST = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"


@pytest.fixture
def store(pool_body):
    found = Store(BindingTopicIndex())
    for name in ("demo", "other"):
        found.put(POOL, pool_body(name))
    return found


@pytest.fixture
def found(store):
    """The conflicts of a pool's bindings; no broker runs that could be asked which topics there are."""
    context = Context(
        **dict.fromkeys(Context.__dataclass_fields__)
        | {"store": store, "brokers": Brokers(None, store, 1, BrokerPorts(None))}
    )

    def check(pool: str) -> BindingConflicts:
        key = PoolKey("team", pool)
        loaded = Pool.load(store.get(POOL, *astuple(key)))
        bindings = [Binding.load(body) for body in store.of_pool(BINDING, key)]
        return find_conflicts(store, context.brokers.matched, DOMAIN, loaded, bindings)

    yield check
    context.brokers.close()


@pytest.fixture
def held_back(found):
    """What stands against a pool's bindings."""
    return lambda pool: found(pool).against


@pytest.fixture
def holders(store):
    """Which bindings have the topics of a missing pool's bindings."""

    def check(pool: str) -> dict[str, str]:
        key = PoolKey("team", pool)
        bindings = [Binding.load(body) for body in store.of_pool(BINDING, key)]
        return find_holders(store, lambda *_: (), DOMAIN, key, bindings)

    return check


@pytest.fixture
def put(store, binding_body):
    def make(name: str, pool: str, created: str, *topics: str) -> None:
        body = copy.deepcopy(binding_body(name, pool, list(topics or (TOPIC,))))
        body["metadata"]["creationTimestamp"] = created
        store.put(BINDING, body)

    return make


def test_the_younger_one_is_held_back_and_told_why_and_the_first_one_names_it(put, found):
    put("z", "demo", OLD)
    put("a", "other", NEW)
    first, second = found("demo"), found("other")
    assert (first.against, second.prevailing) == ({}, {})
    assert first.prevailing == {
        "team/z": f"{TOPIC}: also claimed by ReadOnlyTopicBinding team/a for ReadOnlyBrokerPool team/other, later; this binding "
        "is in force"
    }
    assert second.against == {
        "team/a": f"{TOPIC}: claimed first by ReadOnlyTopicBinding team/z for ReadOnlyBrokerPool team/demo of the "
        "same source cluster; remove it from one of the two"
    }


def test_names_decide_within_a_second(put, held_back):
    put("b", "demo", OLD)
    put("a", "other", OLD)
    assert held_back("demo").keys() == {"team/b"}
    assert held_back("other") == {}


def test_one_pool_may_have_a_topic_twice(put, held_back):
    put("a", "demo", OLD)
    put("b", "demo", NEW)
    assert held_back("demo") == {}


def test_pools_of_different_clusters_may_have_the_same_topic(store, put, held_back, pool_body):
    elsewhere = pool_body("elsewhere")
    elsewhere["spec"]["source"]["metadataStoreUrl"] = "zk:elsewhere:2181"
    store.put(POOL, elsewhere)
    put("a", "elsewhere", OLD)
    put("b", "demo", NEW)
    assert held_back("demo") == {}


def shared(pool_body, **status):
    """A pool with a sourceRef."""
    body = pool_body("shared")
    body["metadata"]["creationTimestamp"] = OLD
    del body["spec"]["source"]
    body["spec"]["sourceRef"] = {"name": "pulsar"}
    return {**body, "status": status} if status else body


def test_a_replay_conflicts_with_no_other_pool(store, put, found, pool_body):
    def replay(name):
        body = pool_body(name, replay={"from": "2026-11-21T14:00:00Z"})
        body["metadata"]["resourceVersion"] = "8"
        store.put(POOL, body)

    put("first", "demo", OLD)
    put("past", "other", NEW)
    assert found("demo").prevailing
    assert found("other").against
    replay("other")
    assert (found("demo").prevailing, found("other").against) == ({}, {})
    replay("demo")
    assert (found("demo").prevailing, found("other").against) == ({}, {})


def test_a_pool_whose_source_is_missing_holds_no_topics_of_any_cluster(store, put, held_back, found, pool_body):
    store.put(POOL, shared(pool_body))
    put("first", "shared", OLD)
    put("second", "demo", NEW)
    assert held_back("demo") == {}
    assert (
        found("demo")
        .prevailing["team/second"]
        .endswith("for ReadOnlyBrokerPool team/shared, which has no source cluster yet; this binding is in force")
    )


def test_a_pool_whose_source_comes_later_takes_no_topic_back(store, put, held_back, pool_body):
    url = pool_body()["spec"]["source"]["metadataStoreUrl"]
    spec = {**pool_body()["spec"]["source"], "metadataStoreUrl": url}
    store.put(POOL, shared(pool_body, source={"name": "pulsar", "uid": "u", "spec": spec, "since": NEWEST}))
    put("first", "shared", OLD)
    put("second", "demo", NEW)
    assert held_back("demo") == {}
    assert held_back("shared").keys() == {"team/first"}


def test_each_pool_is_read_once_for_all_its_bindings(store, put, found, monkeypatch):
    for index in range(20):
        put(f"a-{index}", "demo", OLD)
        put(f"b-{index}", "other", NEW)
    read = []
    get = store.get

    def counted(kind, *name):
        read.append(kind)
        return get(kind, *name)

    monkeypatch.setattr(store, "get", counted)
    assert len(found("other").against) == 20
    assert read.count(POOL) <= 3


@pytest.mark.parametrize("deleting", [False, True])
def test_both_bindings_name_each_other_where_one_has_no_pool(store, put, found, holders, pool_body, deleting):
    put("a", "gone", OLD)
    put("b", "demo", NEW)
    if deleting:
        body = pool_body("gone")
        body["metadata"]["deletionTimestamp"] = NEW
        store.put(POOL, body)
    why = "is being deleted" if deleting else "does not exist"
    assert found("demo").against == {}
    assert found("demo").prevailing == {
        "team/b": f"{TOPIC}: also claimed by ReadOnlyTopicBinding team/a for ReadOnlyBrokerPool team/gone, which {why}; this "
        "binding is in force"
    }
    assert holders("gone") == {
        "team/a": f"{TOPIC}: claimed by ReadOnlyTopicBinding team/b for ReadOnlyBrokerPool team/demo"
    }


def test_a_pool_that_is_made_later_takes_no_topic_back(store, put, held_back, pool_body):
    put("a", "late", OLD)
    put("b", "demo", NEW)
    late = pool_body("late")
    late["metadata"]["creationTimestamp"] = NEWEST
    store.put(POOL, late)
    assert held_back("demo") == {}
    assert held_back("late").keys() == {"team/a"}


def test_a_missing_pool_of_another_cluster_has_no_part_in_it(store, put, found, holders, pool_body):
    put("a", "gone", OLD)
    put("b", "demo", NEW)
    body = pool_body("gone")
    body["metadata"]["deletionTimestamp"] = NEW
    body["spec"]["source"]["metadataStoreUrl"] = "zk:elsewhere:2181"
    store.put(POOL, body)
    assert (found("demo").prevailing, holders("gone")) == ({}, {})


def test_who_is_held_back_still_claims(put, held_back):
    put("a", "demo", OLD)
    put("b", "other", NEW, TOPIC, "persistent://public/default/returns")
    put("c", "demo", "2026-01-03T00:00:00Z", "persistent://public/default/returns")
    assert held_back("other").keys() == {"team/b"}
    assert held_back("demo").keys() == {"team/c"}


def test_expressions_clash_over_topics_that_there_are(put, held_back):
    put("a", "demo", OLD, "persistent://public/default/.*-eu")
    put("b", "other", NEW, "persistent://public/default/orders-.*")
    assert held_back("other") == {}, "no broker runs that would serve such a topic"


@pytest.fixture
def two_releases(store, pool_body, binding_body):
    """A pool and a binding of one topic in each of two namespaces, with the URL and the reported instance of each."""

    def make(*releases):
        for namespace, (url, instance) in zip(("dev", "stage"), releases, strict=True):
            body = copy.deepcopy(pool_body())
            body["metadata"] |= {"namespace": namespace, "uid": f"pool-{namespace}"}
            body["spec"]["source"]["metadataStoreUrl"] = url
            body["status"] = {"bookkeeperInstance": instance} if instance else {}
            store.put(POOL, body)
            body = copy.deepcopy(binding_body())
            created = {"dev": OLD, "stage": NEW}[namespace]
            body["metadata"] |= {"namespace": namespace, "uid": f"binding-{namespace}", "creationTimestamp": created}
            store.put(BINDING, body)

    return make


@pytest.mark.parametrize(
    ("dev", "stage", "held"),
    [
        (("zk:pulsar-zookeeper:2181", ""), ("zk:pulsar-zookeeper:2181", ""), False),
        (("zk:pulsar-zookeeper:2181", "a"), ("zk:pulsar-zookeeper:2181", "b"), False),
        (("zk:zk-0.zk:2181", "a"), ("zk:zk-0.zk:2181", "b"), False),
        (("zk:pulsar-zookeeper:2181", ""), ("zk:pulsar-zookeeper.dev.svc.cluster.local:2181", ""), True),
        (("zk:zk-0.zk:2181", "a"), ("zk:zk-0.zk.dev.svc.cluster.local:2181", "a"), True),
        (("zk:zk-0.zk:2181", "a"), ("zk:zk-0.zk.dev.svc.cluster.local:2181", ""), False),
    ],
)
def test_two_releases_are_two_clusters_and_two_spellings_are_one(store, two_releases, dev, stage, held):
    two_releases(dev, stage)
    key = PoolKey("stage", "demo")
    loaded = Pool.load(store.get(POOL, *astuple(key)))
    bindings = [Binding.load(body) for body in store.of_pool(BINDING, key)]
    assert bool(find_conflicts(store, lambda *_: (), DOMAIN, loaded, bindings).against) is held
