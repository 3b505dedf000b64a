"""Which bindings a pool allows, and what those claim that it does not allow."""

import copy

import pytest
from readonly_operator.api.binding import Binding
from readonly_operator.api.pool import Pool
from readonly_operator.bindings.conflicts import find_conflicts, find_holders
from readonly_operator.bindings.pool_bindings import PoolBindings
from readonly_operator.bindings.topic_index import BindingTopicIndex
from readonly_operator.kube.kinds import BINDING, POOL
from readonly_operator.kube.names import PoolKey
from readonly_operator.kube.store import Store

TOPIC = "persistent://public/default/orders"
OLD, NEW, NEWEST = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"
GOLD = {"namespaces": {"from": "Selector", "selector": {"matchLabels": {"tier": "gold"}}}}


@pytest.fixture
def store():
    return Store(BindingTopicIndex())


@pytest.fixture
def pool(store, pool_body):
    def make(name="demo", **spec):
        body = pool_body(name, **spec)
        body["metadata"]["creationTimestamp"] = OLD
        store.put(POOL, body)
        return Pool.load(body)

    return make


@pytest.fixture
def bind(store, binding_body):
    def make(name="orders", place="team", pool="demo", created=OLD, topics=None, accepted=None, **more):
        body = copy.deepcopy(binding_body(name, pool, topics))
        body["metadata"] |= {"namespace": place, "uid": f"{place}/{name}", "creationTimestamp": created, **more}
        body["spec"]["poolRef"]["namespace"] = "team"
        if accepted:
            status, since = accepted
            condition = {"type": "Accepted", "status": status, "lastTransitionTime": since}
            body["status"] = {"conditions": [{**condition, "reason": "X", "message": "x"}]}
        store.put(BINDING, body)

    return make


def label(store, name, **labels):
    store.namespaces.put({"metadata": {"name": name, "resourceVersion": "1", "labels": labels}})


@pytest.fixture
def split(store):
    """Names of allowed bindings, and the messages of the others."""

    def found(pool):
        bindings = PoolBindings.of(store, pool.key).allowed(pool.key, pool.allowed_bindings, store.namespaces)
        return {one.full_name for one, _ in bindings.good}, dict(bindings.denials), bindings

    return found


def test_by_default_a_pool_serves_its_own_namespace_only(pool, bind, split):
    bind()
    bind(place="shop")
    good, denials, bindings = split(pool())
    assert good == {"team/orders"}
    assert denials == {
        "shop/orders": "spec.allowedBindings.namespaces of ReadOnlyBrokerPool team/demo allows bindings of namespace team "
        "only (from: Same), and not of shop"
    }
    assert [body["metadata"]["namespace"] for body in bindings.not_allowed] == ["shop"]
    assert len(bindings) == 1, "status.bindings"


def test_namespaces_by_label_besides_the_pools_own(store, pool, bind, split):
    for place in ("team", "shop", "web", "new"):
        bind(place=place)
    label(store, "shop", tier="gold")
    label(store, "web", tier="silver")
    good, denials, _ = split(pool(allowedBindings=GOLD))
    assert good == {"team/orders", "shop/orders"}
    assert "does not select namespace web" in denials["web/orders"]
    assert "the labels of new are not known: they have not been read yet" in denials["new/orders"]


