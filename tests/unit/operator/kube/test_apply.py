"""Telling whether a live object has what is desired."""

import pytest
from readonly_operator.bindings.topic_index import BindingTopicIndex
from readonly_operator.kube import apply as apply_module
from readonly_operator.kube.api_server import KubeError
from readonly_operator.kube.apply import Applier, NameConflictError, Result, covers, trimmed
from readonly_operator.kube.kinds import POOL, SERVICE, STATEFUL_SET
from readonly_operator.kube.names import ANNOTATION_APPLIED_HASH, LABEL_POOL, OPERATOR
from readonly_operator.kube.store import Store


@pytest.mark.parametrize(
    ("live", "desired"),
    [
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1"}}, {"spec": {"type": "ClusterIP"}}),
        ({"ports": [{"port": 1, "nodePort": 3}]}, {"ports": [{"port": 1}]}),
        ({"selector": {"a": "b"}}, {"selector": {"a": "b"}}),
        ([], []),
        ({"env": [{"name": "A"}]}, {"env": [{"name": "A", "value": ""}]}),
        ({"volumeMounts": [{"name": "a"}]}, {"volumeMounts": [{"name": "a", "subPath": "", "readOnly": False}]}),
        ({"emptyDir": {}}, {"emptyDir": {"medium": ""}}),
        ({"configMap": {"name": "a"}}, {"configMap": {"name": "a", "items": []}}),
        ({"labelSelector": {}}, {"labelSelector": {"matchLabels": {}, "matchExpressions": []}}),
    ],
)
def test_covers(live, desired):
    assert covers(live, desired)


@pytest.mark.parametrize(
    ("live", "desired"),
    [
        ({}, {"a": 1}),
        ({"a": 2}, {"a": 1}),
        ({"a": None}, {"a": {}}),
        ({"ports": [{"port": 1}, {"port": 2}]}, {"ports": [{"port": 1}]}),
        ({"ports": []}, {"ports": [{"port": 1}]}),
        ({"selector": {"a": "b", "c": "d"}}, {"selector": {"a": "b"}}),
        ({"a": [1]}, {"a": {"b": 1}}),
        ({"env": [{"name": "A", "value": "b"}]}, {"env": [{"name": "A", "value": ""}]}),
        ({"volumeMounts": [{"readOnly": True}]}, {"volumeMounts": [{"readOnly": False}]}),
        ({}, {"automountServiceAccountToken": False}),
        ({"configMap": {"name": "a"}}, {"configMap": {"name": "a", "optional": False}}),
        ({}, {"emptyDir": {}}),
        ({"labels": {}}, {"labels": {"team": ""}}),
        ({"nodeSelector": {}}, {"nodeSelector": {"disk": ""}}),
    ],
)
def test_does_not_cover(live, desired):
    assert not covers(live, desired)


@pytest.mark.parametrize(
    ("live", "desired", "left"),
    [
        (
            {"ports": [{"port": 9}, {"port": 1, "nodePort": 3}]},
            {"ports": [{"port": 1}]},
            {"ports": [{"port": 1, "nodePort": 3}]},
        ),
        (
            {"containers": [{"name": "broker", "env": [{"name": "X"}, {"name": "A"}]}, {"name": "sidecar"}]},
            {"containers": [{"name": "broker", "env": [{"name": "A"}]}]},
            {"containers": [{"name": "broker", "env": [{"name": "A"}]}]},
        ),
        ({"other": [{"port": 9}], "a": 1}, {"a": 1}, {"other": [{"port": 9}], "a": 1}),
        ({"ports": [{"port": 9}]}, {"ports": [{"port": 1}]}, {"ports": [{"port": 9}]}),
        ({"args": ["a", "b"]}, {"args": ["a", "b"]}, {"args": ["a", "b"]}),
    ],
)
def test_what_others_put_into_lists_is_taken_out(live, desired, left):
    assert trimmed(live, desired) == left


