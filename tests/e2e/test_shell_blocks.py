"""Blocks of commands in the documentation, run as they are on a real Kubernetes: tests/shell_blocks/registry.py."""

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import SOURCE, WRITER
from tests.shell_blocks.blocks import ROOT, of_page
from tests.shell_blocks.running import Shell, find

PUBLISH = """
import pulsar
client = pulsar.Client({url!r})
producer = client.create_producer({topic!r})
for number in range(50):
    producer.send(b"%d" % number)
client.close()
"""
"""Publishes 50 messages, in a pod with the stock client."""

SERVING = {"Ready": ("True", "BrokersReady"), "LookupConfigured": ("True", "Held")}


@pytest.fixture
def shell(operator, tmp_path: Path) -> Callable[..., Shell]:
    """Makes a shell whose kubectl is of the cluster: texts of the pages and what takes their place."""

    def make(**replaced: str) -> Shell:
        folder = tmp_path / uuid.uuid4().hex
        folder.mkdir()
        return Shell(folder, {"kubectl": (operator._kubectl,)}, replaced, {"KUBECONFIG": operator.kubeconfig})

    return make


@pytest.mark.nightly
def test_the_canary_of_the_guide(operator, writer, namespace, shell, eventually):
    page = "how-to/adopt-helm-chart.md"
    topic = f"canary-{uuid.uuid4().hex[:8]}"
    names = {"NAMESPACE": namespace, "NAME-0": "canary-0", "robp/NAME": "robp/canary", "rotb/BINDING": "rotb/canary"}
    made = shell(**names, **{"default/orders": f"default/{topic}", "readers": namespace})
    (made.folder / "pool-reader.jwt").write_text("no-token-is-needed-here")
    made.run(find(page, "kubectl create namespace"), "kubectl create namespace")
    (manifest,) = [
        block for block in of_page(page) if block.language == "yaml" and "kind: ReadOnlySource" in block.text
    ]
    (made.folder / "canary.yaml").write_text(made.text(manifest))
    made.run(find(page, "kubectl apply"))
    operator.expect("robp", "canary", namespace, SERVING, timeout=60)
    shown = made.run(find("how-to/troubleshooting.md", "kubectl get robp"))
    assert "canary-0" in shown
    assert "BrokersReady" in shown
    program = PUBLISH.format(url=SOURCE["serviceUrl"], topic=f"persistent://public/default/{topic}")
    operator("exec", "-n", namespace, "canary-0", "--", "python3", "-c", program)
    compared = find(page, "kubectl exec -i")
    assert "owner=50, pool=50, lost=0, extra=0" in made.run(compared)
    made.run(find(page, "kubectl delete"))

    def gone():
        with pytest.raises(LookupError):
            operator.get("rotb", "canary", namespace)

    eventually(gone, 30)

    def unbound():
        for pod in ("canary-0", "canary-1"):
            assert operator.broker(pod, namespace, "/bindings")["bindings"] == []

    eventually(unbound, 90)
    operator("exec", "-n", namespace, "canary-0", "--", "python3", "-c", program)
    # the pool's URL leads to the owner, where the subscription of the canary continues: nothing is lost
    assert "owner=50, pool=50, lost=0, extra=0" in made.run(compared)
    operator.expect("robp", "canary", namespace, {"Ready": ("True", "BrokersReady")})


@pytest.mark.nightly
def test_a_restart_by_hand(operator, writer, namespace, pool, shell, eventually):
    """Once by the annotation, and once by kubectl's own command, whose annotation the operator does not take away."""
    settled = {"Ready": ("True", "BrokersReady"), "Progressing": ("False", "Settled")}
    operator.apply(pool(replicas=1))
    operator.expect("robp", "demo", namespace, settled, timeout=120)

    def uid() -> str:
        return operator.get("pod", "demo-0", namespace)["metadata"]["uid"]

    def restarted(former: str) -> None:
        found = operator.get("statefulset", "demo", namespace)["status"]
        assert found["currentRevision"] == found["updateRevision"]
        assert uid() != former

    first = uid()
    shell(**{"robp demo": f"robp demo -n {namespace}"}).run(find("how-to/pools.md", "kubectl annotate robp demo"))
    eventually(lambda: restarted(first), 120)
    operator.expect("robp", "demo", namespace, settled, timeout=60)
    second = uid()
    operator("rollout", "restart", "statefulset/demo", "-n", namespace)
    eventually(lambda: restarted(second), 120)
    operator.expect("robp", "demo", namespace, settled, timeout=60)
    assert len(operator.list("controllerrevisions", namespace, "pulsar-readonly.io/pool=demo")) == 3, "one restart each"
    kept = operator.get("statefulset", "demo", namespace)["spec"]["template"]["metadata"]["annotations"]
    assert {"pulsar-readonly.io/restartedAt", "kubectl.kubernetes.io/restartedAt"} <= set(kept)


def test_the_tutorial(operator, writer, shell):
    page = "tutorials/kubernetes.md"
    made = shell()
    try:
        made.run(find(page, "kubectl apply"))
        operator.expect("robp", "demo", "default", SERVING, timeout=60)
        shown = made.run(find("tutorials/demo.md", "export PATH"))
        assert "BrokersReady" in shown
        made.run(find("how-to/pools.md", "kubectl patch robp demo"))
        operator.expect("robp", "demo", "default", {"UpdateHeld": ("True", "Held")})
    finally:
        operator("delete", "-f", str(made.folder / "examples" / "quickstart.yaml"), "--ignore-not-found", timeout=300)


@pytest.mark.nightly
def test_a_source_is_shared(operator, namespace, pool, shell):
    source = {
        "apiVersion": "pulsar-readonly.io/v1beta1",
        "kind": "ReadOnlySource",
        "metadata": {"name": "pulsar", "namespace": namespace},
        "spec": dict(SOURCE),
    }
    operator.apply(source, pool("orders", replicas=0))
    operator.expect("robp", "orders", namespace, {"Ready": ("True", "ScaledToZero")})
    shown = shell(**{"-n shop": f"-n {namespace}"}).run(find("how-to/pools.md", "kubectl get ros"))
    assert "pulsar" in shown
    operator.expect("robp", "orders", namespace, {"SourceResolved": ("True", "Resolved")})


@pytest.mark.nightly
def test_rights_are_granted(operator, namespace, shell):
    shell(**{"-n shop": f"-n {namespace}"}).run(find("how-to/pools.md", "kubectl create role"))
    account = "system:serviceaccount:pulsar-readonly-system:pulsar-readonly-operator"
    for name, answer in (("orders-reader", "yes"), ("other", "no")):
        done = operator.run("auth", "can-i", "get", f"secrets/{name}", "-n", namespace, f"--as={account}")
        assert done.stdout.strip() == answer, done.stderr


@pytest.mark.nightly
def test_the_grants_of_managed_explicit_lac(operator, writer, shell):
    note = "pulsar-readonly.io/explicit-lac-from"
    try:
        shell().run(find("how-to/explicit-lac.md", "kubectl apply -k"))
        assert operator.get("statefulset", "pulsar-broker", WRITER)["metadata"]["annotations"][note] == "team-a"
        account = "system:serviceaccount:pulsar-readonly-system:pulsar-readonly-operator"
        done = operator.run("auth", "can-i", "patch", "configmaps/pulsar-broker", "-n", WRITER, f"--as={account}")
        assert done.stdout.strip() == "yes", done.stderr
    finally:
        operator("annotate", "statefulset", "pulsar-broker", "-n", WRITER, f"{note}-")
        operator("delete", "-k", str(ROOT / "manifests" / "explicit-lac"), "--ignore-not-found")
