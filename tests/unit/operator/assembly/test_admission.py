"""Reconciling a pool whose spec.allowedBindings, or the operator's namespaces, leave out some bindings."""

import copy
from dataclasses import replace

import pytest
from readonly_operator.assembly.finalizer import RETRY_SECONDS
from readonly_operator.assembly.lookup_history import LookupHistory
from readonly_operator.assembly.reconcile import reconcile
from readonly_operator.kube.api_server import KubeError
from readonly_operator.kube.kinds import BINDING, POOL
from readonly_operator.kube.names import BINDINGS_KEY, FINALIZER_WRITER, PAUSED_KEY, PoolKey
from readonly_operator.model.lookup import entries_of

DEMO = PoolKey("team", "demo")
GOLD = {"namespaces": {"from": "Selector", "selector": {"matchLabels": {"tier": "gold"}}}}
ALL = {"namespaces": {"from": "All"}}


@pytest.fixture(autouse=True)
def accepting(server):
    server.refuses = server.refuses_patches = False


@pytest.fixture
def foreign(put, binding_body):
    def make(name="orders", place="shop", pool="demo", annotations=None, status=None, topics=None, **more):
        body = copy.deepcopy(binding_body(name, pool, topics))
        body["metadata"] |= {"namespace": place, "annotations": annotations or {}}
        body["metadata"] |= {key: more.pop(key) for key in ("deletionTimestamp", "finalizers") if key in more}
        body["spec"] |= {**more, "poolRef": {"name": pool, "namespace": "team"}}
        put(BINDING, body, **(status or {}))

    return make


@pytest.fixture
def set_pool(put, pool_body):
    def make(generation=3, annotations=None, **spec):
        body = pool_body(replicas=0, **spec)
        body["metadata"] |= {"generation": generation, "annotations": annotations or {}}
        put(POOL, body)

    return make


def served(server):
    return set(entries_of(server.objects["ConfigMap", "demo-bindings"]["data"][BINDINGS_KEY]))


def conditions(server, name="orders"):
    found = server.status(BINDING, name)["conditions"]
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in found}


def events(server):
    return {
        (one["involvedObject"]["namespace"], one["involvedObject"]["name"], one["type"], one["reason"])
        for (kind, _), one in server.objects.items()
        if kind == "Event"
    }


def label(server, name, version="1", **labels):
    metadata = {"name": name, "resourceVersion": version, "labels": labels}
    server.objects["Namespace", name] = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    return server.objects["Namespace", name]


def test_a_binding_that_is_not_allowed_says_which_field_of_the_pool_decides(server, context, set_pool, foreign):
    set_pool()
    foreign()
    assert reconcile(context, DEMO).settled
    found = conditions(server)
    message = (
        "spec.allowedBindings.namespaces of ReadOnlyBrokerPool team/demo allows bindings of namespace team only (from: Same), "
        "and not of shop"
    )
    for condition in ("Ready", "Progressing", "LookupConfigured", "Accepted"):
        assert found[condition] == ("False", "NotAllowedByPool", message)
    assert found["Stalled"][0] == "True"
    assert served(server) == set()
    assert server.status(POOL, "demo")["bindings"] == 0
    assert ("shop", "orders", "Warning", "NotAllowedByPool") in events(server)


def test_what_was_served_is_released_when_the_pool_forbids_it_and_comes_back(server, context, set_pool, foreign):
    foreign()
    set_pool(allowedBindings=ALL)
    reconcile(context, DEMO)
    assert served(server) == {"shop/orders"}
    assert server.status(POOL, "demo")["bindings"] == 1
    assert "Accepted" not in conditions(server), "it was never refused"
    set_pool(generation=4)
    reconcile(context, DEMO)
    assert served(server) == set()
    assert conditions(server)["Ready"][1] == "NotAllowedByPool"
    assert "lookupRevision" not in server.status(BINDING, "orders")
    set_pool(generation=5, allowedBindings=ALL)
    reconcile(context, DEMO)
    assert served(server) == {"shop/orders"}
    assert conditions(server)["Accepted"][:2] == ("True", "Accepted"), "its claim begins now"


def test_pausing_a_binding_does_not_keep_it_in_force(server, context, set_pool, foreign):
    foreign()
    set_pool(allowedBindings=ALL)
    reconcile(context, DEMO)
    foreign(annotations={PAUSED_KEY: "true"})
    reconcile(context, DEMO)
    assert served(server) == {"shop/orders"}
    set_pool(generation=4)
    reconcile(context, DEMO)
    assert served(server) == set()
    assert conditions(server)["Ready"][1] == "NotAllowedByPool"


