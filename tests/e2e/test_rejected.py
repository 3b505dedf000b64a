"""What the API server refuses, and what the user reads then: rejected.yaml, and the same as a table in docs/errors*.md."""

from __future__ import annotations

import json
import pathlib
import uuid
from typing import Any

import pytest
import yaml

HERE = pathlib.Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
GOOD = {
    "serviceUrl": "pulsar://pulsar-broker.pulsar:6650",
    "adminUrl": "http://pulsar-broker.pulsar:8080",
    "metadataStoreUrl": "zk:pulsar-zookeeper.pulsar:2181",
}
TOPIC = "persistent://public/default/orders"
CASES = yaml.safe_load((HERE / "rejected.yaml").read_text())
KINDS = {"pool": "ReadOnlyBrokerPool", "binding": "ReadOnlyTopicBinding"}


def manifest(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "pulsar-readonly.io/v1alpha1",
        "kind": KINDS[kind],
        "metadata": {"name": name},
        "spec": {**spec, "source": GOOD} if spec.get("source") == "good" else spec,
    }


def row(case: dict[str, Any]) -> str:
    """The case's row in the documentation."""
    cells = (case["mistake"], f"`{case['reads']}`" if "`" not in case["reads"] else f"`` {case['reads']} ``")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


class Namespaced:
    """kubectl in one namespace."""

    def __init__(self, kubernetes, namespace: str) -> None:
        self._kubernetes = kubernetes
        self._namespace = namespace

    def dry_run(self, body: dict[str, Any]):
        return self._kubernetes.run(
            "apply", "-n", self._namespace, "--dry-run=server", "-f", "-", stdin=json.dumps(body)
        )

    def taken(self, body: dict[str, Any]) -> None:
        done = self.dry_run(body)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def api(operator):
    """A namespace with one good object of each kind, for updates."""
    namespace = f"e2e-{uuid.uuid4().hex[:8]}"
    operator("create", "namespace", namespace)
    for body in (
        manifest("pool", "fixed", {"source": GOOD, "replicas": 0}),
        manifest("binding", "fixed", {"poolRef": {"name": "fixed"}, "topics": [TOPIC]}),
    ):
        operator("apply", "-n", namespace, "-f", "-", stdin=json.dumps(body))
    yield Namespaced(operator, namespace)
    operator("delete", "namespace", namespace, "--wait=false")


@pytest.mark.parametrize("case", CASES, ids=[case["mistake"] for case in CASES])
def test_a_mistake_is_refused_and_named(api, case):
    body = manifest(case["mistake"].partition(":")[0], case.get("name", "demo"), case["spec"])
    done = api.dry_run(body)
    assert done.returncode != 0, "it was taken"
    assert case["reads"] in done.stderr


def test_a_pool_may_reach_its_cluster_by_other_urls(api):
    body = manifest(
        "pool", "fixed", {"source": {**GOOD, "serviceUrl": "pulsar://a:6650,b:6651", "adminUrl": "https://proxy"}}
    )
    api.taken(body)


@pytest.mark.parametrize("url", ["zk:a:1", "zk:a.b-c:2181,d:2181", "zk:a:2181/pulsar/one"])
def test_metadata_stores_that_are_fine(api, url):
    body = manifest("pool", "another", {"source": {**GOOD, "metadataStoreUrl": url}})
    api.taken(body)


def test_every_mistake_is_in_the_documentation():
    text = "\n".join(path.read_text() for path in sorted(DOCS.glob("errors*.md")))
    missing = [row(case) for case in CASES if row(case) not in text]
    assert missing == []


def test_kubectl_explains_every_field(operator):
    text = operator("explain", "robp.spec.explicitLac")
    assert "bookkeeperExplicitLacIntervalInMills" in text
    assert "enum: Verify" in text
