"""Pools that share a ReadOnlySource: changes of it, and another cluster."""

import pytest

from tests.e2e.conftest import SOURCE
from tests.support.yaml_documents import load_yaml

RESOLVED = {"SourceResolved": ("True", "Resolved")}


def source_body(namespace, name="pulsar", spec=SOURCE):
    return {
        "apiVersion": "pulsar-readonly.io/v1beta1",
        "kind": "ReadOnlySource",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


@pytest.fixture
def shared(namespace, pool):
    """Makes a pool that names a ReadOnlySource."""

    def make(name="demo", source="pulsar", **spec):
        body = pool(name, **spec)
        del body["spec"]["source"]
        body["spec"]["sourceRef"] = {"name": source}
        return body

    return make


def settings(operator, namespace, name="demo"):
    return load_yaml(operator.get("configmap", f"{name}-config", namespace)["data"]["engine.yaml"])


def test_brokers_serve_with_a_shared_source(operator, writer, namespace, shared):
    operator.apply(shared(replicas=1))
    operator.expect("robp", "demo", namespace, {"Ready": ("False", "SourceNotFound")})
    operator.apply(source_body(namespace))
    expected = {**RESOLVED, "Ready": ("True", "BrokersReady"), "SourceReachable": ("True", "Answers")}
    operator.expect("robp", "demo", namespace, expected, timeout=120)


@pytest.mark.nightly
def test_a_change_reaches_all_pools(operator, namespace, shared, eventually):
    operator.apply(source_body(namespace), shared("one", replicas=0), shared("two", replicas=0))
    for name in ("one", "two"):
        operator.expect("robp", name, namespace, RESOLVED)
    changed = SOURCE["serviceUrl"] + ",pulsar-broker-1:6650"
    operator.apply(source_body(namespace, spec={**SOURCE, "serviceUrl": changed}))

    def followed():
        assert {settings(operator, namespace, name)["service-url"] for name in ("one", "two")} == {changed}

    eventually(followed, 40)  # the pools roll in turn
    eventually(lambda: _assert_pools(operator, namespace, 2), 15)
    operator("delete", "robp", "two", "-n", namespace)
    eventually(lambda: _assert_pools(operator, namespace, 1), 15)


def _assert_pools(operator, namespace, count):
    assert operator.get("ros", "pulsar", namespace)["status"]["pools"] == count
