"""What is read from the objects that explicit LAC is managed through, and what pools agree on."""

import copy
import datetime as dt

import pytest
from readonly_operator.api.pool import Pool
from readonly_operator.api.reader import spec_value
from readonly_operator.cluster.explicit_lac.observed import (
    ObservedBroker,
    ObservedConfig,
    ObservedWorkload,
    SettingRecord,
)
from readonly_operator.cluster.explicit_lac.requests import SettingLocation, SettingRequest, agree

KEY = "PULSAR_PREFIX_bookkeeperExplicitLacIntervalInMills"
NOON = "2026-01-01T12:00:00Z"
ONE = "2026-01-01T13:00:00Z"


def time(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def config(value: str | None = "0", **metadata) -> dict:
    return {
        "metadata": {"name": "c", "uid": "u", "resourceVersion": "5", "creationTimestamp": NOON, **metadata},
        "data": {} if value is None else {KEY: value},
    }


def manager(name: str, when: str, *keys: str) -> dict:
    return {"manager": name, "time": when, "fieldsV1": {"f:data": {f"f:{key}": {} for key in keys}}}


@pytest.mark.parametrize(
    ("value", "interval"),
    [("200", 200), (" 200\n", 200), ("", 0), (None, 0), ("a=1\nb=2", None), ("-5", None), ("1" * 12, None)],
)
def test_the_value_of_the_key(value, interval):
    assert ObservedConfig.of(config(value), KEY).interval_ms == interval


def test_a_note_is_read_as_it_was_written():
    record = SettingRecord(200, None, "uid", restoring=True)
    observed = ObservedConfig.of(config(annotations={"pulsar-readonly.io/explicit-lac": record.text()}), KEY)
    assert observed.record == record
    for text in ("", "nonsense", "[]", '{"interval_ms": "x"}'):
        assert ObservedConfig.of(config(annotations={"pulsar-readonly.io/explicit-lac": text}), KEY).record is None


def test_when_the_operator_changed_it_is_by_the_api_servers_clock():
    ours = manager("pulsar-readonly-explicit-lac", ONE, KEY)
    others = manager("helm", "2026-01-01T14:00:00Z", "other")
    assert ObservedConfig.of(config(managedFields=[others, ours]), KEY).changed == time(ONE)
    assert ObservedConfig.of(config(managedFields=[others]), KEY).changed == time("2026-01-01T14:00:00Z")
    assert ObservedConfig.of(config(), KEY).changed == time(NOON)


def test_who_else_changed_it():
    ours = manager("pulsar-readonly-explicit-lac", ONE)
    owner, writer = manager("argocd-controller", NOON, KEY), manager("kubectl", ONE, "other")
    assert ObservedConfig.of(config(managedFields=[owner, writer, ours]), KEY).others == f"argocd-controller ({NOON})"
    assert ObservedConfig.of(config(None, managedFields=[ours, writer]), KEY).others == f"kubectl ({ONE})"
    assert ObservedConfig.of(config(managedFields=[ours]), KEY).others == ""


def workload(**spec) -> dict:
    return {
        "metadata": {"generation": 2, "annotations": {"pulsar-readonly.io/explicit-lac-from": "team, other"}},
        "spec": {
            "replicas": 3,
            "template": {"spec": {"containers": [{"envFrom": [{"configMapRef": {"name": "c"}}]}]}},
            **spec,
        },
        "status": {"observedGeneration": 2, "currentRevision": "a", "updateRevision": "a"},
    }


def test_the_stateful_set():
    observed = ObservedWorkload.of(workload(), "c")
    assert (observed.replicas, observed.first, observed.settled, observed.reads) == (3, 0, True, True)
    assert observed.allows("team")
    assert observed.allows("other")
    assert not observed.allows("stranger")
    assert ObservedWorkload.of(workload(ordinals={"start": 5}), "c").first == 5
    everybody = workload()
    everybody["metadata"]["annotations"]["pulsar-readonly.io/explicit-lac-from"] = "*"
    assert ObservedWorkload.of(everybody, "c").allows("stranger")


@pytest.mark.parametrize(
    "status",
    [
        {"observedGeneration": 1, "currentRevision": "a", "updateRevision": "a"},
        {"observedGeneration": 2, "currentRevision": "a", "updateRevision": "b", "updatedReplicas": 1},
    ],
)
def test_an_update_that_is_under_way(status):
    assert not ObservedWorkload.of({**workload(), "status": status}, "c").settled


@pytest.mark.parametrize(
    ("container", "reads"),
    [
        ({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]}, True),
        ({"env": [{"name": "A", "value": "1"}], "envFrom": [{"secretRef": {"name": "c"}}]}, False),
        ({"volumeMounts": [{"name": "c"}]}, False),
    ],
)
def test_whether_pods_read_the_config_map(container, reads):
    body = workload(template={"spec": {"containers": [container]}})
    assert ObservedWorkload.of(body, "c").reads is reads


