"""What surrounds a pool's brokers: made where it is asked for, repaired, removed, and shown where the API server refuses it.

Replicas are 0: none of this needs brokers.
"""

import contextlib
import json

import pytest
from readonly_operator.api.pool import Pool
from readonly_operator.kube.apply import covers
from readonly_operator.model.children import children
from readonly_operator.model.lookup import LookupConfig
from readonly_operator.settings import Settings

SCALED_TO_ZERO = {"Ready": ("True", "ScaledToZero")}
EVERYTHING = {
    "replicas": 0,
    "resources": {"requests": {"cpu": "0.5", "memory": "1024Mi"}},
    "listeners": {
        "tls": {"certificate": {"secretName": "demo-tls"}, "trustCertificates": {"configMapName": "clients"}},
        "service": {
            "type": "NodePort",
            "labels": {"team": "data"},
            "annotations": {"example.com/team": "data"},
            "externalTrafficPolicy": "Local",
        },
        "ipFamilyPolicy": "PreferDualStack",
    },
    "inheritedMetadata": {"labels": {"tier": "all"}, "annotations": {"example.com/cost": "42"}},
    "serviceAccountTemplate": {
        "metadata": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/reader"}}
    },
    "tieredStorage": {"credentials": {"name": "s3"}},
    "limits": {"maxConnections": 100, "dispatchRatePerBroker": {"messages": 5000}},
    "lookup": {"unbound": "Reject"},
    "autoscaling": {"minReplicas": 2, "maxReplicas": 3},
    "networkPolicy": {"clients": [{"namespaceSelector": {"matchLabels": {"pulsar": "clients"}}}]},
    "monitoring": {"podMonitor": {}},
    "podTemplate": {
        "metadata": {"labels": {"team": "data"}},
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "noisy"}}}
                ]
            }
        },
        "env": [{"name": "TZ", "value": "Europe/Berlin"}],
        "schedulerName": "packing",
        "dnsPolicy": "None",
        "dnsConfig": {
            "nameservers": ["10.0.0.10"],
            "searches": ["pulsar.example.com"],
            "options": [{"name": "ndots", "value": "2"}, {"name": "single-request"}],
        },
        "hostAliases": [{"ip": "10.0.0.20", "hostnames": ["zk-0.example.com"]}],
        "volumes": [
            {"name": "scratch", "emptyDir": {"sizeLimit": "1024Mi"}},
            {
                "name": "together",
                "projected": {
                    "sources": [
                        {"configMap": {"name": "ca", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                        {"secret": {"name": "keys", "optional": True}},
                        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                    ]
                },
            },
            {
                "name": "vault",
                "csi": {
                    "driver": "secrets-store.csi.k8s.io",
                    "readOnly": True,
                    "volumeAttributes": {"secretProviderClass": "orders"},
                    "nodePublishSecretRef": {"name": "vault-login"},
                },
            },
        ],
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    },
}
OPTIONAL = ("poddisruptionbudget", "horizontalpodautoscaler", "networkpolicy")
DRIFT = {
    "poddisruptionbudget": {"spec": {"maxUnavailable": 7}},
    "horizontalpodautoscaler": {"spec": {"maxReplicas": 9}},
    "networkpolicy": {"spec": {"ingress": []}},
    "service": {"spec": {"type": "ClusterIP"}},
    "statefulset": {"spec": {"replicas": 1}},
    "configmap": {"data": {"engine.yaml": "listen: nowhere"}},
    "serviceaccount": {"automountServiceAccountToken": True},
}
"""What somebody might do to each kind of child, as a merge patch."""
CHILD = {"configmap": "demo-config"}
"""Names of children that do not have the pool's."""


