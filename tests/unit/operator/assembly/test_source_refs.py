"""Pools that name a ReadOnlySource: which connection they use, and what keeps them at their cluster."""

import copy
import datetime as dt
from dataclasses import replace

import pytest
from readonly_operator.api.pool import Pool
from readonly_operator.assembly.reconcile import reconcile
from readonly_operator.kube.api_server import KubeError
from readonly_operator.kube.kinds import CONFIG_MAP, POOL, SOURCE
from readonly_operator.kube.names import PAUSED_KEY, PoolKey
from readonly_operator.kube.store import Store

from tests.support.kstatus import kstatus
from tests.support.yaml_documents import load_yaml

DEMO = PoolKey("team", "demo")
URLS = {
    "serviceUrl": "pulsar://pulsar-broker.pulsar:6650",
    "adminUrl": "http://pulsar-broker.pulsar:8080",
    "metadataStoreUrl": "zk:a:2181,b:2181",
}


def source_body(name="pulsar", uid="first", generation=1, **spec):
    return {
        "apiVersion": "pulsar-readonly.io/v1beta1",
        "kind": "ReadOnlySource",
        "metadata": {"name": name, "namespace": "team", "uid": uid, "generation": generation},
        "spec": {**URLS, **spec},
    }


@pytest.fixture
def refer(server, context, put, pool_body):
    """A user writes the pool with this sourceRef; the rest of it stays."""
    server.refuses = False

    def write(name="pulsar", **spec):
        known = server.objects.get(("ReadOnlyBrokerPool", "demo"))
        body = copy.deepcopy(known or pool_body(replicas=0))
        body["spec"] = {"replicas": 0, **({"sourceRef": {"name": name}} if name else {}), **spec}
        body["metadata"]["generation"] += 1
        put(POOL, body)

    return write


@pytest.fixture
def written(server, context):
    """Reconciles; returns the conditions by type, and the metadata store that brokers are given."""

    def run():
        reconcile(context, DEMO)
        status = server.status(POOL, "demo")
        config = server.objects.get(("ConfigMap", "demo-config"))
        store = config and load_yaml(config["data"]["engine.yaml"])["metadata-store-url"]
        return {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}, store

    return run


@pytest.fixture
def connected(put, refer, written):
    """The pool names a source, and its brokers have the connection."""
    put(SOURCE, source_body())
    refer()
    written()


def remove(server, context, kind, name):
    context.store.remove(kind, server.objects.pop((kind.kind, name)))


def test_a_pool_uses_the_source_that_it_names_and_follows_its_changes(server, context, put, refer, written):
    put(SOURCE, source_body())
    refer()
    conditions, store = written()
    assert store == "zk:a:2181,b:2181"
    assert conditions["SourceResolved"] == ("True", "Resolved")
    assert conditions["Ready"] == ("True", "ScaledToZero")
    put(SOURCE, source_body(generation=2, metadataStoreUrl="zk:b:2181,c:2181"))
    assert written()[1] == "zk:b:2181,c:2181"
    assert server.status(POOL, "demo")["source"]["generation"] == 2
    assert (server.status(SOURCE, "pulsar")["pools"], kstatus(server.objects["ReadOnlySource", "pulsar"])) == (
        1,
        "Current",
    )


def test_the_first_connection_has_a_time_that_stays(connected, server, context, put):
    assert server.status(POOL, "demo")["source"]["since"] == "2026-01-01T12:00:01Z", "rounded up"
    put(SOURCE, source_body(generation=2, metadataStoreUrl="zk:b:2181,c:2181"))
    later = replace(context, now=lambda: context.now() + dt.timedelta(hours=1))
    reconcile(later, DEMO)
    found = server.status(POOL, "demo")["source"]
    assert (found["generation"], found["since"]) == (2, "2026-01-01T12:00:01Z")