def pod(ready: str = "True", **metadata) -> dict:
    return {
        "metadata": {"name": "broker-1", "uid": "u", "creationTimestamp": NOON, **metadata},
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.7",
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": ONE}],
        },
    }


def test_a_broker():
    observed = ObservedBroker.of(pod(), 1)
    assert (observed.ready, observed.created, observed.since, observed.trouble) == (True, time(NOON), time(ONE), "")
    assert ObservedBroker.of(pod("False"), 1).trouble == "not ready"
    ending = ObservedBroker.of(pod(deletionTimestamp="2026-01-01T14:00:00Z"), 1)
    assert (ending.trouble, ending.since) == ("it is ending", time("2026-01-01T14:00:00Z"))


def test_a_broker_is_found_by_its_host_name_or_its_address():
    observed = ObservedBroker.of(pod(), 1)
    assert observed.found(["broker-0.b.ns:8080", "broker-1.b.ns:8080"], pod()).address == "broker-1.b.ns:8080"
    assert observed.found(["10.0.0.7:8080"], pod()).address == "10.0.0.7:8080"
    lost = observed.found(["broker-10.b.ns:8080", "10.0.0.70:8080"], pod())
    assert (lost.address, lost.trouble) == ("", "it is not in the list of active brokers")


@pytest.fixture
def make_wish(pool_body):
    def make(name="demo", created=NOON, status=None, metadata=None, **lac) -> SettingRequest | None:
        target = {"configMap": {"name": "c", "key": KEY}, "statefulSet": {"name": "s"}, "namespace": "pulsar"}
        body = copy.deepcopy(pool_body(name, explicitLac={"management": "Manage", "target": target, **lac}))
        body["metadata"] |= {"creationTimestamp": created, **(metadata or {})}
        body["status"] = status or {}
        return SettingRequest.of(Pool.load(body), body)

    return make


def test_a_request(make_wish):
    request = make_wish(interval="50ms", status={"explicitLac": {"target": f"pulsar/c/{KEY}", "intervalMs": 70}})
    assert request.location == SettingLocation("pulsar", "s", "c", KEY)
    assert (request.interval_ms, request.applied_ms, request.restore, request.has_finalizer) == (50, 70, False, False)
    assert make_wish().interval_ms == 200
    assert make_wish(status={"explicitLac": {"target": "pulsar/d/e", "intervalMs": 70}}).applied_ms is None
    assert make_wish(management="Verify") is None


def test_a_pool_that_is_deleted_wants_something_only_to_restore(make_wish):
    gone = {"deletionTimestamp": ONE, "finalizers": ["pulsar-readonly.io/writable-cluster"]}
    assert make_wish(metadata=gone) is None
    assert make_wish(metadata=gone, onDeletion="Restore").deleted_at == time(ONE)
    assert make_wish(metadata={"deletionTimestamp": ONE}, onDeletion="Restore") is None


def test_pools_that_share_brokers_agree_and_the_oldest_one_chooses_the_place(make_wish):
    young = make_wish("young", created=ONE)
    other = {"configMap": {"name": "other", "key": KEY}, "statefulSet": {"name": "s"}, "namespace": "pulsar"}
    against = make_wish("against", created="2026-01-01T14:00:00Z", target=other)
    elsewhere = make_wish("elsewhere", target={**other, "namespace": "else"})
    agreements, conflicts = agree([against, young, make_wish(), elsewhere], {})
    assert {(one.location.namespace, tuple(request.pool.name for request in one.active)) for one in agreements} == {
        ("pulsar", ("demo", "young")),
        ("else", ("elsewhere",)),
    }
    assert set(conflicts) == {against.pool}
    assert (
        "managed by the older pool team/demo through key PULSAR_PREFIX_bookkeeperExplicitLacIntervalInMills of ConfigMap c"
        in conflicts[against.pool]
    )


@pytest.mark.parametrize(
    ("spec", "found"),
    [({"a": {"b": 1}}, 1), ({"a": {}}, None), ({"a": None}, None), ({"a": "text"}, None), ({}, None), (None, None)],
)
def test_a_glance_at_a_field(spec, found):
    assert spec_value({"spec": spec}, "a", "b") == found