def test_labels_that_may_not_be_read_select_nothing_and_say_which_right_is_missing(store, pool, bind, split):
    bind(place="shop")
    label(store, "shop", tier="gold")
    store.namespaces.forbid('namespaces is forbidden: User "x" cannot list resource')
    good, denials, _ = split(pool(allowedBindings=GOLD))
    assert good == set()
    assert (
        "cannot list resource; the operator's service account needs verbs get, list and watch on namespaces"
        in (denials["shop/orders"])
    )


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        ({"topics": ["persistent://shop/eu/orders", "persistent://shop/us/.*"]}, ""),
        ({"topics": ["persistent://shop/eu/orders", "persistent://hr/pay/roll"]}, "hr/pay"),
        ({"topics": ["persistent://shop/eu/a|.*b"]}, ""),
        ({"topics": ["persistent://hr/pay/shop|.*"]}, "hr/pay"),
        ({"namespaces": ["shop/eu", "hr/pay"]}, "hr/pay"),
        ({"namespaces": ["web/clicks"]}, ""),
        ({"topics": ["persistent://web/other/x"]}, "web/other"),
    ],
)
def test_a_binding_with_a_topic_of_another_tenant_is_not_served_at_all(store, pool, binding_body, split, spec, refused):
    body = binding_body()
    body["spec"] = {"poolRef": {"name": "demo"}, **spec}
    store.put(BINDING, body)
    good, denials, _ = split(pool(allowedBindings={"tenants": ["shop", "web/clicks"]}))
    assert good == (set() if refused else {"team/orders"})
    assert denials == (
        {
            "team/orders": f"spec.allowedBindings.tenants of ReadOnlyBrokerPool team/demo does not include {refused}: name "
            "topics of its tenants only, or bind these topics to another pool"
        }
        if refused
        else {}
    )


def test_invalid_and_leaving_bindings_of_other_namespaces_count_for_nothing(pool, bind, split):
    bind("broken", "shop", topics=["("])
    bind("broken", "team", topics=["("])
    bind("leaving", "shop", deletionTimestamp=NEW)
    _, denials, bindings = split(pool())
    assert denials.keys() == {"shop/broken", "shop/leaving"}
    assert [body["metadata"]["namespace"] for _, body in bindings.broken] == ["team"]
    assert [body["metadata"]["name"] for body in bindings.not_allowed] == ["broken"]


@pytest.fixture
def conflicts(store):
    def found(pool):
        key = PoolKey("team", pool)
        loaded = Pool.load(store.get(POOL, "team", pool))
        bindings = PoolBindings.of(store, key).allowed(key, loaded.allowed_bindings, store.namespaces)
        return find_conflicts(store, lambda *_: (), "cluster.local", loaded, (binding for binding, _ in bindings.good))

    return found


def test_a_binding_that_is_not_allowed_blocks_nobody(pool, bind, conflicts, store):
    pool(), pool("other")
    bind("first", "shop", created=OLD)
    bind("second", "team", pool="other", created=NEW)
    assert (conflicts("other").against, conflicts("other").prevailing) == ({}, {})
    gone = [Binding.load(store.get(BINDING, "team", "second"))]
    assert find_holders(store, lambda *_: (), "cluster.local", PoolKey("team", "missing"), gone) == {}


def test_claims_compete_across_namespaces(pool, bind, conflicts):
    pool(allowedBindings={"namespaces": {"from": "All"}}), pool("other")
    bind("first", "shop", created=OLD)
    bind("second", "team", pool="other", created=NEW)
    assert (
        conflicts("other")
        .against["team/second"]
        .startswith(f"{TOPIC}: claimed first by ReadOnlyTopicBinding shop/first for ReadOnlyBrokerPool team/demo")
    )
    assert "also claimed by ReadOnlyTopicBinding team/second" in conflicts("demo").prevailing["shop/first"]


@pytest.mark.parametrize("accepted", [("False", OLD), ("True", NEWEST)])
def test_a_binding_that_is_allowed_later_takes_no_topic_back(pool, bind, conflicts, accepted):
    """First the pool's change alone is known, then the status has its time."""
    pool(allowedBindings={"namespaces": {"from": "All"}}), pool("other")
    bind("first", "shop", created=OLD, accepted=accepted)
    bind("second", "team", pool="other", created=NEW)
    assert conflicts("other").against == {}
    assert conflicts("demo").against.keys() == {"shop/first"}


def test_an_invalid_pool_holds_what_its_own_namespace_claims(store, pool, bind, pool_body, conflicts):
    pool("other")
    store.put(POOL, pool_body("demo", allowedBindings={"namespaces": {"from": "Nowhere"}}))
    bind("first", "team", created=OLD)
    bind("foreign", "shop", created=OLD)
    bind("second", "team", pool="other", created=NEW)
    assert "claimed first by ReadOnlyTopicBinding team/first" in conflicts("other").against["team/second"]
