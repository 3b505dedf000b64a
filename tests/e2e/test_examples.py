"""Every file of examples/, by a server-side dry run where the API server knows the kind; the others by their structure."""

import json

import pytest

from tests.e2e.install import ROOT
from tests.support import foreign_kinds
from tests.support.yaml_documents import load_all_yaml

DOCUMENTS = [
    pytest.param(body, id=f"{path.relative_to(ROOT / 'examples')}-{body['kind']}-{body['metadata']['name']}")
    for path in sorted((ROOT / "examples").rglob("*.yaml"))
    for body in load_all_yaml(path.read_text())
    if "kind" in body  # else these are values of a chart
]
OWN = ("pulsar-readonly.io/", "v1", "batch/", "apps/")
"""Prefixes of API groups that every cluster of the tests serves."""


def serves(kubernetes, body) -> bool:
    """Whether the API server knows the kind of an object."""
    version = body["apiVersion"]
    try:
        found = kubernetes.api.raw(f"/apis/{version}" if "/" in version else f"/api/{version}")
    except LookupError:
        return False
    return body["kind"] in {one["kind"] for one in found["resources"]}


@pytest.mark.parametrize("body", DOCUMENTS)
def test_an_example_is_accepted(operator, body):
    if serves(operator, body):
        made = {**body, "metadata": {**body["metadata"], "namespace": "default"}}
        said = operator("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=json.dumps(made))
        assert said.rstrip().endswith("(server dry run)"), said
    else:
        assert not body["apiVersion"].startswith(OWN), "the cluster lacks a kind that it must have"
        assert foreign_kinds.faults(body) == []
