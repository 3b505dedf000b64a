"""The admission policies, which are installed with the operator: it works under them. test_attacks.py has what they refuse."""

import json

import pytest

from tests.e2e.conftest import SYSTEM
from tests.e2e.test_explicit_lac import FINALIZER_RULE, KEY, NOTE, RULES, TARGET, grant, stateful_set, write_as

ACCOUNT = f"--as=system:serviceaccount:{SYSTEM}:pulsar-readonly-operator"
TOPIC = "persistent://public/default/orders"
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


def refusals(kubernetes, namespace) -> str:
    """What the conditions of a pool and the operator's log have of the policies."""
    # of both processes: one of them only waits for the Lease
    logs = kubernetes("logs", "-n", SYSTEM, "-l", "app.kubernetes.io/name=pulsar-readonly-operator", "--tail=500")
    status = json.dumps([one.get("status") for one in kubernetes.list("robp,rotb", namespace)])
    lines = [line for line in [*logs.splitlines(), status] if namespace in line]
    return "\n".join(line for line in lines if "the operator may" in line or "ValidatingAdmissionPolicy" in line)


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


@pytest.mark.nightly
def test_a_pool_is_made_changed_and_deleted_under_the_policies(limited, writer, namespace, pool, binding):
    spec = {"replicas": 1, "networkPolicy": {}, "locality": {"nodeLabels": ["kubernetes.io/hostname"]}}
    limited.apply(pool(**spec), binding("orders", TOPIC))
    limited.expect("robp", "demo", namespace, {"Ready": ("True", "BrokersReady")}, timeout=120)
    limited.expect("rotb", "orders", namespace, {"LookupConfigured": ("True", "Held")}, timeout=60)
    limited.apply(pool(replicas=1, cache={"size": "64Mi"}))
    limited.expect("robp", "demo", namespace, {"Ready": ("True", "BrokersReady")}, timeout=120)
    assert limited.list("networkpolicies", namespace) == [], "what is not wanted any more is deleted"
    limited("label", "service", "demo", "-n", namespace, "pulsar-readonly.io/pool-")
    limited("wait", "service/demo", "-n", namespace, "--for=jsonpath={.metadata.labels.pulsar-readonly\\.io/pool}=demo")
    events = limited("get", "events", "-n", namespace, "-o", "jsonpath={.items[*].reason}")
    assert "Created" in events
    assert refusals(limited, namespace) == ""
    limited("delete", "robp", "demo", "-n", namespace, "--timeout=60s")


@pytest.mark.nightly
def test_managed_explicit_lac_and_its_finalizer_work_under_the_policies(limited, writer, namespace, pool, eventually):
    write_as(limited, "helm", namespace, "0")
    limited.apply(stateful_set(namespace))
    grant(limited, namespace, *RULES, FINALIZER_RULE)
    lac = {"management": "Manage", "interval": "200ms", "target": TARGET, "onDeletion": "Restore"}
    limited.apply(pool(replicas=0, explicitLac=lac))

    def managed():
        body = limited.get("configmap", "pulsar-broker", namespace)
        assert body["data"][KEY] == "200"
        assert NOTE in body["metadata"]["annotations"]

    def restored():
        body = limited.get("configmap", "pulsar-broker", namespace)
        assert body["data"][KEY] == "0"
        assert NOTE not in (body["metadata"].get("annotations") or {})

    eventually(managed, timeout=60)
    limited("delete", "robp", "demo", "-n", namespace, "--timeout=120s")
    eventually(restored)
    assert refusals(limited, namespace) == ""
