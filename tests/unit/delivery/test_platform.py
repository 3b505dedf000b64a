"""examples/platform/: the pool and the objects around it name each other rightly, and each has the structure of its kind."""

import re

import pytest
from readonly_operator.api.pool import Pool
from readonly_operator.kube.names import GROUP, VERSION
from readonly_operator.model.children import children
from readonly_operator.model.lookup import LookupConfig
from readonly_operator.settings import Settings

from docsite.metrics import labels, of_broker
from tests.support import foreign_kinds
from tests.support.yaml_documents import load_all_yaml, load_yaml
from tests.unit.delivery.conftest import ROOT

FOLDER = ROOT / "examples" / "platform"
NAMESPACE = "streaming"
DNS = "external-dns.alpha.kubernetes.io/hostname"
OURS = re.compile(rf"{re.escape(GROUP)}/|v1$|batch/v1$|rbac\.authorization\.k8s\.io/v1$")
DOCUMENTS = [
    pytest.param(body, id=f"{path.relative_to(ROOT / 'examples')}-{body['kind']}-{body['metadata']['name']}")
    for path in sorted((ROOT / "examples").rglob("*.yaml"))
    for body in load_all_yaml(path.read_text())
    if "kind" in body  # else these are values of a chart
]


def documents(name: str) -> list[dict]:
    return list(load_all_yaml((FOLDER / name).read_text()))


def spec(name: str) -> dict:
    (body,) = documents(name)
    return body["spec"]


@pytest.fixture(scope="module")
def pool() -> Pool:
    (body,) = documents("pool.yaml")
    body["metadata"].update(uid="uid", namespace=NAMESPACE)
    return Pool.load(body)


@pytest.fixture(scope="module")
def objects(pool) -> list[dict]:
    return children(pool, LookupConfig.of([]), Settings())


@pytest.mark.parametrize("body", [one for one in DOCUMENTS if not OURS.match(one.values[0]["apiVersion"])])
def test_objects_of_other_projects_have_the_structure_of_their_kind(body):
    assert foreign_kinds.faults(body) == []


def test_one_writer_sets_the_number_of_brokers(pool):
    target = spec("scaled-object.yaml")["scaleTargetRef"]
    assert target == {"apiVersion": f"{GROUP}/{VERSION}", "kind": "ReadOnlyBrokerPool", "name": pool.key.name}
    assert pool.autoscaling is None
    assert "replicas" not in spec("pool.yaml")
    assert spec("scaled-object.yaml")["minReplicaCount"] > 0


def test_the_metric_of_the_scaler_exists_and_is_about_this_pool(pool):
    (trigger,) = spec("scaled-object.yaml")["triggers"]
    query = trigger["metadata"]["query"]
    (name,) = re.findall(r"pulsar_readonly_\w+", query)
    family = next(one for one in of_broker() if f"{one.name}_total" == name)
    assert "pool" not in labels(family), "Prometheus adds it"
    assert f'namespace="{NAMESPACE}", pool="{pool.key.name}"' in query


def test_the_certificate_has_every_name_of_the_pool_and_its_brokers(pool, objects):
    made = spec("certificate.yaml")
    secrets = {pool.listeners.tls.certificate.secret_name, made["secretName"]}
    assert secrets == {"events-tls"}
    patterns = [re.compile(re.escape(name).replace(r"\*", r"[^.]+")) for name in made["dnsNames"]]
    inside = f"{NAMESPACE}.svc.cluster.local"
    names = [f"{pool.key.name}.{inside}", f"{pool.key.pod(11)}.{pool.key.headless_service}.{inside}"]
    names += [one["metadata"].get("annotations", {}).get(DNS) for one in objects if one["kind"] == "Service"]
    named = [name for name in names if name]
    assert len(named) == 3 + pool.replicas
    assert [name for name in named if not any(pattern.fullmatch(name) for pattern in patterns)] == []


def test_external_dns_gets_one_name_for_each_load_balancer(pool, objects):
    balancers = [one for one in objects if one.get("spec", {}).get("type") == "LoadBalancer"]
    names = [one["metadata"]["annotations"][DNS] for one in balancers]
    assert len(set(names)) == len(names) == pool.replicas + 1
    host = pool.listeners.external.host
    assert {host.replace("{broker}", pool.key.pod(ordinal)) for ordinal in range(pool.replicas)} < set(names)


def test_the_external_secret_makes_the_secret_that_the_pool_reads():
    made, wanted = spec("external-secret.yaml"), spec("pool.yaml")["source"]["authentication"]["secretRef"]
    assert made["target"]["name"] == wanted["name"]
    assert [one["secretKey"] for one in made["data"]] == [wanted["key"]]


def test_the_pod_monitors_select_brokers_and_operator_and_set_the_label_pool(objects):
    brokers, operator = (one["spec"] for one in documents("pod-monitor.yaml"))
    template = next(one for one in objects if one["kind"] == "StatefulSet")["spec"]["template"]
    deployment = load_yaml((ROOT / "manifests" / "operator" / "deployment.yaml").read_text())["spec"]["template"]
    for monitor, pod in ((brokers, template), (operator, deployment)):
        assert monitor["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        (endpoint,) = monitor["podMetricsEndpoints"]
        assert endpoint["port"] in {one["name"] for one in pod["spec"]["containers"][0]["ports"]}
    source = {**documents("pool.yaml")[0], "metadata": {"name": "x", "namespace": "y", "uid": "z"}}
    source["spec"] = {**source["spec"], "monitoring": {"podMonitor": {"interval": "30s"}}}
    made = children(Pool.load(source), LookupConfig.of([]), Settings())
    own = next(one for one in made if one["kind"] == "PodMonitor")["spec"]
    assert brokers["podMetricsEndpoints"] == own["podMetricsEndpoints"]


def test_the_rule_has_the_alerts():
    assert spec("prometheus-rule.yaml") == load_yaml((ROOT / "monitoring" / "rules.yaml").read_text()), (
        "run: make chart"
    )


def test_the_page_names_every_file():
    page = (ROOT / "docs" / "how-to" / "platform.md").read_text()
    assert {path.name for path in FOLDER.iterdir()} == set(re.findall(r"^\| `([\w-]+\.yaml)` \|", page, re.MULTILINE))
