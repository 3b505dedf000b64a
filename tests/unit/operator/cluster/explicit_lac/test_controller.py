"""What becomes of pools while the API server does not do what managing explicit LAC asks of it."""

import datetime as dt

import pytest
from readonly_operator.api.pool.explicit_lac import LAC_SETTING
from readonly_operator.bindings.topic_index import BindingTopicIndex
from readonly_operator.cluster.explicit_lac.controller import ExplicitLacController
from readonly_operator.cluster.explicit_lac.observed import SettingRecord
from readonly_operator.cluster.fetch import ANONYMOUS, FetchError
from readonly_operator.kube.api_server import KubeError
from readonly_operator.kube.kinds import CONFIG_MAP, POOL, STATEFUL_SET
from readonly_operator.kube.names import ANNOTATION_EXPLICIT_LAC, FINALIZER_WRITER, PoolKey
from readonly_operator.kube.store import Store

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
STAMP = "2026-01-01T12:00:00Z"
DEMO = PoolKey("team", "demo")
TARGET = {"configMap": {"name": "broker", "key": LAC_SETTING}, "statefulSet": {"name": "broker"}}


class Writer:
    """An API server with one owner broker that a tool gives its old setting back as soon as it is changed."""

    def __init__(self):
        self.record = None
        self.sets = 0

    def get(self, kind, namespace, name):
        metadata = {"name": name, "uid": "u", "resourceVersion": "1", "creationTimestamp": STAMP}
        if kind == CONFIG_MAP:
            return {"metadata": {**metadata, "annotations": self.record or {}}, "data": {LAC_SETTING: "0"}}
        if kind == STATEFUL_SET:
            reads = {"containers": [{"name": "b", "envFrom": [{"configMapRef": {"name": "broker"}}]}]}
            return {"metadata": metadata, "spec": {"replicas": 0, "template": {"spec": reads}}}
        return None

    def may(self, right):
        return True

    def apply_as(self, manager, manifest):
        self.record = manifest["metadata"]["annotations"]
        self.sets += 1


def test_what_was_just_set_and_put_back_by_a_tool_is_not_set_again_before_the_status_says_so(pool_body, monkeypatch):
    silent = []

    def brokers(*_):
        if silent:
            raise FetchError("no answer in time")
        return []

    monkeypatch.setattr("readonly_operator.cluster.explicit_lac.controller.active_brokers", brokers)
    store, kube = Store(BindingTopicIndex()), Writer()
    body = pool_body(explicitLac={"management": "Manage", "target": TARGET})
    store.put(POOL, body)
    controller = ExplicitLacController(
        kube, store, 0, lambda: NOON, lambda _: None, lambda _: None, lambda _: ANONYMOUS
    )
    for _ in range(3):
        controller._due.clear()
        controller.sync()
    assert kube.sets == 1
    condition = controller.report(DEMO).condition
    assert condition is not None
    assert condition.reason == "Reverted"
    store.put(
        POOL,
        verify := {
            **body,
            "metadata": {**body["metadata"], "resourceVersion": "8"},
            "spec": {"source": body["spec"]["source"]},
        },
    )
    controller.sync()
    store.put(POOL, {**body, "metadata": {**verify["metadata"], "resourceVersion": "9"}})
    silent.append("brokers do not answer for a while")
    for _ in range(2):
        controller._due.clear()
        controller.sync()
    silent.clear()
    controller._due.clear()
    controller.sync()
    assert kube.sets == 2, "who said Verify in between wants it anew"


class Immutable:
    """An API server with owner brokers in namespace pulsar, whose ConfigMap takes no change."""

    def get(self, kind, namespace, name):
        record = SettingRecord(200, "0", "uid-of-demo").text()
        metadata = {"name": name, "uid": "u", "resourceVersion": "1", "creationTimestamp": STAMP}
        if kind == CONFIG_MAP:
            return {
                "metadata": {**metadata, "annotations": {ANNOTATION_EXPLICIT_LAC: record}},
                "data": {LAC_SETTING: "200"},
            }
        if kind == STATEFUL_SET:
            return {"metadata": metadata, "spec": {"replicas": 0, "template": {"spec": {}}}}
        return None

    def may(self, right):
        return True

    def merge(self, manager, kind, namespace, name, patch):
        raise KubeError("field is immutable when `immutable` is set", 422)