class Cluster:
    """An API server with one Service, to which somebody has added a port; `stubborn` adds it again at every write."""

    def __init__(self, *, stubborn):
        self.stubborn = stubborn
        self.version = 1
        self.ports = [{"port": 9}]
        self.merged = 0

    def get(self, kind, namespace, name):
        return self._body()

    def apply(self, manifest):
        self.annotations = manifest["metadata"]["annotations"]
        self.ports = [*manifest["spec"]["ports"], *(port for port in self.ports if port["port"] == 9)]
        return self._body()

    def merge(self, manager, kind, namespace, name, patch):
        assert patch["metadata"]["resourceVersion"] == str(self.version)
        self.merged += 1
        self.version += 1
        self.ports = [*patch["spec"]["ports"], *([{"port": 9}] if self.stubborn else [])]
        return self._body()

    def _body(self):
        metadata = {"name": "demo", "namespace": "team", "uid": "u", "resourceVersion": str(self.version)}
        metadata |= {"annotations": getattr(self, "annotations", {}), "labels": {"pulsar-readonly.io/pool": "demo"}}
        return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": list(self.ports)}}


WANTED = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "demo", "namespace": "team"},
    "spec": {"ports": [{"port": 1}]},
}


def test_a_port_that_somebody_has_added_is_taken_out_once():
    cluster, store = Cluster(stubborn=False), Store(BindingTopicIndex())
    applier = Applier(cluster, store)
    assert applier.apply(WANTED) is Result.PATCHED
    assert cluster.ports == [{"port": 1}]
    assert store.get(SERVICE, "team", "demo")["spec"]["ports"] == [{"port": 1}]
    assert applier.apply(WANTED) is Result.NOOP
    assert cluster.merged == 1


def test_who_adds_it_again_at_every_write_is_left_alone():
    cluster = Cluster(stubborn=True)
    applier = Applier(cluster, Store(BindingTopicIndex()))
    for _ in range(3):
        applier.apply(WANTED)
    assert cluster.merged == 1


class OneService:
    """An API server with at most one Service, that counts what it is asked."""

    def __init__(self):
        self.body = None
        self.pool = {"metadata": {"uid": "pool"}}
        self.versions = 0
        self.asked = []

    def get(self, kind, namespace, name):
        if kind == POOL:
            assert (namespace, name) == ("team", "demo")
            return self.pool
        self.asked.append("get")
        return self.body

    def apply(self, manifest):
        self.asked.append("apply")
        live = (self.body or {}).get("metadata", {})
        if any(manifest["metadata"].get(key, live.get(key)) != live.get(key) for key in ("uid", "resourceVersion")):
            raise KubeError("the object has been modified", 409)
        return self.put(manifest)

    def put(self, manifest):
        self.versions += 1
        uid = self.body["metadata"]["uid"] if self.body else f"u{self.versions}"
        metadata = {"uid": uid, "labels": {"pulsar-readonly.io/pool": "demo"}, **manifest["metadata"]}
        self.body = {**manifest, "metadata": {**metadata, "resourceVersion": str(self.versions)}}
        return self.body


OWNER = [{"apiVersion": POOL.api_version, "kind": POOL.kind, "name": "demo", "uid": "pool", "controller": True}]


def wanted(port):
    return {**WANTED, "metadata": {**WANTED["metadata"], "ownerReferences": OWNER}, "spec": {"ports": [{"port": port}]}}


@pytest.fixture
def one():
    return OneService()


@pytest.fixture
def store():
    return Store(BindingTopicIndex())


def test_an_object_that_is_known_is_not_read_before_it_is_changed(one, store):
    applier = Applier(one, store)
    assert applier.apply(wanted(1)) is Result.CREATED
    one.asked.clear()
    assert applier.apply(wanted(1)) is Result.NOOP
    assert one.asked == []
    assert applier.apply(wanted(2)) is Result.PATCHED
    assert one.asked == ["apply"]
    assert "uid" not in wanted(2)["metadata"]


def test_drift_is_repaired_by_one_request(one, store):
    applier = Applier(one, store)
    applier.apply(wanted(1))
    store.put(SERVICE, one.put({**one.body, "spec": {"ports": [{"port": 7}]}}))
    one.asked.clear()
    assert applier.apply(wanted(1)) is Result.PATCHED
    assert one.asked == ["apply"]
    assert one.body["spec"]["ports"] == [{"port": 1}]


def test_an_object_that_is_gone_without_it_being_known_is_made_anew(one, store):
    applier = Applier(one, store)
    applier.apply(wanted(1))
    one.body = None
    assert applier.apply(wanted(2)) is Result.CREATED
    assert store.get(SERVICE, "team", "demo")["spec"] == one.body["spec"] == {"ports": [{"port": 2}]}


