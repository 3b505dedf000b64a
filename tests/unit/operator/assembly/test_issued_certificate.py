"""Pools whose certificate cert-manager issues: brokers wait for it, and keep what they have until then."""

import copy

import pytest
from readonly_operator.assembly.reconcile import reconcile
from readonly_operator.kube.kinds import CERTIFICATE, POD, POOL, STATEFUL_SET
from readonly_operator.kube.names import PoolKey
from readonly_operator.model.hold import HELD_PARTITION

DEMO = PoolKey("team", "demo")
BY_HAND = {"certificate": {"secretName": "mine"}}
ISSUED = {"issuerRef": {"name": "ca"}}
READY = {"revision": 1, "conditions": [{"type": "Ready", "status": "True"}]}


@pytest.fixture
def write(server, context, put, pool_body):
    """A user writes the pool with this TLS, and the operator reconciles it; returns the conditions by type."""
    server.refuses = False

    def make(tls, **spec):
        known = server.objects.get(("ReadOnlyBrokerPool", "demo"))
        body = copy.deepcopy(known or pool_body())
        body["spec"] |= {"listeners": {"tls": tls}, **spec}
        body["metadata"]["generation"] += 1
        put(POOL, body)
        return again()

    def again():
        reconcile(context, DEMO)
        return {one["type"]: one for one in server.status(POOL, "demo")["conditions"]}

    make.again = again
    return make


@pytest.fixture
def brokers(server, context):
    """The StatefulSet's controller: it has that many pods of the newest template."""

    def report(updated, update="new", current="old"):
        body = server.objects["StatefulSet", "demo"]
        revisions = {"updateRevision": update, "currentRevision": current}
        status = {"replicas": 2, "readyReplicas": 2, "updatedReplicas": updated, **revisions}
        context.store.put(STATEFUL_SET, server.add({**body, "status": status}))

    return report


@pytest.fixture
def running(context):
    """A broker whose containers run, with this Secret."""

    def report(secret, phase="Running", version="1"):
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "demo", "uid": "demo", "controller": True}
        metadata = {"name": "demo-0", "namespace": "team", "uid": "pod", "resourceVersion": version}
        labels = DEMO.selector()
        volumes = [{"name": "tls", "secret": {"secretName": secret}}]
        body = {"metadata": {**metadata, "labels": labels, "ownerReferences": [owner]}, "spec": {"volumes": volumes}}
        context.store.put(POD, {"apiVersion": "v1", "kind": "Pod", **body, "status": {"phase": phase}})

    return report


def issue(server, context, **status):
    body = server.objects["Certificate", "demo-listeners"]
    context.store.put(CERTIFICATE, server.add({**body, "status": status}))


def partition(server):
    return server.objects["StatefulSet", "demo"]["spec"]["updateStrategy"].get("rollingUpdate", {}).get("partition", 0)


def secrets(server):
    volumes = server.objects["StatefulSet", "demo"]["spec"]["template"]["spec"]["volumes"]
    return [one["secret"]["secretName"] for one in volumes if "secret" in one]


def reason(conditions, kind):
    return conditions[kind]["status"], conditions[kind]["reason"]


def test_a_new_pool_gets_its_objects_at_once_and_says_what_it_waits_for(server, context, write):
    conditions = write(ISSUED)
    assert reason(conditions, "CertificateIssued") == ("False", "NotIssued")
    assert "UpdateHeld" not in conditions
    assert secrets(server) == ["demo-listeners-uid-of-d"]
    assert partition(server) != HELD_PARTITION
    issue(server, context, conditions=[{"type": "Ready", "status": "False", "message": "issuer ca not found"}])
    message = write.again()["CertificateIssued"]["message"]
    assert message == "Certificate demo-listeners for Secret demo-listeners-uid-of-d: issuer ca not found"
    issue(server, context, **READY)
    assert reason(write.again(), "CertificateIssued") == ("True", "Issued")


def test_running_brokers_are_replaced_when_the_certificate_is_there(server, context, write, brokers):
    assert "CertificateIssued" not in write(BY_HAND)
    brokers(2, "old", "old")
    engine = server.objects["ConfigMap", "demo-config"]["data"]
    conditions = write(ISSUED)
    assert reason(conditions, "UpdateHeld") == ("True", "WaitsForCertificate")
    assert partition(server) == HELD_PARTITION
    assert server.objects["ConfigMap", "demo-config"]["data"] == engine
    brokers(0)
    assert reason(write.again(), "UpdateHeld") == ("True", "WaitsForCertificate"), "in a new process, too"
    assert partition(server) == HELD_PARTITION
    issue(server, context, **READY)
    assert "UpdateHeld" not in write.again()
    assert partition(server) != HELD_PARTITION


