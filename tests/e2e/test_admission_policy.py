"""The admission policies, which are installed with the operator: it works under them. test_attacks.py has what they refuse."""

import json

import pytest

from tests.e2e.conftest import SYSTEM

ACCOUNT = f"--as=system:serviceaccount:{SYSTEM}:pulsar-readonly-operator"
MISTAKE = {"expression": "object.spec.noSuchField == 'x'", "message": "never: no binding uses this policy"}
ENFORCED_SECONDS = 30.0
"""Time until the API server applies a new policy."""


@pytest.fixture
def limited(operator, namespace, eventually):
    """The operator under the policies; they count once the API server refuses a deletion that RBAC allows."""
    operator("create", "configmap", "canary", "-n", namespace)

    def enforced():
        done = operator.run("delete", "configmap", "canary", "-n", namespace, "--dry-run=server", ACCOUNT)
        assert "ValidatingAdmissionPolicy 'pulsar-readonly-operator-" in done.stderr

    eventually(enforced, timeout=ENFORCED_SECONDS)
    yield operator
    operator.run("patch", "robp", "demo", "-n", namespace, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


def test_the_api_server_finds_no_mistake_in_the_expressions(limited, eventually):
    def checked():
        policies = json.loads(limited("get", "validatingadmissionpolicies", "-o", "json"))["items"]
        own = {one["metadata"]["name"]: one for one in policies}
        own = {name: one for name, one in own.items() if name.startswith("pulsar-readonly-operator-")}
        for one in own.values():
            # the controller of policies writes it when it has checked all expressions
            assert one["status"]["observedGeneration"] == one["metadata"]["generation"]
        return own

    own = eventually(checked, timeout=ENFORCED_SECONDS)
    assert len(own) == 13
    warnings = {name: one["status"].get("typeChecking", {}).get("expressionWarnings") for name, one in own.items()}
    assert {name: found for name, found in warnings.items() if found} == {}
    broken = limited.get("validatingadmissionpolicy", "pulsar-readonly-operator-leases", "")
    metadata = {"name": "pulsar-readonly-tests-mistake"}
    broken = {**broken, "metadata": metadata, "spec": {**broken["spec"], "validations": [MISTAKE]}}
    del broken["status"]
    limited("create", "-f", "-", stdin=json.dumps(broken))

    def found():
        status = limited.get("validatingadmissionpolicy", metadata["name"], "")["status"]
        assert status["typeChecking"]["expressionWarnings"], "else this test could find nothing"

    try:
        eventually(found, timeout=ENFORCED_SECONDS)
    finally:
        limited("delete", "validatingadmissionpolicy", metadata["name"])