def test_somebody_elses_object_in_the_place_of_one_that_is_known_is_left_alone(one, store):
    applier = Applier(one, store)
    applier.apply(wanted(1))
    theirs = {**WANTED, "metadata": {**WANTED["metadata"], "uid": "theirs"}}
    one.put(theirs)
    with pytest.raises(NameConflictError):
        applier.apply(wanted(2))
    assert one.body["spec"] == WANTED["spec"]


MARKS = {"labels": {LABEL_POOL: "demo"}, "annotations": {ANNOTATION_APPLIED_HASH: "0"}}
APPLIED = [{"manager": OPERATOR, "operation": "Apply"}]


def left_behind(one, **metadata):
    """Put a Service there that a deleted pool has left, as `kubectl delete --cascade=orphan` does."""
    one.put({**WANTED, "metadata": {**WANTED["metadata"], **MARKS, "managedFields": APPLIED, **metadata}})


def of_the_new_pool():
    made = wanted(2)
    return {**made, "metadata": {**made["metadata"], "labels": {LABEL_POOL: "demo"}}}


def test_what_a_deleted_pool_of_the_same_name_has_left_is_adopted(one, store):
    left_behind(one)
    store.put(SERVICE, one.body)
    applier = Applier(one, store)
    assert applier.apply(of_the_new_pool()) is Result.PATCHED
    assert one.body["metadata"]["ownerReferences"] == OWNER
    assert one.body["spec"]["ports"] == [{"port": 2}]


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("pool", [None, {"uid": "another"}, {"uid": "pool", "deletionTimestamp": "now"}])
def test_what_is_orphaned_before_the_end_of_its_pool_is_known_stays_an_orphan(one, store, pool, known):
    """Kubernetes would delete what belongs to a pool that is gone, and a new pool could not adopt it."""
    if known:
        Applier(one, store).apply(wanted(1))
    left_behind(one)
    one.pool = pool and {"metadata": pool}
    with pytest.raises(KubeError, match="ReadOnlyBrokerPool demo is being deleted") as raised:
        Applier(one, store).apply(of_the_new_pool())
    assert not raised.value.refused, "the reconcile is tried again"
    assert "ownerReferences" not in one.body["metadata"]


@pytest.mark.parametrize(
    "metadata",
    [
        {"managedFields": [{"manager": "helm", "operation": "Apply"}]},
        {"managedFields": [{"manager": OPERATOR, "operation": "Update"}]},
        {"annotations": {}},
        {"labels": {LABEL_POOL: "other"}},
        {"ownerReferences": [{"uid": "another pool", "controller": True}]},
    ],
)
def test_what_cannot_be_proved_to_be_left_by_a_pool_is_left_alone(one, store, metadata):
    left_behind(one, **metadata)
    with pytest.raises(NameConflictError):
        Applier(one, store).apply(of_the_new_pool())
    assert one.body["spec"] == WANTED["spec"]


class StatefulSets:
    """An API server with one StatefulSet: it drops maxUnavailable while the gate is off, fills in defaults, and validates."""

    def __init__(self, strategy=None, *, gate=False, **metadata):
        self.gate, self.asked, self.body, self.version = gate, [], None, 0
        if strategy is not None:
            self.body = self._stored(
                {**rolling(strategy), "metadata": {"uid": "u", **rolling(strategy)["metadata"], **metadata}}
            )

    def get(self, kind, namespace, name):
        return {"metadata": {"uid": "pool"}} if kind == POOL else self.body

    def apply(self, manifest):
        """Keep what no manager of the strategy owns: that is what the API server has filled in."""
        self.asked.append("apply")
        wanted, live = manifest["spec"]["updateStrategy"], (self.body or {}).get("spec", {}).get("updateStrategy", {})
        merged = {**live, **wanted}
        if "rollingUpdate" in wanted:
            merged["rollingUpdate"] = {**live.get("rollingUpdate", {}), **wanted["rollingUpdate"]}
        made = {**manifest, "spec": {**manifest["spec"], "updateStrategy": merged}}
        return self._stored({**made, "metadata": {"uid": "u", **made["metadata"]}})

    def merge(self, manager, kind, namespace, name, patch):
        self.asked.append("merge")
        assert patch["metadata"].pop("resourceVersion") == self.body["metadata"]["resourceVersion"]
        strategy = {**self.body["spec"]["updateStrategy"], **patch["spec"]["updateStrategy"]}
        strategy = {key: value for key, value in strategy.items() if value is not None}
        metadata = {**self.body["metadata"], **patch["metadata"]}
        return self._stored(
            {**self.body, "metadata": metadata, "spec": {**self.body["spec"], "updateStrategy": strategy}}
        )

    def _stored(self, body):
        strategy = body["spec"]["updateStrategy"]
        settings = dict(strategy.get("rollingUpdate") or {})
        if strategy["type"] == "OnDelete" and "rollingUpdate" in strategy:
            raise KubeError("Invalid value: only allowed for updateStrategy 'RollingUpdate'", 422)
        if strategy["type"] == "RollingUpdate" and settings:
            settings = {"partition": 0, **({"maxUnavailable": 1} if self.gate else {}), **settings}
            if not self.gate:
                settings.pop("maxUnavailable", None)
            strategy = {**strategy, "rollingUpdate": settings}
        body = {**body, "spec": {**body["spec"], "updateStrategy": strategy}}
        if (
            self.body is None
            or {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}} != self.body
        ):
            self.version += 1
        self.body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        return self.body


