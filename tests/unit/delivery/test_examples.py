"""The examples: made of what the definitions allow, and of what the chart and the manifests have.

The pool of examples/platform/ and the objects around it name each other rightly, and each has the structure of its kind.
"""

import re

import pytest
import yaml
from readonly_operator.api.binding import Binding
from readonly_operator.api.pool import Pool
from readonly_operator.kube.kinds import BINDING, POOL, SOURCE
from readonly_operator.kube.names import GROUP, VERSION
from readonly_operator.model.autoscaler import CONNECTIONS, DELIVERED_BYTES
from readonly_operator.model.children import children
from readonly_operator.model.lookup import LookupConfig
from readonly_operator.settings import Settings
from readonly_spark.export.command import parser, settings_of

from docsite.metrics import labels, of_broker
from tests.support import foreign_kinds
from tests.support.yaml_documents import load_all_yaml, load_yaml
from tests.unit.delivery.conftest import ROOT

EXAMPLES = ROOT / "examples"


def documents(name: str) -> list[dict]:
    return list(load_all_yaml((EXAMPLES / name).read_text()))


def of_kind(name: str, kind: str) -> dict[str, dict]:
    return {one["metadata"]["name"]: one["spec"] for one in documents(name) if one["kind"] == kind}


def test_production_is_a_pool_and_bindings_of_it():
    bodies = documents("production.yaml")
    for body in bodies:
        assert "namespace" not in body["metadata"], "kubectl apply -n says where"
        body["metadata"].update(uid="uid", namespace="streaming", creationTimestamp="2026-01-01T00:00:00Z")
    pool = Pool.load(next(body for body in bodies if body["kind"] == POOL.kind))
    bindings = [Binding.load(body) for body in bodies if body["kind"] == BINDING.kind]
    assert len(bindings) == 2
    assert {binding.pool for binding in bindings} == {pool.key}
    made = children(pool, LookupConfig.of(bindings), Settings(engine_image="x:1"))
    kinds = {one["kind"] for one in made}
    assert kinds >= {
        "StatefulSet",
        "Service",
        "ConfigMap",
        "ServiceAccount",
        "PodDisruptionBudget",
        "HorizontalPodAutoscaler",
        "NetworkPolicy",
        "PodMonitor",
    }


def test_production_sets_every_part_that_it_does_not_leave_out_on_purpose():
    (spec,) = of_kind("production.yaml", POOL.kind).values()
    schema = load_yaml((ROOT / "crds" / "readonlybrokerpools.yaml").read_text())
    known = schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert set(spec) <= set(known)
    unset = set(known) - set(spec)
    cursors = {"cursors", "cursorPartitions", "onDeletion"}
    assert unset == cursors | {
        "replicas",
        "scaleToZero",
        "replay",
        "http",
        "imagePullPolicy",
        "imagePullSecrets",
        "tieredStorage",
        "logLevel",
        "allowedBindings",
        "sourceRef",
        "workers",
        "probes",
        "inheritedMetadata",
        "serviceAccountTemplate",
    }


def test_names_in_the_comments_of_production_are_those_of_its_secrets():
    text = (EXAMPLES / "production.yaml").read_text()
    used = set(re.findall(r"(?:secretName|secretRef:\n\s+name): (\S+)", text))
    assert used == set(re.findall(r"^#   ([a-z-]+) {2,}\S", text, re.MULTILINE))


def test_the_adapter_serves_the_metrics_of_the_autoscaler():
    (values,) = documents("autoscaling/prometheus-adapter.yaml")
    counters = {f"{one.name}_total" for one in of_broker() if one.type == "counter"}
    known = counters | {one.name for one in of_broker() if one.type == "gauge"}
    served = set()
    for rule in values["rules"]["custom"]:
        assert set(re.findall(r"pulsar_readonly_\w+", rule["seriesQuery"] + rule["metricsQuery"])) <= known
        series = rule["seriesQuery"].partition("{")[0]
        assert set(rule["resources"]["overrides"]) == {"namespace", "pod"}
        served.add(re.sub(rule["name"]["matches"], rule["name"]["as"].replace("${1}", r"\1"), series))
    assert served == {DELIVERED_BYTES, CONNECTIONS}


