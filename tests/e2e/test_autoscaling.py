"""The HorizontalPodAutoscaler decides by the connections of brokers, which a small server of custom metrics gives it."""

import base64
import json
from pathlib import Path

import pytest

from devstack.common import certificates
from tests.e2e.kubernetes import client_pod

pytestmark = pytest.mark.nightly

PROGRAM = Path(__file__).parent / "metrics_adapter_program.py"
API = "v1beta2.custom.metrics.k8s.io"
READY = {"Ready": ("True", "BrokersReady")}
CLIENTS = """
import sys, time, pulsar
clients = [pulsar.Client(sys.argv[1]) for _ in range(8)]
consumers = [client.subscribe(sys.argv[2], f"autoscaling-{number}") for number, client in enumerate(clients)]
time.sleep(3600)
"""


@pytest.fixture
def custom_metrics(operator, client_image, namespace, tmp_path, eventually):
    """The API server gets custom metrics from a pod in the test's namespace."""
    authority = tmp_path / "ca.crt"
    certificates.make_authority(authority, "custom metrics")
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    host = f"custom-metrics.{namespace}.svc"
    certificates.issue(authority, certificate, f"/CN={host}", usages="digitalSignature", alternatives=[f"DNS:{host}"])
    operator.run("delete", "apiservice", API, "--ignore-not-found")  # of a run that was interrupted
    data = {path.name: base64.b64encode(path.read_bytes()).decode() for path in (certificate, key)}
    name = {"name": "custom-metrics", "namespace": namespace}
    operator.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": name, "type": "kubernetes.io/tls", "data": data},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": name,
            "spec": {"selector": {"app": "custom-metrics"}, "ports": [{"port": 443, "targetPort": 8443}]},
        },
        client_pod(
            namespace,
            "custom-metrics",
            *("-c", PROGRAM.read_text(), "/tls/tls.crt", "/tls/tls.key"),
            volumes=[{"name": "tls", "secret": {"secretName": "custom-metrics"}}],
            mounts=[{"name": "tls", "mountPath": "/tls"}],
        ),
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": API},
            "spec": {
                "group": "custom.metrics.k8s.io",
                "version": "v1beta2",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "service": {**name, "port": 443},
                "caBundle": base64.b64encode(authority.read_bytes()).decode(),
            },
        },
    )

    def available():
        conditions = json.loads(operator("get", "apiservice", API, "-o", "json"))["status"]["conditions"]
        assert [one["status"] for one in conditions if one["type"] == "Available"] == ["True"], conditions

    try:
        eventually(available, 120)
        yield
    finally:  # a group that does not answer holds up the deletion of every namespace
        operator("delete", "apiservice", API)


def test_an_autoscaler_without_metrics_is_named_by_the_pool(operator, writer, namespace, pool, eventually):
    operator.apply(pool(replicas=1, autoscaling={"maxReplicas": 3, "targetConnections": 3}))
    operator.expect("robp", "demo", namespace, READY, timeout=120)

    def named():
        said = operator.condition("robp", "demo", namespace, "Progressing")
        assert (said["status"], said["reason"]) == ("False", "Settled")
        assert "but the HorizontalPodAutoscaler cannot decide: FailedGetPodsMetric: " in said["message"]

    eventually(named, 90)


def test_the_pool_follows_its_connections(custom_metrics, operator, writer, namespace, pool, binding, eventually):
    topic = f"persistent://public/default/autoscaling-{namespace}"
    scaling = {"minReplicas": 1, "maxReplicas": 3, "targetConnections": 3, "scaleDownStabilizationSeconds": 0}
    operator.apply(pool(replicas=1, resources={}, autoscaling=scaling), binding("topic", topic))
    operator.expect("robp", "demo", namespace, READY, timeout=120)

    def decides():
        conditions = operator.get("hpa", "demo", namespace)["status"]["conditions"]
        assert [one["status"] for one in conditions if one["type"] == "ScalingActive"] == ["True"], conditions

    eventually(decides, 90)
    url = f"pulsar://demo.{namespace}.svc.cluster.local:6650"
    operator.apply(client_pod(namespace, "clients", "-c", CLIENTS, url, topic))

    def replicas(least, most):
        assert least <= operator.get("robp", "demo", namespace)["spec"]["replicas"] <= most

    eventually(lambda: replicas(2, 3), 180)
    operator.expect("robp", "demo", namespace, READY, timeout=180)
    operator("delete", "pod", "clients", "-n", namespace)
    eventually(lambda: replicas(1, 1), 240)
