"""The status page of a pool's brokers, as `kubectl` reaches it."""

import json

import pytest
from readonly_engine.http.status.style import CSS

pytestmark = pytest.mark.nightly

READY = {"Ready": ("True", "BrokersReady")}


def test_each_broker_shows_itself_and_the_pool(operator, writer, namespace, pool):
    operator.apply(pool(replicas=2))
    operator.expect("robp", "demo", namespace, READY, timeout=120)
    for number in range(2):
        base = f"/api/v1/namespaces/{namespace}/pods/demo-{number}:8080/proxy"
        page = operator("get", "--raw", f"{base}/")
        assert "<h1>Read-only broker" in page
        assert f"<style>{CSS}</style>" in page  # as the policy allows it, also behind the API server's proxy
        assert "<script" not in page
        status = json.loads(operator("get", "--raw", f"{base}/status"))
        assert status["broker"]["pool_uid"] == operator.get("robp", "demo", namespace)["metadata"]["uid"]
        assert status["member_count"] == 2
        assert all(one["status_url"].endswith(":8080/") for one in status["members"])
    whole = json.loads(operator("get", "--raw", f"/api/v1/namespaces/{namespace}/pods/demo-0:8080/proxy/pool/status"))
    assert [one["error"] for one in whole["members"]] == ["", ""]
    shown = operator("exec", "-n", namespace, "demo-0", "--", "pulsar-readonly", "top", "--once")
    assert "2 brokers" in shown