def rolling(strategy):
    made = wanted(1)
    metadata = {**made["metadata"], "labels": {LABEL_POOL: "demo"}}
    return {
        **made,
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata,
        "spec": {"replicas": 3, "updateStrategy": strategy},
    }


HALF = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}}
HELD = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1000}}
ON_DELETE = {"type": "OnDelete"}


def test_a_field_that_the_api_server_drops_costs_one_request_and_drift_is_still_repaired(store):
    server = StatefulSets()
    applier = Applier(server, store)
    assert [applier.apply(rolling(HALF)) for _ in range(4)] == [Result.CREATED, *[Result.NOOP] * 3]
    assert server.asked == ["apply"]
    server.version += 1
    metadata = {**server.body["metadata"], "resourceVersion": str(server.version)}
    drifted = {**server.body, "metadata": metadata, "spec": {**server.body["spec"], "replicas": 7}}
    server.body = store_put(store, drifted)
    assert applier.apply(rolling(HALF)) is Result.PATCHED
    assert server.body["spec"]["replicas"] == 3
    assert applier.apply({**rolling(HALF), "spec": {**rolling(HALF)["spec"], "replicas": 4}}) is Result.PATCHED
    assert server.body["spec"]["replicas"] == 4
    store_put(store, {**server.body, "status": {"replicas": 4}})
    server.asked.clear()
    applier.apply({**rolling(HALF), "spec": {**rolling(HALF)["spec"], "replicas": 4}})
    assert server.asked == [], "a status changes nothing"


def store_put(store, body):
    store.put(STATEFUL_SET, body)
    return body


def test_the_memory_of_dropped_fields_is_bounded(store, monkeypatch):
    monkeypatch.setattr(apply_module, "MAX_INCOMPLETE", 1)
    applier = Applier(StatefulSets(), store)
    applier.apply(rolling(HALF))
    other = StatefulSets(HALF, uid="other")
    store.put(STATEFUL_SET, other.body)
    monkeypatch.setattr(applier, "_kube", other)
    applier.apply(rolling(HALF))
    assert list(applier._incomplete) == ["other"]


@pytest.mark.parametrize("gate", [False, True])
@pytest.mark.parametrize("former", [HALF, HELD])
@pytest.mark.parametrize("orphan", [False, True])
def test_on_delete_follows_rolling_updates(store, gate, former, orphan):
    """An orphan is what a deleted pool of the same name has left."""
    marks = {"ownerReferences": [], "annotations": MARKS["annotations"], "managedFields": APPLIED} if orphan else {}
    server = StatefulSets(former, gate=gate, **marks)
    store.put(STATEFUL_SET, server.body)
    applier = Applier(server, store)
    assert applier.apply(rolling(ON_DELETE)) is Result.PATCHED
    assert server.body["spec"]["updateStrategy"] == ON_DELETE
    assert server.asked == ["merge", "apply"]
    assert server.body["metadata"]["ownerReferences"] == wanted(1)["metadata"]["ownerReferences"]
    assert applier.apply(rolling(ON_DELETE)) is Result.NOOP
    assert applier.apply(rolling(HELD)) is Result.PATCHED
    assert server.asked == ["merge", "apply", "apply"]
