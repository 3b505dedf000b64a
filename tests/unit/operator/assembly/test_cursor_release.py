"""Deletion of pools and bindings with onDeletion: Release: what it waits for, in which order, and how it ends."""

import datetime as dt
from dataclasses import replace

import pytest
from readonly_operator.assembly.brokers import BrokerReport
from readonly_operator.assembly.reconcile import reconcile
from readonly_operator.cluster.local_cursors.controller import ReleaseReport
from readonly_operator.kube.kinds import BINDING, POD, POOL, STATEFUL_SET
from readonly_operator.kube.names import FINALIZER_WRITER, LABEL_POOL, PAUSED_KEY, PoolKey
from readonly_operator.model.lookup import Entry

DEMO = PoolKey("team", "demo")
DELETED = {"deletionTimestamp": "2026-01-01T12:00:00Z", "finalizers": [FINALIZER_WRITER]}
LATER = dt.datetime(2026, 1, 1, 12, 30, tzinfo=dt.UTC)
DONE = ReleaseReport(released=True, complete=True, text="3 guards removed, 9 topics checked")


@pytest.fixture
def server(server):
    server.refuses = server.refuses_patches = False
    return server


@pytest.fixture
def leaving(binding_body):
    """A binding that is being deleted."""
    body = binding_body("leaving")
    body["spec"]["onDeletion"] = "Release"
    body["metadata"] |= DELETED
    return body


@pytest.fixture
def leaving_pool(pool_body):
    """A pool that is being deleted."""
    body = pool_body(replicas=1, onDeletion="Release")
    body["metadata"] |= DELETED
    return body


