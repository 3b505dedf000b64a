"""What running brokers take up without a restart: a renewed certificate, and where they are."""

import json
import ssl

import pytest

from devstack.pulsar.security import Credentials
from tests.e2e.kubernetes import equal

pytestmark = pytest.mark.nightly

LABEL = "pulsar-readonly.test/rack"
SHOWN = "import ssl; print(ssl.get_server_certificate(('127.0.0.1', 6651), timeout=10))"


@pytest.fixture
def rack(operator):
    """A node label that Kubernetes does not copy to pods, on every node."""
    operator("label", "nodes", "--all", f"{LABEL}=r1", "--overwrite")
    yield "r1"
    operator("label", "nodes", "--all", f"{LABEL}-")


def certificate(operator, namespace, made, name):
    pem, key = made.certificate(name)
    name = ("secret", "tls", "demo-tls", "-n", namespace)
    secret = operator("create", *name, "--dry-run=client", "-o", "json", f"--cert={pem}", f"--key={key}")
    operator.apply(json.loads(secret))
    return ssl.PEM_cert_to_DER_cert(pem.read_text())


def test_a_broker_takes_up_its_place_and_a_renewed_certificate(
    operator, writer, namespace, pool, rack, tmp_path, eventually
):
    made = Credentials.make(tmp_path)
    first = certificate(operator, namespace, made, "first")
    listeners = {"plaintext": "BrokersOnly", "tls": {"certificate": {"secretName": "demo-tls"}}}
    operator.apply(pool(replicas=1, listeners=listeners, locality={"nodeLabels": [LABEL]}))
    operator.expect("robp", "demo", namespace, {"Ready": ("True", "BrokersReady")}, timeout=120)

    def broker():
        return operator.get("pod", "demo-0", namespace)

    def shown():
        return ssl.PEM_cert_to_DER_cert(operator("exec", "demo-0", "-n", namespace, "--", "python", "-c", SHOWN))

    def placed():
        assert broker()["metadata"]["annotations"]["pulsar-readonly.io/locality"] == f"/{rack}"
        assert f"locality of this broker: /{rack}" in operator("logs", "demo-0", "-n", namespace)

    eventually(placed, 60)
    before = broker()["metadata"]["uid"]
    assert shown() == first
    ports = operator.get("service", "demo", namespace)["spec"]["ports"]
    assert [port["name"] for port in ports] == ["pulsar-tls", "http"]

    second = certificate(operator, namespace, made, "second")
    assert first != second
    operator(
        "annotate", "pod/demo-0", "-n", namespace, "example.com/look=again"
    )  # its kubelet looks at volumes at once

    eventually(lambda: equal(shown(), second), 120)
    after = broker()
    assert after["metadata"]["uid"] == before
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