def test_a_pool_with_a_source_of_its_own_had_its_connection_before(server, put, written, refer, pool_body):
    put(POOL, pool_body(replicas=0))
    written()
    put(SOURCE, source_body(metadataStoreUrl="zk:pulsar-zookeeper.pulsar:2181"))
    refer()
    written()
    assert "since" not in server.status(POOL, "demo")["source"]


@pytest.mark.parametrize(
    ("spec", "expected", "conditions"),
    [
        ({}, "Current", {"Ready": ("True", "Valid")}),
        (
            {"serviceUrl": "http://x:1"},
            "Failed",
            {"Ready": ("False", "InvalidSource"), "Stalled": ("True", "InvalidSource")},
        ),
    ],
)
def test_a_source_says_whether_pools_can_use_it_also_without_any(server, context, put, spec, expected, conditions):
    put(SOURCE, source_body(generation=4, **spec))
    reconcile(context, PoolKey("team", "pulsar"))
    body = server.objects["ReadOnlySource", "pulsar"]
    assert kstatus(body) == expected
    assert {one["type"]: (one["status"], one["reason"]) for one in body["status"]["conditions"]} == conditions
    assert (body["status"]["observedGeneration"], body["status"]["pools"]) == (4, 0)
    if spec:
        assert "ReadOnlySource pulsar: spec.serviceUrl" in body["status"]["conditions"][0]["message"]
    written = server.versions
    reconcile(context, PoolKey("team", "pulsar"))
    assert server.versions == written


def test_an_unchanged_pool_writes_nothing_again(connected, server, written):
    version = server.versions
    written()
    assert server.versions == version


def test_a_missing_source_stops_a_new_pool_only_and_its_creation_is_enough(server, context, put, refer, written):
    refer()
    conditions, store = written()
    assert conditions["Ready"] == ("False", "SourceNotFound")
    assert "Stalled" not in conditions, "it may be applied a moment later"
    assert store is None
    assert put(SOURCE, source_body()) is None
    assert written()[1] == "zk:a:2181,b:2181"


def test_a_deleted_source_hurts_nothing_also_not_in_a_new_process(connected, server, context, refer, written):
    remove(server, context, SOURCE, "pulsar")
    refer(cache={"size": "512Mi"})
    conditions, store = written()
    assert conditions["SourceResolved"] == ("False", "SourceNotFound")
    assert conditions["Ready"] == ("True", "ScaledToZero")
    assert store == "zk:a:2181,b:2181"
    assert "cache-size: 512MiB" in server.objects["ConfigMap", "demo-config"]["data"]["engine.yaml"]
    assert Pool.load(server.objects["ReadOnlyBrokerPool", "demo"]).source.service_url == URLS["serviceUrl"]
    message = next(
        one["message"] for one in server.status(POOL, "demo")["conditions"] if one["type"] == "SourceResolved"
    )
    assert message == (
        "there is no ReadOnlySource pulsar in namespace team; the pool keeps the connection of ReadOnlySource pulsar that it "
        "used last"
    )