def test_keda_scales_a_pool_by_metrics_of_brokers():
    (spec,) = of_kind("autoscaling/keda-scaledobject.yaml", "ScaledObject").values()
    target = spec["scaleTargetRef"]
    assert (target["apiVersion"], target["kind"]) == (f"{POOL.group}/{VERSION}", POOL.kind)
    names = {name for one in spec["triggers"] for name in re.findall(r"pulsar_readonly_\w+", one["metadata"]["query"])}
    assert names == {"pulsar_readonly_dispatched_bytes_total", CONNECTIONS}


def test_argo_cd_installs_the_chart_with_values_that_it_has(template, tmp_path):
    applications = of_kind("argocd-application.yaml", "Application")
    source = applications["pulsar-readonly"]["source"]
    assert (ROOT / source["path"] / "Chart.yaml").exists()
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(source["helm"]["valuesObject"]))
    kinds = {one["kind"] for one in template(options=("--values", str(values), "--include-crds"))}
    assert kinds >= {"CustomResourceDefinition", "Deployment", "PodMonitor", "PrometheusRule"}
    for spec in applications.values():
        assert set(spec) <= {"project", "source", "destination", "syncPolicy"}
        assert set(spec["source"]) <= {"repoURL", "targetRevision", "path", "helm"}
        assert set(spec["syncPolicy"]) <= {"automated", "syncOptions", "retry", "managedNamespaceMetadata"}
        assert "ServerSideApply=true" in spec["syncPolicy"]["syncOptions"]


def test_flux_installs_the_manifests_and_then_the_pools(kustomize):
    repositories = of_kind("flux-kustomization.yaml", "GitRepository")
    kustomizations = of_kind("flux-kustomization.yaml", "Kustomization")
    for spec in kustomizations.values():
        assert spec["sourceRef"]["name"] in repositories
        assert {"interval", "path", "prune", "sourceRef"} <= set(spec)
        assert {one["name"] for one in spec.get("dependsOn", ())} <= set(kustomizations)
    assert kustomizations["read-only-pools"]["dependsOn"] == [{"name": "pulsar-readonly"}]
    assert kustomize(kustomizations["pulsar-readonly"]["path"])


def test_the_version_is_the_projects():
    (chart,) = (load_yaml((ROOT / "charts" / "pulsar-readonly" / "Chart.yaml").read_text()),)
    version = chart["version"]
    assert (
        of_kind("argocd-application.yaml", "Application")["pulsar-readonly"]["source"]["targetRevision"]
        == f"v{version}"
    )
    assert of_kind("flux-kustomization.yaml", "GitRepository")["pulsar-readonly"]["ref"]["tag"] == f"v{version}"
    (pool,) = of_kind("production.yaml", POOL.kind).values()
    assert pool["image"].endswith(f":{version}")


SPARK_FIELDS = {
    "type", "pythonVersion", "mode", "sparkVersion", "image", "mainApplicationFile", "arguments", "sparkConf",
    "restartPolicy", "volumes", "driver", "executor",
}  # fmt: skip
"""Those of sparkoperator.k8s.io/v1beta2 that the example needs."""


def exports() -> dict[str, tuple[dict, list[str]]]:
    """The pods or applications of the examples of exports, and their arguments."""
    (job,) = of_kind("spark/job.yaml", "Job").values()
    (cron,) = of_kind("spark/cronjob.yaml", "CronJob").values()
    (application,) = of_kind("spark/sparkapplication.yaml", "SparkApplication").values()
    pods = {"job": job["template"]["spec"], "cronjob": cron["jobTemplate"]["spec"]["template"]["spec"]}
    found = {name: (pod, pod["containers"][0]["args"]) for name, pod in pods.items()}
    assert all(arguments[0] == "export" for _, arguments in found.values())
    made = {name: (pod, arguments[1:]) for name, (pod, arguments) in found.items()}
    return {**made, "sparkapplication": (application, application["arguments"])}


@pytest.mark.parametrize("name", ["job", "cronjob", "sparkapplication"])
def test_exports_have_options_that_the_command_takes_and_keep_their_state(name):
    pod, arguments = exports()[name]
    made = settings_of(parser().parse_args(arguments), ROOT)
    claimed = {one["name"] for one in pod["volumes"] if "persistentVolumeClaim" in one}
    for container in [pod["driver"], pod["executor"]] if name == "sparkapplication" else pod["containers"]:
        paths = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] in claimed]
        for place in (made.to, made.checkpoint):
            assert any(place.startswith(f"{path}/") for path in paths), "it must outlive the pod"


