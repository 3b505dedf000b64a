"""Versions of the API on a real API server: the same object in each, one stored, and a rollback of the definitions."""

from __future__ import annotations

import json

import pytest
from readonly_operator.kube.names import GROUP
from readonly_operator.kube.versions import SERVED, STORAGE

from tests.e2e.install import ROOT
from tests.support.yaml_documents import load_yaml

NEWEST = f"{GROUP}/{SERVED[-1]}"
CRDS = {path.stem: path for path in sorted((ROOT / "crds").glob("readonly*.yaml"))}
UNKNOWN = {"apiVersion": NEWEST, "kind": "ReadOnlyBrokerPool", "metadata": {"name": "demo"}, "spec": {"source": {}}}


def raw(kubernetes, version: str, namespace: str, rest: str):
    return json.loads(kubernetes("get", "--raw", f"/apis/{GROUP}/{version}/namespaces/{namespace}/{rest}"))


def test_an_object_of_the_newest_version_is_reconciled_and_the_same_in_each(
    operator, namespace, pool, binding, eventually
):
    bound = binding("orders", "persistent://a/b/c")
    operator.apply({**pool(replicas=0), "apiVersion": NEWEST}, {**bound, "apiVersion": NEWEST})
    operator.expect("robp", "demo", namespace, {"Ready": ("True", "ScaledToZero")})

    def same_in_each(plural: str, name: str) -> None:
        """The operator may write a status between two requests."""
        found = [raw(operator, version, namespace, f"{plural}/{name}") for version in SERVED]
        assert [one.pop("apiVersion") for one in found] == [f"{GROUP}/{version}" for version in SERVED]
        for one in found:
            one["metadata"].pop("managedFields", None)
        assert all(one == found[0] for one in found)

    eventually(lambda: same_in_each("readonlybrokerpools", "demo"))
    eventually(lambda: same_in_each("readonlytopicbindings", "orders"))
    if operator.minor > 30:  # the first release with selectableFields is 1.31
        selected = raw(operator, SERVED[-1], namespace, "readonlytopicbindings?fieldSelector=spec.poolRef.name%3Ddemo")
        assert [one["metadata"]["name"] for one in selected["items"]] == ["orders"]
    scale = raw(operator, SERVED[-1], namespace, "readonlybrokerpools/demo/scale")
    assert scale["spec"].get("replicas", 0) == 0, "autoscaling/v1 leaves 0 out"
    assert scale["status"]["selector"] == "pulsar-readonly.io/pool=demo"
    operator("scale", f"readonlybrokerpools.{SERVED[-1]}.{GROUP}/demo", "-n", namespace, "--replicas=0")


@pytest.mark.parametrize("version", SERVED)
def test_every_version_refuses_the_same(operator, namespace, version):
    body = {**UNKNOWN, "apiVersion": f"{GROUP}/{version}"}
    done = operator.run("apply", "--dry-run=server", "-n", namespace, "-f", "-", stdin=json.dumps(body))
    assert done.returncode != 0
    assert "spec.source.serviceUrl: Required value" in done.stderr


def test_one_version_is_stored_and_the_definitions_of_the_release_before_come_back(operator, namespace, pool):
    operator.apply({**pool(replicas=0), "apiVersion": NEWEST})
    for name, path in CRDS.items():
        stored = operator.get("crd", f"{name}.{GROUP}", "")["status"]["storedVersions"]
        assert stored == [STORAGE]
        older = load_yaml(path.read_text())
        older["spec"]["versions"] = [one for one in older["spec"]["versions"] if one["name"] == STORAGE]
        operator("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-", stdin=json.dumps(older))