def test_a_deleted_pool_still_knows_where_to_clean_up(server, context, put, refer, written):
    put(SOURCE, source_body())
    refer(lookup={"clusterName": "pool"})
    written()
    remove(server, context, SOURCE, "pulsar")
    body = copy.deepcopy(server.objects["ReadOnlyBrokerPool", "demo"])
    body["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    put(POOL, body)
    reconcile(context, DEMO)
    assert Pool.load(context.store.get(POOL, "team", "demo")).source.admin_url == URLS["adminUrl"]


@pytest.mark.parametrize(
    ("name", "uid", "url", "followed"),
    [
        ("other", "second", "zk:x:2181", False),
        ("other", "second", "zk:b:2181/chroot", False),
        ("other", "second", "zk:b:2181,x:2181", True),
        ("other", "second", "oxia://x:6648", True),
        ("pulsar", "made anew", "zk:x:2181", False),
        ("pulsar", "made anew", "zk:a:2181", True),
        ("pulsar", "first", "zk:x:2181", True),
    ],
)
def test_a_pool_stays_at_its_cluster(connected, server, context, put, refer, written, name, uid, url, followed):
    """The rules of the kind have seen each change of the same object, of which the operator may have missed some."""
    remove(server, context, SOURCE, "pulsar")
    put(SOURCE, source_body(name, uid, 2, metadataStoreUrl=url))
    refer(name)
    conditions, store = written()
    assert store == (url if followed else "zk:a:2181,b:2181")
    assert conditions["SourceResolved"] == (("True", "Resolved") if followed else ("False", "OtherCluster"))
    assert conditions["Ready"][0] == "True"


def test_a_pool_does_not_leave_its_cluster_by_a_source_of_its_own(connected, server, refer, written):
    refer(None, source={**URLS, "metadataStoreUrl": "zk:x:2181"})
    conditions, store = written()
    assert store == "zk:a:2181,b:2181"
    assert conditions["SourceResolved"] == ("False", "OtherCluster")
    assert Pool.load(server.objects["ReadOnlyBrokerPool", "demo"]).source.metadata_store_url == "zk:a:2181,b:2181"
    refer(None, source={**URLS, "metadataStoreUrl": "zk:b:2181"})
    conditions, store = written()
    assert store == "zk:b:2181"
    assert "SourceResolved" not in conditions
    assert "name" not in server.status(POOL, "demo")["source"]


@pytest.mark.parametrize("between", [{"name": "typo"}, {"name": "pulsar"}])
@pytest.mark.parametrize("seen", [True, False])
@pytest.mark.parametrize("recorded", [True, False])
def test_a_pool_does_not_leave_its_cluster_in_two_edits(
    server, context, put, refer, written, pool_body, between, seen, recorded
):
    """The rule of spec.source sees no former value after an edit that takes it out of the spec."""
    own = pool_body()["spec"]["source"]
    put(POOL, pool_body(replicas=0))
    _, store = written()
    if not recorded:  # by an earlier operator
        put(POOL, {**pool_body(replicas=0), "status": {}})
    refer(**between)
    if seen:
        written()
    refer(None, source={**own, "metadataStoreUrl": "zk:x:2181"})
    conditions, after = written()
    assert after == store
    if recorded:
        assert conditions["SourceResolved"] == ("False", "OtherCluster")
        assert conditions["Ready"][0] == "True"
    else:
        assert conditions["Ready"] == ("False", "OtherCluster")
    refer(None, source={**own, "serviceUrl": "pulsar://other:6650"})
    conditions, after = written()
    assert (after, conditions["Ready"][0]) == (store, "True")
    assert "SourceResolved" not in conditions
    assert server.status(POOL, "demo")["source"] == {"spec": {**own, "serviceUrl": "pulsar://other:6650"}}


@pytest.mark.parametrize(("url", "followed"), [("zk:x:2181", False), ("zk:pulsar-zookeeper.pulsar:2181", True)])
def test_a_pool_with_a_source_of_its_own_moves_to_a_shared_one_of_its_cluster(
    server, context, put, refer, written, pool_body, url, followed
):
    put(POOL, pool_body(replicas=0))
    _, store = written()
    put(SOURCE, source_body(metadataStoreUrl=url))
    refer()
    conditions, after = written()
    assert after == store, "of brokers that run"
    assert conditions["Ready"][1] == "ScaledToZero"
    assert conditions["SourceResolved"] == (("True", "Resolved") if followed else ("False", "OtherCluster"))


@pytest.mark.parametrize("text", ["- [", "2026-99-99", "[" * 9999, "metadata-store-url: [zk]"])
def test_settings_that_somebody_has_broken_stop_no_upgrade(server, put, refer, written, pool_body, text):
    put(POOL, pool_body(replicas=0))
    _, store = written()
    put(POOL, {**pool_body(replicas=0), "status": {}})
    put(CONFIG_MAP, {**server.objects["ConfigMap", "demo-config"], "data": {"engine.yaml": text}})
    conditions, after = written()
    assert (after, conditions["Ready"][0]) == (store, "True")


def test_the_configuration_of_another_pool_says_nothing(server, context, put, refer, written):
    foreign = {
        "name": "demo-config",
        "namespace": "team",
        "uid": "c",
        "ownerReferences": [{"controller": True, "uid": "o"}],
    }
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": foreign,
        "data": {"engine.yaml": "metadata-store-url: zk:x:1"},
    }
    put(CONFIG_MAP, body)
    put(SOURCE, source_body())
    refer()
    assert written()[0]["Ready"] == ("False", "NameConflict")


