"""What the API server refuses, and what the user reads then: rejected.yaml, and the same as a table in docs/errors*.md."""

from __future__ import annotations

import json
import pathlib
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
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**spec, "source": GOOD} if spec.get("source") == "good" else spec,
    }


def row(case: dict[str, Any]) -> str:
    """The case's row in the documentation."""
    cells = (case["mistake"], f"`{case['reads']}`" if "`" not in case["reads"] else f"`` {case['reads']} ``")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


@pytest.fixture(scope="module")
def api(operator):
    """The cluster with the definitions installed, and one good object of each kind for updates."""
    operator.apply(
        manifest("pool", "fixed", {"source": GOOD, "replicas": 0}),
        manifest("binding", "fixed", {"poolRef": {"name": "fixed"}, "topics": [TOPIC]}),
    )
    yield operator
    operator("delete", "robp/fixed", "rotb/fixed", "-n", "default")


@pytest.mark.parametrize("case", CASES, ids=[case["mistake"] for case in CASES])
def test_a_mistake_is_refused_and_named(api, case):
    body = manifest(case["mistake"].partition(":")[0], case.get("name", "demo"), case["spec"])
    done = api.run("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(body))
    assert done.returncode != 0, "it was taken"
    assert case["reads"] in done.stderr


def test_a_pool_may_reach_its_cluster_by_other_urls(api):
    body = manifest(
        "pool", "fixed", {"source": {**GOOD, "serviceUrl": "pulsar://a:6650,b:6651", "adminUrl": "https://proxy"}}
    )
    api("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(body))


@pytest.mark.parametrize("url", ["zk:a:1", "zk:a.b-c:2181,d:2181", "zk:a:2181/pulsar/one"])
def test_metadata_stores_that_are_fine(api, url):
    body = manifest("pool", "another", {"source": {**GOOD, "metadataStoreUrl": url}})
    api("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(body))


def test_every_mistake_is_in_the_documentation():
    text = "\n".join(path.read_text() for path in sorted(DOCS.glob("errors*.md")))
    missing = [row(case) for case in CASES if row(case) not in text]
    assert missing == []


def test_kubectl_explains_every_field(api):
    text = api("explain", "robp.spec.explicitLac")
    assert "bookkeeperExplicitLacIntervalInMills" in text
    assert "enum: Verify" in text