def test_a_paused_pool_decides_nothing(server, context, set_pool, foreign):
    foreign()
    set_pool(allowedBindings=ALL)
    reconcile(context, DEMO)
    set_pool(generation=4, annotations={PAUSED_KEY: "true"})
    reconcile(context, DEMO)
    assert served(server) == {"shop/orders"}
    assert conditions(server)["Paused"][2] == 'ReadOnlyBrokerPool "team/demo" is paused'


def test_labels_are_read_where_no_event_has_told_them_yet(server, context, set_pool, foreign):
    """A namespace and its first binding are created together, and their events come on two connections."""
    label(server, "shop", tier="gold")
    foreign()
    set_pool(allowedBindings=GOLD)
    reconcile(context, DEMO)
    assert served(server) == {"shop/orders"}
    context.store.namespaces.put(label(server, "shop", "2", tier="silver"))
    reconcile(context, DEMO)
    assert served(server) == set()
    assert "does not select namespace shop" in conditions(server)["Ready"][2]


@pytest.mark.parametrize("status", [403, 500])
def test_labels_that_cannot_be_read(server, context, set_pool, foreign, monkeypatch, status):
    asked = []

    def get(kind, namespace, name):
        if kind.kind == "Namespace":
            asked.append(name)
            raise KubeError("namespaces is forbidden", status)
        return server.objects.get((kind.kind, name))

    monkeypatch.setattr(server, "get", get)
    foreign()
    foreign("clicks", "web")
    set_pool(allowedBindings=GOLD)
    if status == 500:
        with pytest.raises(KubeError):
            reconcile(context, DEMO)
        assert ("ConfigMap", "demo-bindings") not in server.objects, "nothing is released for an error that passes"
        return
    reconcile(context, DEMO)
    assert asked == ["shop"], "one refusal is enough"
    for name in ("orders", "clicks"):
        assert (
            "namespaces is forbidden; the operator's service account needs verbs"
            in conditions(server, name)["Ready"][2]
        )


def test_a_binding_that_is_not_allowed_releases_no_guards(server, context, set_pool, foreign):
    """Whoever may make bindings in any namespace must not remove guards of topics that the pool serves for others."""
    leaving = {"deletionTimestamp": "2026-01-01T12:00:00Z", "finalizers": [FINALIZER_WRITER], "onDeletion": "Release"}
    foreign(**leaving)
    set_pool()
    reconcile(context, DEMO)
    assert context.cursor_releases.tracked[DEMO] == {}
    assert ("ReadOnlyTopicBinding", "orders") not in server.objects, "the deletion does not wait"
    assert ("shop", "orders", "Warning", "NotReleased") in events(server)


def test_a_binding_that_is_not_allowed_gets_no_finalizer(server, context, set_pool, foreign):
    foreign(onDeletion="Release")
    set_pool()
    reconcile(context, DEMO)
    assert "finalizers" not in server.objects["ReadOnlyTopicBinding", "orders"]["metadata"]
    set_pool(generation=4, allowedBindings=ALL)
    reconcile(context, DEMO)
    assert server.objects["ReadOnlyTopicBinding", "orders"]["metadata"]["finalizers"] == [FINALIZER_WRITER]


def test_an_error_of_the_pool_is_not_shown_in_other_namespaces(server, context, put, pool_body, binding_body, foreign):
    put(POOL, pool_body(allowedBindings=ALL, replicas="secret"))
    put(BINDING, binding_body("own"))
    foreign()
    reconcile(context, DEMO)
    assert conditions(server)["Ready"][1:] == (
        "PoolFailed",
        'ReadOnlyBrokerPool "team/demo": InvalidSpec; its condition Ready has the message',
    )
    assert "'secret'" in conditions(server, "own")["Ready"][2]


def test_a_wrong_name_does_not_list_the_pools_of_another_namespace(server, context, set_pool, foreign):
    set_pool()
    foreign(pool="dem")
    reconcile(context, PoolKey("team", "dem"))
    assert conditions(server)["Ready"][1:] == (
        "PoolNotFound",
        'there is no ReadOnlyBrokerPool "dem" in namespace "team"',
    )