@pytest.mark.parametrize("name", ["job", "cronjob"])
def test_pods_of_exports_have_no_rights(name):
    pod, _ = exports()[name]
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    (container,) = pod["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {mount["mountPath"] for mount in container["volumeMounts"]} >= {"/tmp"}, "Spark writes there"


def test_the_cron_job_never_runs_two_on_one_checkpoint():
    (cron,) = of_kind("spark/cronjob.yaml", "CronJob").values()
    assert cron["concurrencyPolicy"] == "Forbid"


def test_the_spark_application_fits_the_image_and_the_lock():
    application, _ = exports()["sparkapplication"]
    assert set(application) == SPARK_FIELDS
    locked = re.search(r"^pyspark==(\S+)", (ROOT / "requirements" / "spark.txt").read_text(), re.MULTILINE)
    assert locked is not None
    assert application["sparkVersion"] == locked[1]
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert "COPY spark/image/export.py /opt/pulsar-readonly/" in dockerfile
    assert application["mainApplicationFile"] == "local:///opt/pulsar-readonly/export.py"


PRUNED_NEVER = {
    "argocd.argoproj.io/sync-options": {"Prune=false", "Delete=false"},
    "helm.sh/resource-policy": {"keep"},
    "kustomize.toolkit.fluxcd.io/prune": {"disabled"},
}
"""Annotations by which each tool leaves an object where it is: Argo CD at a sync and with its Application, Helm, Flux."""


@pytest.mark.parametrize("way", ["flux", "argo"])
def test_a_tool_that_prunes_leaves_the_definitions_and_so_all_pools(way, kustomize, template):
    if way == "flux":
        (path,) = {
            spec["path"]
            for name, spec in of_kind("flux-kustomization.yaml", "Kustomization").items()
            if name == "pulsar-readonly"
        }
        made = kustomize(path)
    else:
        made = template(options=("--include-crds",))
    definitions = [one for one in made if one["kind"] == "CustomResourceDefinition"]
    assert {one["spec"]["names"]["kind"] for one in definitions} == {POOL.kind, BINDING.kind, SOURCE.kind}
    for definition in definitions:
        annotations = definition["metadata"].get("annotations", {})
        assert {name: set(annotations.get(name, "").split(",")) for name in PRUNED_NEVER} == PRUNED_NEVER


def test_deleting_a_kustomization_or_application_leaves_the_definitions():
    """A Kustomization that is deleted prunes what it applied; the annotations keep definitions, and this keeps the rest."""
    kustomizations = of_kind("flux-kustomization.yaml", "Kustomization")
    assert {spec.get("deletionPolicy") for spec in kustomizations.values()} == {"Orphan"}
    for body in documents("argocd-application.yaml"):
        assert "finalizers" not in body["metadata"], "an Application with the finalizer deletes all that it made"


FOLDER = EXAMPLES / "platform"
NAMESPACE = "streaming"
DNS = "external-dns.alpha.kubernetes.io/hostname"
OURS = re.compile(rf"{re.escape(GROUP)}/|v1$|batch/v1$|rbac\.authorization\.k8s\.io/v1$")
DOCUMENTS = [
    pytest.param(body, id=f"{path.relative_to(EXAMPLES)}-{body['kind']}-{body['metadata']['name']}")
    for path in sorted(EXAMPLES.rglob("*.yaml"))
    for body in load_all_yaml(path.read_text())
    if "kind" in body  # else these are values of a chart
]


def spec(name: str) -> dict:
    (body,) = documents(f"platform/{name}")
    return body["spec"]


@pytest.fixture(scope="module")
def pool() -> Pool:
    (body,) = documents("platform/pool.yaml")
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
    brokers, operator = (one["spec"] for one in documents("platform/pod-monitor.yaml"))
    template = next(one for one in objects if one["kind"] == "StatefulSet")["spec"]["template"]
    deployment = load_yaml((ROOT / "manifests" / "operator" / "deployment.yaml").read_text())["spec"]["template"]
    for monitor, pod in ((brokers, template), (operator, deployment)):
        assert monitor["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        (endpoint,) = monitor["podMetricsEndpoints"]
        assert endpoint["port"] in {one["name"] for one in pod["spec"]["containers"][0]["ports"]}
    source = {**documents("platform/pool.yaml")[0], "metadata": {"name": "x", "namespace": "y", "uid": "z"}}
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