def test_an_invalid_source_names_its_field(server, context, put, refer, written):
    put(SOURCE, source_body(adminUrl="pulsar-broker"))
    refer()
    assert written()[0]["Ready"] == ("False", "InvalidSource")
    message = server.status(POOL, "demo")["conditions"][0]["message"]
    assert message.startswith("ReadOnlySource pulsar: spec.adminUrl must be http://HOST:PORT")


def test_a_pool_with_both_is_invalid(server, context, put, refer, written):
    refer(source=URLS)
    put(SOURCE, source_body())
    assert written()[0]["Ready"] == ("False", "InvalidSpec")


def test_a_damaged_record_is_read_anew(server, context, put, refer, written, pool_body):
    put(SOURCE, source_body())
    refer()
    put(
        POOL,
        {
            **server.objects["ReadOnlyBrokerPool", "demo"],
            "status": {"source": {"name": "pulsar", "spec": {"adminUrl": 7}}},
        },
    )
    assert written()[0]["SourceResolved"] == ("True", "Resolved")
    assert server.status(POOL, "demo")["source"]["spec"] == URLS


def test_a_paused_pool_keeps_its_connection(connected, server, context, put):
    body = copy.deepcopy(server.objects["ReadOnlyBrokerPool", "demo"])
    body["metadata"]["annotations"] = {PAUSED_KEY: "true"}
    put(POOL, body)
    put(SOURCE, source_body(generation=2, serviceUrl="pulsar://new:6650"))
    reconcile(context, DEMO)
    assert server.status(POOL, "demo")["source"]["spec"] == URLS


def test_a_pool_that_begins_paused_reads_no_source(server, context, put, refer):
    put(SOURCE, source_body())
    refer()
    body = copy.deepcopy(server.objects["ReadOnlyBrokerPool", "demo"])
    body["metadata"]["annotations"] = {PAUSED_KEY: "true"}
    put(POOL, body)
    reconcile(context, DEMO)
    conditions = {one["type"]: one["reason"] for one in server.status(POOL, "demo")["conditions"]}
    assert conditions == {"Ready": "Paused", "Paused": "Paused"}


def test_the_number_of_pools_falls_when_a_pool_goes_and_is_worth_no_failure(
    connected, server, context, refer, written, monkeypatch
):
    remove(server, context, POOL, "demo")
    reconcile(context, DEMO)
    assert server.status(SOURCE, "pulsar")["pools"] == 0
    refer()
    apply_status = server.apply_status

    def forbidden(manifest):
        if manifest["kind"] == "ReadOnlySource":
            raise KubeError("forbidden", 403)
        return apply_status(manifest)

    monkeypatch.setattr(server, "apply_status", forbidden)
    assert written()[0]["SourceResolved"] == ("True", "Resolved")


def test_a_cluster_without_the_kind_says_what_to_apply(server, context, put, refer, written):
    assert isinstance(context.store, Store)
    context.store.set_unserved([SOURCE])
    refer()
    assert written()[0]["Ready"] == ("False", "SourceNotFound")
    assert server.status(POOL, "demo")["conditions"][0]["message"].endswith("does not serve that kind: apply crds/")