@pytest.mark.parametrize(("waited", "released"), [(dt.timedelta(0), False), (dt.timedelta(minutes=10), True)])
def test_a_deletion_ends_where_the_config_map_takes_no_change(pool_body, waited, released):
    body = pool_body(explicitLac={"management": "Manage", "target": TARGET, "onDeletion": "Restore"})
    body["spec"]["source"]["adminUrl"] = "http://127.0.0.1:1"
    body["metadata"] |= {"deletionTimestamp": STAMP, "finalizers": [FINALIZER_WRITER], "creationTimestamp": STAMP}
    store = Store(BindingTopicIndex())
    store.put(POOL, body)
    controller = ExplicitLacController(
        Immutable(), store, 60, lambda: NOON + waited, lambda _: None, lambda _: None, lambda _: ANONYMOUS
    )
    controller.sync()
    report = controller.report(DEMO)
    assert report.released is released
    assert report.condition is not None
    assert "immutable" in report.condition.message


def managing(pool_body, namespace, created, key, **metadata):
    target = {"namespace": "pulsar", "configMap": {"name": "broker", "key": key}, "statefulSet": {"name": "broker"}}
    body = pool_body(explicitLac={"management": "Manage", "target": target, "onDeletion": "Restore"})
    body["spec"]["source"]["adminUrl"] = "http://127.0.0.1:1"
    body["metadata"] |= {"namespace": namespace, "uid": namespace, "creationTimestamp": created, **metadata}
    return body


class Noted(Immutable):
    """The same, with a ConfigMap that takes changes of its record."""

    def __init__(self):
        self.patches = []

    def merge(self, manager, kind, namespace, name, patch):
        self.patches.append(patch)


def test_the_record_of_a_leaving_pool_goes_to_one_that_stays(pool_body, monkeypatch):
    monkeypatch.setattr("readonly_operator.cluster.explicit_lac.controller.active_brokers", lambda *_: [])
    store, kube = Store(BindingTopicIndex()), Noted()
    going = {"deletionTimestamp": STAMP, "finalizers": [FINALIZER_WRITER]}
    for name, uid, metadata in (("demo", "uid-of-demo", going), ("other", "uid-of-other", {})):
        store.put(POOL, managing(pool_body, "pulsar", STAMP, LAC_SETTING, name=name, uid=uid, **metadata))
    kept = SettingRecord(200, "0", "uid-of-other").text()
    monkeypatch.setattr("readonly_operator.cluster.explicit_lac.observed._reads", lambda *_: True)
    ExplicitLacController(kube, store, 60, lambda: NOON, lambda _: None, lambda _: None, lambda _: ANONYMOUS).sync()
    assert kube.patches == [{"metadata": {"resourceVersion": "1", "annotations": {ANNOTATION_EXPLICIT_LAC: kept}}}]


def test_a_pool_that_may_not_manage_brokers_stands_against_nobody(pool_body):
    store = Store(BindingTopicIndex())
    going = {"deletionTimestamp": STAMP, "finalizers": [FINALIZER_WRITER]}
    store.put(POOL, managing(pool_body, "strangers", "2025-01-01T00:00:00Z", f"PULSAR_PREFIX_{LAC_SETTING}"))
    store.put(POOL, managing(pool_body, "pulsar", STAMP, LAC_SETTING, uid="uid-of-demo", **going))
    controller = ExplicitLacController(
        Immutable(), store, 60, lambda: NOON, lambda _: None, lambda _: None, lambda _: ANONYMOUS
    )
    controller.sync()
    owner, stranger = controller.report(PoolKey("pulsar", "demo")), controller.report(PoolKey("strangers", "demo"))
    assert not owner.released, "what was there before is still to be put back"
    assert stranger.condition is not None
    assert stranger.condition.reason in {"Conflict", "NotAllowed"}