def test_a_namespace_that_the_operator_does_not_serve_is_named(server, context, foreign):
    foreign()
    narrow = replace(context, settings=replace(context.settings, namespaces=("shop", "web")))
    reconcile(narrow, DEMO)
    assert conditions(server)["Ready"] == (
        "False",
        "NamespaceNotServed",
        (
            "spec.poolRef.namespace: this operator does not serve namespace team of ReadOnlyBrokerPool demo, but shop, web: "
            "add it to the operator's namespaces (--namespace), or name a pool of a namespace that it serves"
        ),
    )
    assert ("shop", "orders", "Warning", "NamespaceNotServed") in events(server)


def test_bindings_of_other_namespaces_come_after_the_pools_own_also_in_a_new_process(
    server, context, put, set_pool, binding_body, foreign
):
    """Of several bindings of a topic, brokers take tail and cursors of the first one that names them."""
    put(BINDING, binding_body("own"))
    foreign(place="a-guest", cursors="Local")
    set_pool(allowedBindings=ALL)
    reconcile(context, DEMO)
    text = server.objects["ConfigMap", "demo-bindings"]["data"][BINDINGS_KEY]
    assert list(entries_of(text)) == ["team/own", "a-guest/orders"]
    foreign(place="a-guest", cursors="Owner", annotations={PAUSED_KEY: "true"})
    reconcile(replace(context, lookup_history=LookupHistory()), DEMO)
    assert server.objects["ConfigMap", "demo-bindings"]["data"][BINDINGS_KEY] == text, "the paused one stays as it was"


def test_an_error_of_the_pool_is_not_shown_to_a_leaving_binding_of_another_namespace(
    server, context, put, pool_body, binding_body, foreign
):
    put(POOL, pool_body(allowedBindings=ALL, replicas="secret"))
    leaving = {"deletionTimestamp": "2026-01-01T12:00:00Z", "finalizers": [FINALIZER_WRITER]}
    foreign(onDeletion="Release", **leaving)
    own = binding_body("own")
    own["metadata"] |= leaving
    own["spec"]["onDeletion"] = "Release"
    put(BINDING, own)
    reconcile(context, DEMO)
    assert conditions(server)["LocalCursors"][2] == (
        'local cursors are being removed: ReadOnlyBrokerPool "team/demo": InvalidSpec; its condition Ready has the message'
    )
    assert "'secret'" in conditions(server, "own")["LocalCursors"][2]


def test_a_binding_that_a_broken_pool_does_not_allow_is_told_that_and_waits_for_nothing(
    server, context, put, pool_body, foreign
):
    put(POOL, pool_body(replicas="secret"))
    foreign()
    leaving = {"deletionTimestamp": "2026-01-01T12:00:00Z", "finalizers": [FINALIZER_WRITER], "onDeletion": "Release"}
    foreign("gone", **leaving)
    reconcile(context, DEMO)
    assert conditions(server)["Ready"][1] == "NotAllowedByPool"
    assert server.status(POOL, "demo")["bindings"] == 0
    assert ("ReadOnlyTopicBinding", "gone") not in server.objects
    assert ("shop", "gone", "Warning", "NotReleased") in events(server)


def test_a_finalizer_that_the_operator_may_not_remove_costs_the_pool_nothing(
    server, context, put, pool_body, set_pool, foreign, monkeypatch
):
    """Anybody can write the finalizer into a binding that names the pool of somebody else, and delete the binding."""
    merge, asked = server.merge, []

    def refusing(manager, kind, namespace, name, patch):
        asked.append((namespace, name))
        if namespace != "team":
            raise KubeError("readonlytopicbindings is forbidden", 403)
        return merge(manager, kind, namespace, name, patch)

    monkeypatch.setattr(server, "merge", refusing)
    leaving = {"deletionTimestamp": "2026-01-01T12:00:00Z", "finalizers": [FINALIZER_WRITER]}
    for name in ("one", "two"):
        foreign(name, **leaving)
    set_pool()
    assert reconcile(context, DEMO).refresh_seconds == RETRY_SECONDS
    assert asked == [("shop", "one")], "one refusal of a namespace is enough"
    for name in ("one", "two"):
        assert conditions(server, name)["LocalCursors"][:2] == ("False", "Forbidden")
    body = pool_body(replicas=0)
    body["metadata"] |= leaving
    put(POOL, body)
    reconcile(context, DEMO)
    assert ("ReadOnlyBrokerPool", "demo") not in server.objects, "its deletion does not wait"