def test_a_renewal_that_fails_holds_nothing_back(server, context, write, brokers, running):
    write(ISSUED)
    issue(server, context, revision=3, conditions=[{"type": "Ready", "status": "False", "message": "expired"}])
    brokers(2, "old", "old")
    running("demo-listeners-uid-of-d")
    conditions = write(ISSUED, logLevel="debug")
    assert reason(conditions, "CertificateIssued") == ("False", "NotIssued")
    assert "UpdateHeld" not in conditions


def test_another_secret_is_waited_for_like_the_first(server, context, write, brokers, running):
    """The Certificate keeps its revision and, until cert-manager has seen the change, its condition."""
    write(ISSUED)
    issue(server, context, **READY)
    brokers(2, "old", "old")
    running("demo-listeners-uid-of-d")
    renamed = {**ISSUED, "secretName": "mine"}
    conditions = write(renamed)
    assert server.objects["Certificate", "demo-listeners"]["spec"]["secretName"] == "mine"
    assert reason(conditions, "UpdateHeld") == ("True", "WaitsForCertificate")
    assert partition(server) == HELD_PARTITION
    brokers(0)
    generation = {"generation": 2}
    server.objects["Certificate", "demo-listeners"]["metadata"] |= generation
    stale = {**READY["conditions"][0], "observedGeneration": 1}
    issue(server, context, revision=1, conditions=[stale])
    conditions = write.again()
    assert reason(conditions, "CertificateIssued") == ("False", "NotIssued"), "of the Secret before"
    assert conditions["CertificateIssued"]["message"].endswith("for Secret mine: cert-manager has not answered yet")
    assert reason(conditions, "UpdateHeld") == ("True", "WaitsForCertificate")
    running("mine", "Pending", "2")
    assert "UpdateHeld" in write.again(), "a pod that waits for the Secret proves nothing"
    issue(server, context, revision=1, conditions=[{**stale, "observedGeneration": 2}])
    conditions = write.again()
    assert reason(conditions, "CertificateIssued") == ("True", "Issued")
    assert "UpdateHeld" not in conditions
    assert partition(server) != HELD_PARTITION


def test_a_pool_without_brokers_waits_for_nothing(server, context, write, brokers):
    write(BY_HAND)
    body = server.objects["StatefulSet", "demo"]
    context.store.put(STATEFUL_SET, server.add({**body, "status": {"replicas": 0}}))
    assert "UpdateHeld" not in write(ISSUED)
    assert partition(server) != HELD_PARTITION


def test_without_cert_manager_all_else_works(server, context, write, brokers):
    write(BY_HAND)
    brokers(2, "old", "old")
    context.store.set_unserved([CERTIFICATE])
    conditions = write(ISSUED, replicas=3)
    assert reason(conditions, "CertificateIssued") == ("False", "CertManagerNotFound")
    assert reason(conditions, "UpdateHeld") == ("True", "WaitsForCertificate")
    assert server.objects["StatefulSet", "demo"]["spec"]["replicas"] == 3
    assert ("Certificate", "demo-listeners") not in server.objects
    conditions = write(BY_HAND)
    assert not {"CertificateIssued", "UpdateHeld"} & set(conditions)


def test_a_certificate_is_deleted_when_no_broker_needs_it(server, write, brokers):
    write(ISSUED)
    brokers(2, "old", "old")
    write(BY_HAND, updateStrategy={"hold": True})
    assert "demo-listeners" not in server.deleted, "brokers still use it, and it must be renewed"
    brokers(0)
    write.again()
    assert "demo-listeners" not in server.deleted
    write(BY_HAND, updateStrategy={})
    brokers(2, "new", "new")
    write.again()
    assert "demo-listeners" in server.deleted


def test_a_status_of_before_the_change_does_not_delete_the_certificate(server, context, write, brokers):
    """The operator reconciles again before the controller of StatefulSets has seen the new template."""
    write(ISSUED)
    brokers(2, "old", "old")
    write(BY_HAND)
    body = copy.deepcopy(server.objects["StatefulSet", "demo"])
    body["metadata"]["generation"] = 2
    revisions = {"updateRevision": "old", "currentRevision": "old", "observedGeneration": 1}
    context.store.put(STATEFUL_SET, server.add({**body, "status": {"replicas": 2, "updatedReplicas": 2, **revisions}}))
    write.again()
    assert "demo-listeners" not in server.deleted


def test_a_certificate_of_somebody_else_is_left_alone(server, write):
    foreign = {"name": "demo-listeners", "namespace": "team", "ownerReferences": [{"controller": True, "uid": "other"}]}
    server.add(
        {"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": foreign, "spec": {"secretName": "x"}}
    )
    assert reason(write(ISSUED), "Ready") == ("False", "NameConflict")
    assert server.objects["Certificate", "demo-listeners"]["spec"] == {"secretName": "x"}