def stateful_set(owner="uid-of-demo"):
    references = [{"uid": owner, "controller": True}]
    metadata = {"namespace": "team", "name": "demo", "uid": "s", "labels": {LABEL_POOL: "demo"}}
    spec = {"template": {"spec": {"containers": []}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {**metadata, "ownerReferences": references},
        "spec": spec,
    }


def pod():
    metadata = {"namespace": "team", "name": "demo-0", "uid": "p", "labels": {LABEL_POOL: "demo"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def condition(server, kind, name):
    found = {one["type"]: one for one in server.status(kind, name)["conditions"]}
    return found["LocalCursors"]["reason"], found["LocalCursors"]["message"]


def events(server):
    return {one["reason"]: one for one in server.objects.values() if one["kind"] == "Event"}


def requests(context):
    return context.cursor_releases.tracked.get(DEMO, {})


def test_a_binding_gets_the_finalizer_and_loses_it_with_keep(server, context, put, pool_body, binding_body):
    put(POOL, pool_body(replicas=0))
    plain, released = binding_body("plain"), binding_body("released")
    released["spec"]["onDeletion"] = "Release"
    put(BINDING, plain)
    put(BINDING, released)
    reconcile(context, DEMO)
    assert "finalizers" not in server.objects["ReadOnlyTopicBinding", "plain"]["metadata"]
    body = server.objects["ReadOnlyTopicBinding", "released"]
    assert body["metadata"]["finalizers"] == [FINALIZER_WRITER]
    put(BINDING, {**body, "spec": {**body["spec"], "onDeletion": "Keep"}})
    reconcile(context, DEMO)
    assert server.objects["ReadOnlyTopicBinding", "released"]["metadata"]["finalizers"] == []


def test_a_right_that_is_missing_is_named(server, context, put, pool_body, binding_body):
    server.refuses_patches = True
    put(POOL, pool_body(replicas=0, onDeletion="Release"))
    body = binding_body("released")
    body["spec"]["onDeletion"] = "Release"
    put(BINDING, body)
    assert reconcile(context, DEMO).refresh_seconds > 0
    reason, message = condition(server, BINDING, "released")
    assert reason == "Forbidden"
    assert "verb patch on readonlytopicbindings.pulsar-readonly.io in namespace team" in message
    assert condition(server, POOL, "demo")[0] == "Forbidden"


def test_guards_are_removed_and_then_the_finalizer(server, context, put, pool_body, binding_body, leaving):
    put(POOL, pool_body(replicas=0))
    put(BINDING, binding_body("staying"))
    put(BINDING, leaving)
    assert reconcile(context, DEMO).refresh_seconds > 0
    assert condition(server, BINDING, "leaving") == ("Releasing", "local cursors are being removed: not begun")
    ((key, request),) = requests(context).items()
    assert key == (DEMO, "uid-of-leaving")
    assert request.identity == "team.demo@uid-of-demo"
    assert request.topics.namespaces == ("public/default",)
    assert not request.topics.includes("persistent://public/default/orders"), "the other binding covers it"
    context.cursor_releases.reports = {"uid-of-leaving": ReleaseReport(text="1 guards removed, 5 topics checked")}
    reconcile(context, DEMO)
    assert condition(server, BINDING, "leaving")[1].endswith("1 guards removed, 5 topics checked")
    context.cursor_releases.reports = {"uid-of-leaving": DONE}
    reconcile(context, DEMO)
    assert ("ReadOnlyTopicBinding", "leaving") not in server.objects
    assert context.store.get(BINDING, "team", "leaving") is None
    assert events(server)["Released"]["message"].startswith("3 guards removed")
    reconcile(context, DEMO)
    assert requests(context) == {}


def test_what_stays_is_told_by_a_warning(server, context, put, pool_body, leaving):
    put(POOL, pool_body(replicas=0))
    put(BINDING, leaving)
    text = "0 guards removed; the source cluster does not answer: no answer in time"
    context.cursor_releases.reports = {"uid-of-leaving": ReleaseReport(released=True, text=text)}
    reconcile(context, DEMO)
    assert ("ReadOnlyTopicBinding", "leaving") not in server.objects
    event = events(server)["NotReleased"]
    assert event["type"] == "Warning"
    assert text in event["message"]


@pytest.mark.parametrize(
    ("reachable", "field", "late", "waits"),
    [
        (True, "bindings", True, True),
        (False, "partly_loaded", True, True),  # one of its workers holds it
        (True, None, False, False),
        (False, None, False, True),
        (False, None, True, False),
    ],
)
def test_brokers_drop_the_binding_first(
    server, context, put, pool_body, leaving, make_binding, monkeypatch, reachable, field, late, waits
):
    held = {field: (Entry.of(make_binding("leaving")),)} if field else {}
    report = BrokerReport("demo-0", reachable=reachable, revision="r1" if reachable else None, **held)
    monkeypatch.setattr(context.brokers, "ask", lambda _: [report])
    monkeypatch.setattr(context.brokers, "refresh_config_map", lambda *_: False)
    put(POOL, pool_body(replicas=0))
    put(BINDING, leaving)
    if late:
        context = replace(context, now=lambda: LATER)
    reconcile(context, DEMO)
    assert (requests(context) == {}) is waits
    if waits:
        assert "brokers hold the binding, or do not answer: demo-0" in condition(server, BINDING, "leaving")[1]


def test_a_binding_of_a_paused_pool_waits_unless_it_keeps(server, context, put, pool_body, leaving):
    pool = pool_body(replicas=0)
    pool["metadata"]["annotations"] = {PAUSED_KEY: "true"}
    put(POOL, pool)
    put(BINDING, leaving)
    reconcile(context, DEMO)
    assert condition(server, BINDING, "leaving")[1].endswith('ReadOnlyBrokerPool "demo" is paused')
    body = server.objects["ReadOnlyTopicBinding", "leaving"]
    put(BINDING, {**body, "spec": {**body["spec"], "onDeletion": "Keep"}})
    reconcile(context, DEMO)
    assert ("ReadOnlyTopicBinding", "leaving") not in server.objects


def test_a_binding_without_its_pool_does_not_wait(server, context, put, leaving):
    put(BINDING, leaving)
    reconcile(context, DEMO)
    assert ("ReadOnlyTopicBinding", "leaving") not in server.objects
    assert "ReadOnlyBrokerPool team/demo does not exist" in events(server)["NotReleased"]["message"]


def test_a_binding_with_a_spec_that_cannot_be_read_does_not_wait(server, context, put, pool_body, leaving):
    put(POOL, pool_body(replicas=0))
    put(BINDING, {**leaving, "spec": {**leaving["spec"], "topics": ["("]}})
    reconcile(context, DEMO)
    assert ("ReadOnlyTopicBinding", "leaving") not in server.objects


def test_a_pool_ends_its_brokers_first(server, context, put, leaving_pool, leaving, binding_body):
    put(POOL, leaving_pool)
    put(BINDING, leaving)
    put(BINDING, binding_body("staying", topics=["persistent://shop/eu/.*"]))
    put(STATEFUL_SET, stateful_set())
    put(POD, pod())
    assert reconcile(context, DEMO).refresh_seconds > 0
    assert server.deleted == ["demo"]
    assert condition(server, POOL, "demo") == (
        "Releasing",
        "local cursors are being removed: brokers are about to end: demo-0",
    )
    assert requests(context) == {}
    assert ("ReadOnlyTopicBinding", "leaving") not in server.objects, "the pool releases all"
    context.store.remove(STATEFUL_SET, server.objects["StatefulSet", "demo"])
    context.store.remove(POD, server.objects["Pod", "demo-0"])
    reconcile(context, DEMO)
    ((key, request),) = requests(context).items()
    assert key == (DEMO, "uid-of-demo")
    assert (request.topics, request.known) == (None, ("shop/eu",))
    context.cursor_releases.reports = {"uid-of-demo": DONE}
    reconcile(context, DEMO)
    assert ("ReadOnlyBrokerPool", "demo") not in server.objects
    assert "Released" in events(server)


def test_a_pod_that_never_ends_is_waited_for_a_limited_time(context, put, leaving_pool):
    put(POOL, leaving_pool)
    put(POD, pod())
    reconcile(context, DEMO)
    assert requests(context) == {}
    reconcile(replace(context, now=lambda: LATER), DEMO)
    assert len(requests(context)) == 1


@pytest.mark.parametrize("how", ["finalizer", "owner"])
def test_brokers_that_stay_without_their_pool_keep_their_cursors(server, context, put, leaving_pool, how):
    if how == "finalizer":
        leaving_pool["metadata"]["finalizers"] = ["orphan", FINALIZER_WRITER]
    put(POOL, leaving_pool)
    put(STATEFUL_SET, stateful_set("uid-of-demo" if how == "finalizer" else "somebody"))
    put(POD, pod())
    reconcile(context, DEMO)
    assert server.deleted == []
    assert requests(context) == {}
    left = server.objects.get(("ReadOnlyBrokerPool", "demo"))
    assert left is None or left["metadata"]["finalizers"] == ["orphan"]


def test_a_pool_that_keeps_removes_nothing(server, context, put, leaving_pool):
    leaving_pool["spec"]["onDeletion"] = "Keep"
    put(POOL, leaving_pool)
    put(STATEFUL_SET, stateful_set())
    reconcile(context, DEMO)
    assert server.deleted == []
    assert ("ReadOnlyBrokerPool", "demo") not in server.objects
