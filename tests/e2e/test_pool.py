"""A pool becomes objects, stays what it should be, and scales."""

import pytest

from tests.e2e.kubernetes import equal

CHILDREN = "serviceaccount,configmap,service,statefulset,pods"
POOL_LABEL = "pulsar-readonly.io/pool=demo"


def names(kubernetes, namespace) -> set[str]:
    return {f"{one['kind']}/{one['metadata']['name']}" for one in kubernetes.list(CHILDREN, namespace, POOL_LABEL)}


def test_a_pool_becomes_ready_brokers(operator, writer, namespace, pool):
    operator.apply(pool())
    messages = operator.expect(
        "robp",
        "demo",
        namespace,
        {
            "Ready": ("True", "BrokersReady"),
            "Progressing": ("False", "Settled"),
            "LookupConfigured": ("True", "Held"),
            "SourceReachable": ("True", "Answers"),
            "ExplicitLac": ("True", "On"),
        },
        timeout=120,
    )
    assert messages["Ready"] == "2 of 2 brokers ready"
    assert names(operator, namespace) == {
        *("ServiceAccount/demo", "ConfigMap/demo-config", "ConfigMap/demo-bindings", "Service/demo"),
        *("Service/demo-headless", "StatefulSet/demo", "Pod/demo-0", "Pod/demo-1"),
    }
    status = operator.get("robp", "demo", namespace)["status"]
    assert (status["replicas"], status["readyReplicas"], status["bindings"]) == (2, 2, 0)
    assert "finalizers" not in operator.get("robp", "demo", namespace)["metadata"]
    for kind in ("robp", "rotb", "ros"):
        operator("get", kind, "-n", namespace, "-o", "wide")


def test_brokers_run_restricted(operator, writer, namespace, pool):
    operator("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    operator.apply(pool(replicas=1))
    operator.expect("robp", "demo", namespace, {"Ready": ("True", "BrokersReady")}, timeout=120)
    assert operator.get("pod", "demo-0", namespace)["spec"]["automountServiceAccountToken"] is False


@pytest.mark.nightly
def test_labels_of_others_are_left_alone(operator, namespace, pool, eventually):
    operator.apply(pool(replicas=0))
    operator.expect("robp", "demo", namespace, {"Ready": ("True", "ScaledToZero")})
    operator("label", "service", "demo", "-n", namespace, "team=shop")
    operator("delete", "configmap", "demo-config", "-n", namespace)
    eventually(lambda: operator.get("configmap", "demo-config", namespace))
    assert operator.get("service", "demo", namespace)["metadata"]["labels"]["team"] == "shop"


def test_a_name_that_is_taken_is_not_taken_over(operator, namespace, pool):
    operator("create", "configmap", "demo-config", "-n", namespace, "--from-literal=mine=yes")
    operator.apply(pool(replicas=0))
    message = operator.expect("robp", "demo", namespace, {"Ready": ("False", "NameConflict")})["Ready"]
    assert message.startswith("ConfigMap demo-config exists and does not belong to this pool")
    assert operator.get("configmap", "demo-config", namespace)["data"] == {"mine": "yes"}
    operator("delete", "configmap", "demo-config", "-n", namespace)
    operator.expect("robp", "demo", namespace, {"Ready": ("True", "ScaledToZero")}, timeout=60)


def test_kubectl_scale(operator, writer, namespace, pool, eventually):
    operator.apply(pool(replicas=0))
    operator.expect("robp", "demo", namespace, {"Ready": ("True", "ScaledToZero")})
    operator("scale", "robp/demo", "--replicas=1", "-n", namespace)
    operator.expect("robp", "demo", namespace, {"Ready": ("True", "BrokersReady")}, timeout=120)
    scale = operator(
        "get", "--raw", f"/apis/pulsar-readonly.io/v1beta1/namespaces/{namespace}/readonlybrokerpools/demo/scale"
    )
    assert '"replicas":1' in scale
    assert f'"selector":"{POOL_LABEL}"' in scale
    operator("scale", "robp/demo", "--replicas=0", "-n", namespace)

    eventually(lambda: equal(operator.list("pods", namespace, POOL_LABEL), []), 60)
    operator.expect("robp", "demo", namespace, {"Ready": ("True", "ScaledToZero")})


@pytest.mark.nightly
def test_why_a_broker_does_not_start_is_said(operator, namespace, pool, eventually):
    operator.apply(pool(replicas=1, image="localhost/no-such-image:1", imagePullPolicy="Never"))

    def said():
        condition = operator.condition("robp", "demo", namespace, "Ready")
        assert (condition["status"], condition["reason"]) == ("False", "BrokersNotReady")
        assert condition["message"].startswith("0 of 1 brokers ready; demo-0: ErrImageNeverPull")

    eventually(said)
    operator.expect("robp", "demo", namespace, {"LookupConfigured": ("Unknown", "BrokersUnreachable")})


@pytest.mark.nightly
def test_a_broker_that_gives_up_is_quoted(operator, namespace, pool, eventually):
    body = pool(replicas=1)
    body["spec"]["source"]["metadataStoreUrl"] = "zk:127.0.0.1:9"
    operator.apply(body)

    def quoted():
        message = operator.condition("robp", "demo", namespace, "Ready")["message"]
        assert "no ZooKeeper answers at 127.0.0.1:9" in message, message

    eventually(quoted, 60)
    operator.expect("robp", "demo", namespace, {"SourceReachable": ("False", "Unreachable")})