def test_every_optional_child_comes_and_goes_with_the_spec(operator, namespace, pool, eventually):
    operator.apply(pool(**EVERYTHING))
    said = operator.expect(
        "robp", "demo", namespace, {**SCALED_TO_ZERO, "Progressing": ("False", "Settled")}, timeout=60
    )
    for kind in OPTIONAL:
        assert operator.get(kind, "demo", namespace)["metadata"]["ownerReferences"][0]["name"] == "demo"
    if operator.run("get", "podmonitors.monitoring.coreos.com", "-n", namespace).returncode:
        assert "no PodMonitor is created" in said["Progressing"]
    template = operator.get("statefulset", "demo", namespace)["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == "data"
    assert template["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}

    operator.apply(pool(replicas=0, disruptionBudget={"enabled": False}))

    def is_there(kind):
        with contextlib.suppress(LookupError):
            return bool(operator.get(kind, "demo", namespace))
        return False

    def gone():
        assert [kind for kind in OPTIONAL if is_there(kind)] == []
        assert operator.get("service", "demo", namespace)["spec"]["type"] == "ClusterIP"

    eventually(gone)


@pytest.mark.nightly
def test_what_is_wanted_is_written_as_the_api_server_writes_it(operator, namespace, pool):
    """Else it would look different for ever, and be applied again and again."""
    operator.apply(pool(**EVERYTHING))
    operator.expect("robp", "demo", namespace, SCALED_TO_ZERO, timeout=60)
    container = operator.get("statefulset", "demo", namespace)["spec"]["template"]["spec"]["containers"][0]
    wanted = children(
        Pool.load(operator.get("robp", "demo", namespace)),
        LookupConfig.of([]),
        Settings(engine_image=container["image"], own_namespace="pulsar-readonly-system"),
    )
    for one in wanted:
        if one["kind"] != "PodMonitor":
            assert covers(operator.get(one["kind"], one["metadata"]["name"], namespace), one), one["kind"]


@pytest.mark.nightly
def test_what_somebody_changed_by_hand_is_back(operator, namespace, pool, eventually):
    def found(kind):
        body = operator.get(kind, CHILD.get(kind, "demo"), namespace)
        return {
            field: {key: body[field].get(key) for key in value} if isinstance(value, dict) else body[field]
            for field, value in DRIFT[kind].items()
        }

    operator.apply(pool(**EVERYTHING))
    operator.expect("robp", "demo", namespace, SCALED_TO_ZERO, timeout=60)
    wanted = {kind: found(kind) for kind in DRIFT}
    for kind, patch in DRIFT.items():
        operator("patch", kind, CHILD.get(kind, "demo"), "-n", namespace, "--type=merge", "-p", json.dumps(patch))
    port = {"spec": {"ports": [{"name": "other", "port": 9}]}}  # one more: a strategic merge patch adds it
    operator("patch", "service", "demo-headless", "-n", namespace, "-p", json.dumps(port))
    operator("set", "env", "statefulset/demo", "-n", namespace, "MINE=yes")

    def back():
        assert {kind: found(kind) for kind in DRIFT} == wanted
        ports = operator.get("service", "demo-headless", namespace)["spec"]["ports"]
        assert [port["name"] for port in ports] == ["pulsar", "pulsar-tls", "http"]
        pod = operator.get("statefulset", "demo", namespace)["spec"]["template"]["spec"]
        assert "MINE" not in [one["name"] for one in pod["containers"][0]["env"]]

    eventually(back)


def test_what_somebody_deleted_is_back(operator, namespace, pool, eventually):
    def uids() -> dict[str, str]:
        found = operator.list(",".join(DRIFT), namespace, "pulsar-readonly.io/pool=demo")
        return {f"{one['kind']}/{one['metadata']['name']}": one["metadata"]["uid"] for one in found}

    operator.apply(pool(**EVERYTHING))
    operator.expect("robp", "demo", namespace, SCALED_TO_ZERO, timeout=60)
    before = uids()
    assert len(before) == len(DRIFT) + 2, "two ConfigMaps, two Services, and one of each other kind"
    operator("delete", *before, "-n", namespace)

    def back():
        after = uids()
        assert set(after) == set(before)
        assert not set(after.values()) & set(before.values())

    eventually(back)


@pytest.mark.nightly
def test_a_child_that_the_api_server_refuses_is_reported(operator, namespace, pool):
    operator.apply(pool(replicas=0, podTemplate={"metadata": {"labels": {"bad key!": "x"}}}))
    said = operator.expect("robp", "demo", namespace, {"Ready": ("False", "Refused")})
    assert 'StatefulSet.apps "demo" is invalid: spec.template.labels: Invalid value: "bad key!"' in said["Ready"]
    operator.apply(pool(replicas=0, podTemplate={"metadata": {"labels": {"good-key": "x"}}}))
    operator.expect("robp", "demo", namespace, SCALED_TO_ZERO)
