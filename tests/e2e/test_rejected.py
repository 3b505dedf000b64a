"""What the API server refuses, and what the user reads then: rejected.yaml, which docs/reference/refusals.md shows as a table.

The objects are given to the API server directly: a kubectl for each would take a minute.
"""

import json
import pathlib
import re
import uuid
from typing import Any

import pytest
from kubernetes import config

from tests.support.yaml_documents import load_yaml
from tests.unit.operator.examples import leaves, replaced, wrong_values
from tests.unit.operator.examples import schema as spec_schema

GOOD = {
    "serviceUrl": "pulsar://pulsar-broker.pulsar:6650",
    "adminUrl": "http://pulsar-broker.pulsar:8080",
    "metadataStoreUrl": "zk:pulsar-zookeeper.pulsar:2181",
}
TOPIC = "persistent://public/default/orders"
CASES = load_yaml((pathlib.Path(__file__).parent / "rejected.yaml").read_text())
KINDS = {"pool": "ReadOnlyBrokerPool", "binding": "ReadOnlyTopicBinding", "source": "ReadOnlySource"}
FIXED = "fixed"
"""Name of the objects that exist."""
DEADLINE = 30


def manifest(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    source = spec.get("source")
    if source == "good":
        spec = {**spec, "source": GOOD}
    elif isinstance(source, dict) and source.get("good"):
        spec = {**spec, "source": {**GOOD, **{key: value for key, value in source.items() if key != "good"}}}
    return {
        "apiVersion": "pulsar-readonly.io/v1beta1",
        "kind": KINDS[kind],
        "metadata": {"name": name},
        "spec": spec,
    }


class Namespaced:
    """The API server, for objects of one namespace; nothing is stored."""

    def __init__(self, kubeconfig: str, namespace: str) -> None:
        self._api = config.new_client_from_config(kubeconfig)
        self._namespace = namespace

    def refusal(self, body: dict[str, Any]) -> str:
        """Why an object is refused; empty when it is taken."""
        name = body["metadata"]["name"]
        path = f"/apis/{body['apiVersion']}/namespaces/{self._namespace}/{body['kind'].lower()}s"
        method, form = ("PATCH", "application/merge-patch+json") if name == FIXED else ("POST", "application/json")
        request = self._api.param_serialize(
            method,
            f"{path}/{name}" if name == FIXED else path,
            query_params=[("dryRun", "All"), ("fieldValidation", "Strict")],
            header_params={"Content-Type": form, "Accept": "application/json"},
            body=body,
            auth_settings=["BearerToken"],
        )
        response = self._api.call_api(*request, _request_timeout=DEADLINE)
        response.read()
        if response.status < 300:
            return ""
        assert response.status in {400, 422}, response.data
        return str(json.loads(response.data)["message"])


@pytest.fixture(scope="module")
def api(operator):
    """A namespace with one good object of each kind, for updates."""
    namespace = f"e2e-{uuid.uuid4().hex[:8]}"
    operator.create_namespace(namespace)
    for body in (
        manifest("pool", FIXED, {"source": GOOD, "replicas": 0}),
        manifest("binding", FIXED, {"poolRef": {"name": FIXED}, "topics": [TOPIC]}),
        manifest("source", FIXED, GOOD),
    ):
        operator("apply", "-n", namespace, "-f", "-", stdin=json.dumps(body))
    yield Namespaced(operator.kubeconfig, namespace)
    operator.delete_namespace(namespace)


def without_values(text: str) -> str:
    """The errors without the wrong values: Kubernetes 1.30 names their types instead, for errors of rules."""
    text = text.replace("map[string]interface {}", "")
    return re.sub(r'Invalid value: ("(?:[^"\\]|\\.)*"|[^:" ]+): ', "Invalid value: ", text)


def test_the_mistakes_are_many_and_each_is_there_once():
    assert len(CASES) >= 100
    assert len({case["mistake"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=[case["mistake"] for case in CASES])
def test_a_mistake_is_refused_and_named(api, operator, case):
    said = api.refusal(manifest(case["mistake"].partition(":")[0], case.get("name", "demo"), case["spec"]))
    assert said, "it was taken"
    if operator.minor < 36:
        assert without_values(case["reads"]) in without_values(said)
    else:
        assert case["reads"] in said


def test_each_field_refuses_what_its_schema_refuses(api):
    """The mistakes that a unit test makes of the schemas: the API server names their field too."""
    taken = []
    for kind, needed in (("pool", {"source": GOOD}), ("binding", {"topics": [TOPIC]})):
        for path, schema, spec in leaves(spec_schema(KINDS[kind])):
            field = ".".join(("spec", *path))
            for value in wrong_values(schema):
                given = {**({} if path[0] == "sourceRef" else needed), **spec}
                said = api.refusal(manifest(kind, "demo", replaced(given, path, value)))
                taken += [] if field in said else [(field, value, said)]
    assert taken == []


def test_kubectl_says_the_same(api, operator):
    body = manifest("pool", "demo", {"source": "good", "replicas": -1})
    done = operator.run("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(body))
    assert done.returncode != 0
    assert 'The ReadOnlyBrokerPool "demo" is invalid: ' in done.stderr
    assert "spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0" in done.stderr


def test_a_pool_may_reach_its_cluster_by_other_urls(api):
    source = {**GOOD, "serviceUrl": "pulsar+ssl://a:6650,b:6651", "adminUrl": "https://proxy,other:8443"}
    assert api.refusal(manifest("pool", FIXED, {"source": source})) == ""


@pytest.mark.parametrize(
    "url", ["zk:pulsar-zookeeper.pulsar:2181,new:2181", "zk:new-0:2181,pulsar-zookeeper.pulsar:2181,new-1:2181"]
)
def test_hosts_of_the_metadata_store_may_be_replaced_one_by_one(api, url):
    assert api.refusal(manifest("pool", FIXED, {"source": {**GOOD, "metadataStoreUrl": url}})) == ""


@pytest.mark.parametrize("url", ["zk:a:1", "zk:a.b-c:2181,d:2181", "zk:a:2181/pulsar/one"])
def test_metadata_stores_that_are_fine(api, url):
    assert api.refusal(manifest("pool", "another", {"source": {**GOOD, "metadataStoreUrl": url}})) == ""


def test_kubectl_explains_every_field(operator):
    text = operator("explain", "robp.spec.explicitLac")
    assert "bookkeeperExplicitLacIntervalInMills" in text
    assert "enum: Verify" in text
