"""Pools after their first day: orphans, restored objects, held brokers, and bindings that are large."""

from typing import Any

import pytest

from tests.e2e.kubernetes import Kubernetes, equal

EMPTY = {"Ready": ("True", "ScaledToZero")}
SETTLED = {"Ready": ("True", "BrokersReady"), "Progressing": ("False", "Settled")}
CHILDREN = "serviceaccount,configmap,service,statefulset,poddisruptionbudget"
POOL_LABEL = "pulsar-readonly.io/pool=demo"
OPENSHIFT_USER = 1000710000
"""A user as OpenShift's restricted-v2 assigns it: it is in no image."""


def uids(kubernetes: Kubernetes, namespace: str) -> dict[str, str]:
    """The uids of a pool's children."""
    found = kubernetes.list(CHILDREN, namespace, POOL_LABEL)
    return {f"{one['kind']}/{one['metadata']['name']}": one["metadata"]["uid"] for one in found}


def brokers(kubernetes: Kubernetes, namespace: str) -> dict[str, dict[str, Any]]:
    """The pods by name."""
    return {one["metadata"]["name"]: one for one in kubernetes.list("pods", namespace, POOL_LABEL)}


def test_a_new_pool_adopts_what_an_orphaned_one_left_and_nothing_of_others(operator, namespace, pool, eventually):
    operator.apply(pool(replicas=0))
    operator.expect("robp", "demo", namespace, EMPTY)
    former = operator.get("robp", "demo", namespace)["metadata"]["uid"]
    before = uids(operator, namespace)
    operator("delete", "robp/demo", "-n", namespace, "--cascade=orphan")

    def orphaned():
        for one in operator.list(CHILDREN, namespace, POOL_LABEL):
            owners = [owner["uid"] for owner in one["metadata"].get("ownerReferences", [])]
            assert former not in owners, one["metadata"]["name"]

    eventually(orphaned, 60)
    assert uids(operator, namespace) == before
    # Somebody's object with the same marks, which the operator never applied.
    marks = operator.get("service", "demo", namespace)["metadata"]
    stranger = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "strangers",
            "namespace": namespace,
            "labels": marks["labels"],
            "annotations": {"pulsar-readonly.io/applied-hash": "0"},
        },
        "data": {"mine": "yes"},
    }
    operator.apply(stranger)
    operator.apply(pool(replicas=0))
    operator.expect("robp", "demo", namespace, EMPTY, timeout=60)
    uid = operator.get("robp", "demo", namespace)["metadata"]["uid"]
    assert uid != former

    def adopted():
        after = {name: one for name, one in uids(operator, namespace).items() if name != "ConfigMap/strangers"}
        assert after == before
        for one in operator.list(CHILDREN, namespace, POOL_LABEL):
            if one["metadata"]["name"] != "strangers":
                assert [owner["uid"] for owner in one["metadata"]["ownerReferences"]] == [uid], one["metadata"]["name"]

    eventually(adopted, 60)
    kept = operator.get("configmap", "strangers", namespace)
    assert kept["data"] == {"mine": "yes"}
    assert not kept["metadata"].get("ownerReferences")


@pytest.mark.nightly
def test_objects_that_were_deleted_and_restored_with_older_versions_are_followed(operator, namespace, pool, eventually):
    """As a restore from a backup does: the same names, other uids and versions."""
    operator.apply(pool(replicas=0))
    operator.expect("robp", "demo", namespace, EMPTY)
    backup = operator.get("robp", "demo", namespace)
    operator("delete", "robp/demo", "-n", namespace)
    eventually(lambda: equal(uids(operator, namespace), {}), 60)
    for field in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
        backup["metadata"].pop(field, None)
    backup.pop("status")
    operator.apply(backup)
    operator.expect("robp", "demo", namespace, EMPTY, timeout=60)
    assert len(uids(operator, namespace)) > 4


@pytest.mark.nightly
def test_held_brokers_stay_and_any_user_runs_them(operator, writer, namespace, pool, binding, eventually):
    user = {"securityContext": {"runAsUser": OPENSHIFT_USER, "fsGroup": OPENSHIFT_USER}}
    operator.apply(pool(replicas=1, podTemplate=user), binding("all", f"persistent://public/default/{namespace}-.*"))
    operator.expect("robp", "demo", namespace, SETTLED, timeout=180)
    before = brokers(operator, namespace)
    assert before["demo-0"]["spec"]["securityContext"]["runAsUser"] == OPENSHIFT_USER
    held = {"updateStrategy": {"hold": True}, "podTemplate": user}
    changed = {"requests": {"cpu": "30m", "memory": "128Mi"}}
    operator.apply(pool(replicas=1, **held))
    operator.expect("robp", "demo", namespace, {"UpdateHeld": ("True", "Held")}, timeout=60)
    operator.apply(pool(replicas=1, resources=changed, **held))

    def waits():
        said = operator.condition("robp", "demo", namespace, "UpdateHeld")
        assert "a newer pod template waits" in said["message"], said

    eventually(waits, 60)
    # A broker that goes comes back as it was.
    operator("delete", "pod/demo-0", "-n", namespace, timeout=180)

    def as_before():
        pod = brokers(operator, namespace)["demo-0"]
        assert pod["metadata"]["uid"] != before["demo-0"]["metadata"]["uid"]
        assert pod["status"]["containerStatuses"][0]["ready"]
        assert pod["spec"]["containers"] == before["demo-0"]["spec"]["containers"]

    eventually(as_before, 120)
    operator.apply(pool(replicas=1, resources=changed, podTemplate=user))
    operator.expect("robp", "demo", namespace, SETTLED, timeout=180)
    assert brokers(operator, namespace)["demo-0"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "30m"
    conditions = {one["type"] for one in operator.get("robp", "demo", namespace)["status"]["conditions"]}
    assert "UpdateHeld" not in conditions
