"""A pool whose HTTP port has TLS and a token: kubelet, operator and `kubectl readonly` read it, and nobody else does."""

import base64
import json
import subprocess
import sys

import pytest

from devstack.common.certificates import issue, make_authority

pytestmark = pytest.mark.nightly

TOKEN = "the-token-of-the-port"
READ = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["figures", "tls"], "verbs": ["get"]}
"""The operator's right to read the Secrets, as docs/how-to/pools.md has it."""


def secret(namespace, name, **files):
    data = {key.replace("_", "."): base64.b64encode(value).decode() for key, value in files.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "data": data}


def test_the_operator_and_the_plugin_read_a_port_with_tls_and_a_token(
    operator, writer, namespace, pool, binding, tmp_path
):
    make_authority(tmp_path / "ca.pem", "authority")
    names = [f"DNS:demo.{namespace}.svc.cluster.local", f"DNS:*.demo-headless.{namespace}.svc.cluster.local"]
    certificate, key = issue(
        tmp_path / "ca.pem", tmp_path / "tls.pem", "/CN=demo", usages="digitalSignature", alternatives=names
    )
    files = {
        "tls_crt": certificate.read_bytes(),
        "tls_key": key.read_bytes(),
        "ca_crt": (tmp_path / "ca.pem").read_bytes(),
    }
    tls = {"certificate": {"secretName": "tls"}, "peerTrustCertificates": {"secretName": "tls"}}
    topic = f"persistent://public/default/http-{namespace}"
    operator.grant(namespace, "figures", READ)
    operator.apply(
        secret(namespace, "tls", **files),
        secret(namespace, "figures", token=TOKEN.encode()),
        pool(replicas=2, listeners={"tls": tls}, http={"tls": True, "tokenSecretRef": {"name": "figures"}}),
        binding("topic", topic),
    )
    held = {"Ready": ("True", "BrokersReady"), "LookupConfigured": ("True", "Held")}
    operator.expect("robp", "demo", namespace, held, timeout=180)
    options = ("status", "demo", "-n", namespace, "-o", "json")
    command = [sys.executable, "-m", "readonly_operator.kubectl.command", *options]
    environment = {"KUBECONFIG": operator.kubeconfig, "KUBECTL": operator._kubectl, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert done.returncode == 0, done
    found = json.loads(done.stdout)
    text = json.dumps(found)
    assert TOKEN not in text
    assert "401" not in text, text
    assert text.count(f"pulsar://demo-0.demo-headless.{namespace}") > 0, text
    proxy = f"/api/v1/namespaces/{namespace}/pods/https:demo-0:8080/proxy"
    assert operator("get", "--raw", f"{proxy}/readyz") == "ok\n"
    refused = operator.run("get", "--raw", f"{proxy}/metrics")
    assert "asked for the client to provide credentials" in refused.stderr, refused
