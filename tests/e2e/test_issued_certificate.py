"""Pools whose certificate cert-manager issues, in a cluster without cert-manager and in one with it."""

import json

import pytest

pytestmark = pytest.mark.nightly

ISSUED = {"tls": {"issuerRef": {"name": "e2e-self-signed"}}}


def has_cert_manager(kubernetes) -> bool:
    return kubernetes.run("get", "crd", "certificates.cert-manager.io").returncode == 0


def test_cert_manager_issues_the_certificate_of_running_brokers(operator, writer, namespace, pool):
    if not has_cert_manager(operator):
        pytest.skip("the cluster has no cert-manager; install it, and restart the operator")
    operator.apply(pool(replicas=1))
    operator.expect("robp", "demo", namespace, {"Ready": ("True", "BrokersReady")}, timeout=120)
    operator.apply(pool(replicas=1, listeners=ISSUED))
    operator.expect("robp", "demo", namespace, {"UpdateHeld": ("True", "WaitsForCertificate")})
    operator.apply(
        {
            "apiVersion": "cert-manager.io/v1",
            "kind": "Issuer",
            "metadata": {"name": "e2e-self-signed", "namespace": namespace},
            "spec": {"selfSigned": {}},
        }
    )
    expected = {"CertificateIssued": ("True", "Issued"), "Ready": ("True", "BrokersReady")}
    operator.expect("robp", "demo", namespace, expected, timeout=180)
    certificate = operator.get("certificate", "demo-listeners", namespace)
    secret = json.loads(operator("get", "secret", certificate["spec"]["secretName"], "-n", namespace, "-o", "json"))
    assert {"tls.crt", "tls.key"} <= set(secret["data"])
    operator.apply(pool(replicas=1))
    operator.expect("robp", "demo", namespace, {"Ready": ("True", "BrokersReady")}, timeout=120)
