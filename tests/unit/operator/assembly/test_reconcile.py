"""Reconciling a pool that cannot be worked on: what its status and its bindings say then."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import pytest
from readonly_operator.api.binding import Binding
from readonly_operator.assembly.broker_report import BrokerReport
from readonly_operator.assembly.lookup_history import LookupHistory
from readonly_operator.assembly.reconcile import reconcile
from readonly_operator.kube.api_server import KubeError
from readonly_operator.kube.kinds import AUTOSCALER, BINDING, CONFIG_MAP, POD, POOL
from readonly_operator.kube.names import FINALIZER_WRITER, LABEL_POOL, PAUSED_KEY, PoolKey
from readonly_operator.model.lookup import LookupConfig

from tests.support.played_http import played_http

DEMO = PoolKey("team", "demo")
NOTED = {"target": "pulsar/broker/key", "intervalMs": 200}


def ready(status):
    return next(one for one in status["conditions"] if one["type"] == "Ready")["reason"]


@pytest.mark.parametrize(("spec", "reason"), [({}, "Refused"), ({"replicas": "many"}, "InvalidSpec")])
def test_what_autoscalers_and_management_read_stays_while_a_pool_cannot_be_worked_on(
    server, context, put, pool_body, spec, reason
):
    put(POOL, pool_body(**spec), explicitLac=NOTED, lookupRevision="r1")
    reconcile(context, DEMO)
    status = server.status(POOL, "demo")
    assert ready(status) == reason
    assert status["selector"] == "pulsar-readonly.io/pool=demo"
    assert (status["replicas"], status["readyReplicas"]) == (0, 0)
    assert status["explicitLac"] == NOTED, "else a value that somebody has put back is set again"
    assert status["lookupRevision"] == "r1"


def test_every_binding_of_a_pool_that_cannot_be_worked_on_is_told(server, context, put, pool_body, binding_body):
    put(POOL, pool_body("other"))
    put(POOL, pool_body())
    held_back, rival, broken = binding_body("young"), binding_body("old", "other"), binding_body("broken", topics=["("])
    held_back["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    rival["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    for body in (held_back, rival, broken):
        put(BINDING, body)
    reconcile(context, DEMO)
    assert ready(server.status(BINDING, "young")) == "PoolFailed"
    assert ready(server.status(BINDING, "broken")) == "InvalidSpec"
    assert server.status(POOL, "demo")["bindings"] == 2


def test_what_was_set_is_forgotten_where_explicit_lac_is_not_managed(server, context, put, pool_body):
    server.refuses = False
    put(POOL, pool_body(replicas=0), explicitLac=NOTED)
    assert reconcile(context, DEMO).settled
    assert "explicitLac" not in server.status(POOL, "demo")


def test_a_broker_that_is_ending_keeps_its_load_balancer(server, context, put, pool_body):
    server.refuses = False
    put(POOL, pool_body(replicas=1, listeners={"external": {"host": "{broker}.example.com"}}))
    metadata = {"namespace": "team", "labels": {LABEL_POOL: "demo"}, "deletionTimestamp": "2026-01-01T12:00:00Z"}
    ending = {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "name": "demo-2", "uid": "u"}}
    put(POD, ending)
    reconcile(context, DEMO)
    assert {name for kind, name in server.objects if kind == "Service"} >= {"demo-broker-0", "demo-broker-2"}
    context.store.remove(POD, server.objects["Pod", "demo-2"])
    reconcile(context, DEMO)
    assert server.deleted == ["demo-broker-2"]


def test_a_pool_that_cannot_get_its_finalizer_says_so_where_it_matters(server, context, put, pool_body):
    server.refuses = False
    put(POOL, pool_body(replicas=0, lookup={"clusterName": "readers"}))
    assert reconcile(context, DEMO).refresh_seconds > 0
    reasons = {one["type"]: one["reason"] for one in server.status(POOL, "demo")["conditions"]}
    assert (reasons["ClusterRegistered"], reasons["ExplicitLac"]) == ("Forbidden", "NotChecked")


def test_a_deletion_that_waits_for_a_right_says_so(server, context, put, pool_body):
    body = pool_body()
    body["metadata"] |= {"deletionTimestamp": "2026-01-01T12:00:00Z", "finalizers": [FINALIZER_WRITER]}
    put(POOL, body)
    with pytest.raises(KubeError):
        reconcile(context, DEMO)
    (message,) = [one["message"] for one in server.status(POOL, "demo")["conditions"] if one["reason"] == "Forbidden"]
    assert "verb patch on readonlybrokerpools.pulsar-readonly.io in namespace team" in message


@pytest.fixture
def broker(monkeypatch):
    """A broker that has not read its bindings yet."""
    made = SimpleNamespace(address="127.0.0.1", answer={"revision": "r0", "bindings": [], "error": None})
    with played_http(lambda _: (200, made.answer)) as port:
        monkeypatch.setattr("readonly_operator.kube.http_ports.PORT_HTTP", port)
        yield made


def pod_at(address, name="demo-0", *, is_ready=True):
    metadata = {"name": name, "namespace": "team", "uid": name, "labels": {LABEL_POOL: "demo"}}
    status = {"phase": "Running", "podIP": address, "conditions": [{"type": "Ready", "status": str(is_ready)}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n"}, "status": status}


@pytest.mark.parametrize(("spec", "reason"), [({}, "Refused"), ({"replicas": "many"}, "InvalidSpec")])
def test_a_binding_that_brokers_serve_stays_ready_while_its_pool_cannot_be_worked_on(
    server, context, put, pool_body, binding_body, broker, spec, reason
):
    put(POOL, pool_body(**spec))
    put(BINDING, binding_body("old"))
    put(BINDING, binding_body("new", topics=["persistent://public/default/new"]))
    former = [{"type": "LocalCursors", "status": "True", "reason": "Kept", "message": "m", "lastTransitionTime": "t"}]
    put(BINDING, binding_body("old"), conditions=former)
    held = LookupConfig.of([Binding.load(binding_body("old"))])
    broker.answer = {"revision": "r7", "bindings": [one.document() for one in held.bindings], "error": None}
    for body in (pod_at(broker.address), pod_at(broker.address, "demo-1", is_ready=False)):
        context.store.put(POD, server.add(body))
    outcome = reconcile(context, DEMO)
    assert outcome.refresh_seconds > 0, "no event announces that brokers end to serve it"
    assert ready(server.status(POOL, "demo")) == reason
    old, new = server.status(BINDING, "old"), server.status(BINDING, "new")
    shown = {one["type"]: (one["status"], one["reason"]) for one in old["conditions"]}
    assert shown["Ready"] == ("True", "Held")
    assert shown["LookupConfigured"] == ("True", "Held")
    assert shown["Progressing"] == ("False", "PoolFailed")
    assert shown["LocalCursors"] == ("True", "Kept")
    assert "Stalled" not in shown
    assert (old["servingBrokers"], old["holdingBrokers"], old["brokers"]) == (1, 2, 2)
    assert ready(new) == "PoolFailed", "brokers do not have it, and do not get it"
    assert any(one["type"] == "Stalled" and one["status"] == "True" for one in new["conditions"])


def test_a_binding_that_no_ready_broker_serves_shares_the_failure_of_its_pool(
    server, context, put, pool_body, binding_body, broker
):
    put(POOL, pool_body())
    put(BINDING, binding_body())
    context.store.put(POD, server.add(pod_at(broker.address)))
    assert reconcile(context, DEMO).refresh_seconds == 0
    assert ready(server.status(BINDING, "orders")) == "PoolFailed"


def test_a_pod_that_may_not_be_annotated_is_told_and_stops_nothing(
    server, context, put, pool_body, binding_body, broker
):
    server.refuses = False
    put(POOL, pool_body(replicas=1))
    put(BINDING, binding_body())
    zone = {"topology.kubernetes.io/zone": "a"}
    metadata = {"name": "demo-0", "namespace": "team", "uid": "u", "labels": {LABEL_POOL: "demo", **zone}}
    ready_now = {"phase": "Running", "podIP": broker.address, "conditions": [{"type": "Ready", "status": "True"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n"}, "status": ready_now}
    context.store.put(POD, server.add(pod))
    assert reconcile(context, DEMO).refresh_seconds > 0
    said = {one["type"]: one["message"] for one in server.status(POOL, "demo")["conditions"]}
    assert said["Progressing"].endswith(
        "but pods cannot be annotated, so brokers get changed bindings late and may not know their locality: "
        'pods "demo-0" is forbidden'
    )
    assert "demo-0 still holds revision r0" in said["LookupConfigured"]
    assert ready(server.status(BINDING, "orders")) == "BrokersBehind"
    (event,) = [one for one in server.objects.values() if one.get("reason") == "PodsNotAnnotated"]
    assert event["type"] == "Warning"


EDITS = {
    "everything": lambda text: "",
    "the entry": lambda text: text.partition("bindings:")[0] + "bindings: []",
    "a topic": lambda text: text.replace("default/orders", "default/payments"),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize(("restarted", "changed"), [(False, False), (False, True), (True, False)])
def test_what_brokers_hold_of_a_paused_binding_stays_when_somebody_edits_the_config_map(
    server, context, put, pool_body, binding_body, edit, restarted, changed
):
    server.refuses = False
    put(POOL, pool_body(replicas=0))
    put(BINDING, binding_body())
    reconcile(context, DEMO)
    before = server.objects["ConfigMap", "demo-bindings"]["data"]
    body = copy.deepcopy(server.objects["ReadOnlyTopicBinding", "orders"])
    body["metadata"]["annotations"] = {PAUSED_KEY: "true"}
    if changed:
        body["spec"]["topics"].append("persistent://public/default/more")
        body["metadata"]["generation"] += 1
    context.store.put(BINDING, server.add(body))
    edited = copy.deepcopy(server.objects["ConfigMap", "demo-bindings"])
    edited["data"] = {key: EDITS[edit](text) for key, text in edited["data"].items()}
    assert edited["data"] != before
    context.store.put(CONFIG_MAP, server.add(edited))
    if restarted:
        context = replace(context, lookup_history=LookupHistory())
    for _ in range(2):
        reconcile(context, DEMO)
        assert server.objects["ConfigMap", "demo-bindings"]["data"] == before


def test_a_binding_that_was_paused_before_it_was_ever_in_force_is_not_told(
    server, context, put, pool_body, binding_body
):
    server.refuses = False
    body = binding_body()
    body["metadata"]["annotations"] = {PAUSED_KEY: "true"}
    put(POOL, pool_body(replicas=0))
    put(BINDING, body)
    for _ in range(2):
        reconcile(context, DEMO)
        assert "bindings: []" in next(iter(server.objects["ConfigMap", "demo-bindings"]["data"].values()))


def test_conflicts_are_searched_once_and_topics_checked_again_where_there_are_some(
    server, context, put, pool_body, binding_body, monkeypatch
):
    server.refuses = False
    put(POOL, pool_body("other"))
    put(POOL, pool_body(replicas=0))
    for name, pool, expression in (("old", "other", ".*-eu"), ("young", "demo", "orders-.*"), ("more", "demo", "x")):
        body = binding_body(name, pool, [f"persistent://public/default/{expression}"])
        body["metadata"]["creationTimestamp"] = f"2026-01-0{1 + (name != 'old')}T00:00:00Z"
        put(BINDING, body)
    reachable = []
    conflicting = context.store.conflicting_bindings
    monkeypatch.setattr(
        context.store, "conflicting_bindings", lambda *name: reachable.append(name) or conflicting(*name)
    )
    assert reconcile(context, DEMO).refresh_seconds > 0, "a topic that both match may be made any time"
    assert sorted(reachable) == [("team", "more"), ("team", "young")]


def test_bindings_that_do_not_fit_are_refused_alone(server, context, put, pool_body, binding_body):
    server.refuses = False
    put(POOL, pool_body(replicas=0))
    for number in range(8):
        topics = [f"persistent://public/default/{number}-{topic:03}{'x' * 475}" for topic in range(256)]
        body = binding_body(f"large{number}", topics=topics)
        body["metadata"]["creationTimestamp"] = f"2026-01-0{8 - number}T00:00:00Z"
        put(BINDING, body)
    put(BINDING, binding_body("small"))
    for _ in range(2):
        reconcile(context, DEMO)
        told = {name: ready(server.status(BINDING, name)) for name in (f"large{number}" for number in range(8))}
        assert [name for name, reason in told.items() if reason == "TooLarge"] == ["large0"], "it is the youngest one"
        assert ready(server.status(BINDING, "small")) == "NoBrokers"
        (text,) = server.objects["ConfigMap", "demo-bindings"]["data"].values()
        assert "team/small" in text
        assert "team/large0" not in text
        said = {one["type"]: one for one in server.status(POOL, "demo")["conditions"]}
        assert said["Ready"]["reason"] == "ScaledToZero"
        assert said["Progressing"]["message"].endswith(", but 1 binding does not fit into the pool's ConfigMap")
    assert any(one["type"] == "Stalled" for one in server.status(BINDING, "large0")["conditions"])


def conditions(status):
    return {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}


def test_a_topic_of_a_missing_pool_is_served_by_another_one_and_both_bindings_say_so(
    server, context, put, pool_body, binding_body
):
    server.refuses = False
    put(POOL, pool_body(replicas=0))
    for name, pool, day in (("old", "gone", 1), ("young", "demo", 2)):
        body = binding_body(name, pool)
        body["metadata"]["creationTimestamp"] = f"2026-01-0{day}T00:00:00Z"
        put(BINDING, body)
    for key in (DEMO, PoolKey("team", "gone")):
        reconcile(context, key)
    assert "team/young" in next(iter(server.objects["ConfigMap", "demo-bindings"]["data"].values()))
    young, old = server.status(BINDING, "young"), server.status(BINDING, "old")
    assert conditions(young)["TopicConflict"] == ("True", "Prevails")
    assert conditions(old) | {"TopicConflict": ("True", "Overruled"), "Ready": ("False", "PoolNotFound")} == conditions(
        old
    )
    (message,) = [one["message"] for one in old["conditions"] if one["type"] == "TopicConflict"]
    assert message.endswith(
        "team/young for ReadOnlyBrokerPool team/demo; that binding keeps it when this pool is created"
    )


def test_a_service_that_is_refused_does_not_keep_brokers_from_ending(server, context, put, pool_body):
    """Their node ports may be those that the Service waits for."""

    def listeners(first):
        return {"external": {"type": "NodePort", "nodePorts": {"first": first}}}

    server.refuses = False
    put(POOL, pool_body(replicas=10, listeners=listeners(30000)))
    reconcile(context, DEMO)
    keep = server.apply

    def refuse(manifest):
        if manifest["kind"] == "Service" and "-broker-" in manifest["metadata"]["name"]:
            raise KubeError("provided port is not in the valid range", 422)
        return keep(manifest)

    server.apply, server.refuses_patches = refuse, False
    template = copy.deepcopy(server.objects["StatefulSet", "demo"]["spec"]["template"])
    for replicas, expected in ((3, 3), (5, 3)):
        put(POOL, {**pool_body(replicas=replicas, listeners=listeners(32760)), "status": {}})
        reconcile(context, DEMO)
        assert ready(server.status(POOL, "demo")) == "Refused"
        assert server.objects["StatefulSet", "demo"]["spec"]["replicas"] == expected
    assert server.objects["StatefulSet", "demo"]["spec"]["template"] == template, (
        "no broker advertises a port it has not"
    )


def test_a_pool_whose_autoscaler_cannot_decide_is_not_settled_in_silence(server, context, put, pool_body):
    server.refuses = False
    put(POOL, pool_body(replicas=0, autoscaling={"maxReplicas": 3, "targetConnections": 5}))
    reconcile(context, DEMO)
    active = {
        "type": "ScalingActive",
        "status": "False",
        "reason": "FailedGetPodsMetric",
        "message": "no custom metrics",
    }
    put(AUTOSCALER, {**server.objects["HorizontalPodAutoscaler", "demo"], "status": {"conditions": [active]}})
    reconcile(context, DEMO)
    (said,) = (one["message"] for one in server.status(POOL, "demo")["conditions"] if one["type"] == "Progressing")
    assert said.endswith("but the HorizontalPodAutoscaler cannot decide: FailedGetPodsMetric: no custom metrics")


def test_the_reported_id_of_the_source_cluster_stays_in_the_status(server, context, put, pool_body, monkeypatch):
    """Brokers that are silent for a while, or another process of the operator, must not make two clusters of one."""
    server.refuses = False
    put(POOL, pool_body(replicas=1))
    for said, kept in (("", None), ("a", "a"), ("", "a"), ("b", "b")):
        reports = [BrokerReport("demo-0", reachable=bool(said), bookkeeper_instance=said)]
        monkeypatch.setattr(context.brokers, "ask", lambda _, reports=reports: reports)
        reconcile(context, DEMO)
        assert server.status(POOL, "demo").get("bookkeeperInstance") == kept
    server.refuses = True
    put(
        POOL,
        {**server.objects["ReadOnlyBrokerPool", "demo"], "spec": {**pool_body()["spec"], "cache": {"size": "1Gi"}}},
    )
    reconcile(context, DEMO)
    assert server.status(POOL, "demo")["conditions"][0]["reason"] == "Refused"
    assert server.status(POOL, "demo")["bookkeeperInstance"] == "b"
