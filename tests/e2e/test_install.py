"""Installing from nothing, by each way, on an API server of its own: definitions, rights and upgrade."""

import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from readonly_operator.kube.names import VERSION

from devstack.kube import programs
from devstack.release.build import write_files
from devstack.release.inputs import ReleaseInputs
from longtests.scale.control_plane import control_plane
from tests.e2e.conftest import SYSTEM
from tests.e2e.install import CHART, RELEASE, ROOT, helm
from tests.e2e.kubernetes import Kubernetes, eventually
from tests.shell_blocks.running import Shell, find
from tests.support.yaml_documents import load_yaml

FIRST_PORT = 23780
CRDS = {path.stem: path for path in (ROOT / "crds").glob("readonly*.yaml")}
NAMED = [f"{name}.pulsar-readonly.io" for name in sorted(CRDS)]
EVERYTHING = {
    "replicas": 3,
    "image": {"repository": "images.example.org/operator", "digest": "sha256:" + "0" * 64, "pullPolicy": "Always"},
    "engineImage": "images.example.org/engine:1",
    "imagePullSecrets": ["pull"],
    "serviceAccount": {"name": "mine", "annotations": {"example.org/role": "x"}},
    "namespaces": ["default"],
    "explicitLac": {
        "writers": [{"namespace": "default", "configMap": "pulsar-broker", "statefulSet": "pulsar-broker"}]
    },
    "finalizer": True,
    "admissionPolicy": {"enabled": True},
    "log": {"format": "text", "level": "debug"},
    "settings": {"clusterDomain": "k8s.example.org", "resyncSeconds": 300, "workers": 8},
    "podLabels": {"team": "platform"},
    "podAnnotations": {"example.org/x": "y"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "priorityClassName": "high",
    "monitoring": {"dashboard": {"enabled": True}},
}
"""Every value of the chart that needs no other kinds."""
IMAGE = ("--set", "image.repository=images.example.org/pulsar-readonly/operator")
"""The one value without a default."""
OURS = ("-l", "app.kubernetes.io/part-of=pulsar-readonly")
INSIDE = (
    "deployments,roles,rolebindings,serviceaccounts,services,configmaps,secrets,poddisruptionbudgets,networkpolicies"
)


@pytest.fixture(scope="module")
def empty(tmp_path_factory) -> Iterator[Kubernetes]:
    """A cluster that knows nothing of this project; without nodes."""
    with control_plane(tmp_path_factory.mktemp("plane"), FIRST_PORT) as plane:
        yield Kubernetes(str(programs.find("kubectl", programs.KUBE)), str(plane.kubeconfig))


@pytest.fixture
def fresh(empty) -> Iterator[Kubernetes]:
    """The same, with what a test installs taken away after it."""
    yield empty
    empty("delete", "crd", "--ignore-not-found", *NAMED, timeout=60)
    empty("delete", "clusterroles,clusterrolebindings", *OURS)
    if empty("get", "namespace", SYSTEM, "--ignore-not-found", "-o", "name"):
        empty("delete", INSIDE, "--all", "-n", SYSTEM)
        empty("delete", "namespace", SYSTEM, "--wait=false")
        # No controller runs here that would end the namespace.
        ended = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}, "spec": {"finalizers": []}}
        empty("replace", "--raw", f"/api/v1/namespaces/{SYSTEM}/finalize", "-f", "-", stdin=json.dumps(ended))


def definitions(kubernetes: Kubernetes) -> dict[str, dict[str, Any]]:
    found = json.loads(kubernetes("get", "crd", "-o", "json"))["items"]
    return {one["metadata"]["name"]: one for one in found}


def check_definitions(kubernetes: Kubernetes) -> None:
    """What was just installed is served, and explained field by field. test_examples.py applies the examples."""
    kubernetes("wait", "--for=condition=Established", "--timeout=60s", *(f"crd/{name}" for name in NAMED))
    # the API server describes a new kind a moment after it has established it
    explained = eventually(lambda: kubernetes("explain", "robp.spec.explicitLac"))
    assert "bookkeeperExplicitLacIntervalInMills" in explained
    for field in ("interval", "management", "target"):
        assert f"  {field}\t" in explained, explained


def test_by_helm(fresh, tmp_path):
    said = helm(fresh, "install", RELEASE, str(CHART), "--namespace", SYSTEM, "--create-namespace", *IMAGE)
    assert f"kubectl rollout status deployment/pulsar-readonly-operator -n {SYSTEM}" in said
    assert set(definitions(fresh)) == set(NAMED)
    check_definitions(fresh)
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps(EVERYTHING))
    said = helm(fresh, "upgrade", RELEASE, str(CHART), "--namespace", SYSTEM, "--values", str(values), *IMAGE)
    pod = fresh.get("deployment", "pulsar-readonly-operator", SYSTEM)["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["priorityClassName"]) == ("mine", "high")
    assert fresh("get", "clusterroles", *OURS, "-o", "name") == "", "rights in one namespace only"
    assert "kubectl apply --server-side --force-conflicts -f" in said
    helm(fresh, "uninstall", RELEASE, "--namespace", SYSTEM)
    assert set(definitions(fresh)) == set(NAMED), "pools must survive an uninstall"
    left = fresh("get", "deployments,roles,rolebindings,clusterroles,clusterrolebindings", "-A", *OURS, "-o", "name")
    assert left == ""


@pytest.mark.nightly
def test_definitions_are_upgraded_before_helm_upgrades_the_rest(fresh):
    name = NAMED[0]
    older = load_yaml(CRDS[name.partition(".")[0]].read_text())
    spec = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["logLevel"]
    fresh("apply", "--server-side", "-f", "-", stdin=json.dumps(older))
    options = ("--namespace", SYSTEM, "--create-namespace", *IMAGE)
    helm(fresh, "upgrade", "--install", RELEASE, str(CHART), *options)

    def fields() -> set[str]:
        schema = definitions(fresh)[name]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        return set(schema["properties"]["spec"]["properties"])

    assert "logLevel" not in fields()
    fresh("apply", "--server-side", "--force-conflicts", "-f", str(CHART / "crds"))
    assert "logLevel" in fields()
    helm(fresh, "uninstall", RELEASE, "--namespace", SYSTEM)


@pytest.mark.nightly
def test_definitions_of_earlier_commits_are_moved_by_the_commands_of_the_page(fresh, tmp_path):
    """Those had v1alpha1, which they stored and in which they applied statuses, beside v1beta1, with the same schema."""
    for path in CRDS.values():
        former = load_yaml(path.read_text())
        (version,) = former["spec"]["versions"]
        former["spec"]["versions"] = [{**version, "name": "v1alpha1"}, {**version, "storage": False}]
        fresh("apply", "--server-side", "-f", "-", stdin=json.dumps(former))
    fresh("wait", "--for=condition=Established", "--timeout=60s", *(f"crd/{name}" for name in NAMED))
    fresh("apply", "-f", str(ROOT / "examples" / "shared-source.yaml"))
    before = fresh.get("robp", "orders", "default")["metadata"]["uid"]

    def report(version: str) -> None:
        name = {"name": "orders", "namespace": "default"}
        kind = {"apiVersion": f"pulsar-readonly.io/{version}", "kind": "ReadOnlyBrokerPool"}
        status = json.dumps({**kind, "metadata": name, "status": {"observedGeneration": 1}})
        as_operator = ("--server-side", "--subresource=status", "--field-manager=pulsar-readonly-operator")
        fresh("apply", *as_operator, "-f", "-", stdin=status)

    report("v1alpha1")
    refused = fresh.run("apply", "--server-side", "--force-conflicts", "-f", str(CHART / "crds"))
    reason = "(missing from|must appear in) spec.versions"
    assert re.search(f'status.storedVersions\\[0\\]: Invalid value: "v1alpha1": {reason}', refused.stderr)
    folder = tmp_path / "shell"
    folder.mkdir()
    shell = Shell(folder, {"kubectl": (fresh._kubectl,)}, {}, {"KUBECONFIG": fresh.kubeconfig})
    for begin in ("kubectl patch crd", "kubectl get robp", "kubectl patch --subresource"):
        shell.run(find("reference/api-versions.md", begin))
    assert [one["status"]["storedVersions"] for one in definitions(fresh).values()] == [[VERSION]] * len(NAMED)
    assert fresh.get("robp", "orders", "default")["metadata"]["uid"] == before
    report("v1beta1")


@pytest.mark.nightly
def test_by_kustomize(fresh):
    fresh("apply", "-k", str(ROOT / "manifests"))
    check_definitions(fresh)
    enforced = fresh.get("namespace", SYSTEM, "")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    assert enforced == "restricted"
    assert fresh("apply", "-k", str(ROOT / "manifests")).count("unchanged") > 5
    fresh("delete", "-k", str(ROOT / "manifests"), "--wait=false")
    left = fresh("get", "deployments,roles,rolebindings,clusterroles,clusterrolebindings", "-A", *OURS, "-o", "name")
    assert left == ""


@pytest.fixture
def files(tmp_path) -> Path:
    """The files of a release that need no build."""
    release = ReleaseInputs("0.1.0", "registry.example.com/team", "0" * 40, 1_700_000_000)
    write_files(ROOT, release, tmp_path)
    return tmp_path


def released(kubernetes: Kubernetes) -> list[str]:
    """The images that the installed operator runs and gives to brokers."""
    pod = kubernetes.get("deployment", "pulsar-readonly-operator", SYSTEM)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    engine = [one.partition("=")[2] for one in container["args"] if one.startswith("--engine-image=")]
    return [container["image"], *engine]


IMAGES = [f"registry.example.com/team/pulsar-readonly-{name}:0.1.0" for name in ("operator", "engine")]


@pytest.mark.nightly
def test_by_the_one_yaml_of_a_release(fresh, files):
    path = str(files / "install.yaml")
    fresh("apply", "--server-side", "--validate=strict", "-f", path)
    check_definitions(fresh)
    assert released(fresh) == IMAGES
    fresh("delete", "-f", path, "--wait=false")
    assert (
        fresh("get", "deployments,roles,rolebindings,clusterroles,clusterrolebindings", "-A", *OURS, "-o", "name") == ""
    )


@pytest.mark.nightly
def test_by_the_kustomize_bundle_of_a_release(fresh, files):
    with tarfile.open(files / "pulsar-readonly-0.1.0-kustomize.tar.gz") as tar:
        tar.extractall(files)  # our own archive
    folder = str(files / "pulsar-readonly-0.1.0")
    fresh("apply", "--server-side", "-k", folder)
    assert released(fresh) == IMAGES
    fresh("delete", "-k", folder, "--wait=false")


@pytest.mark.nightly
def test_by_the_chart_of_a_release_without_values(fresh, files):
    chart = str(files / "pulsar-readonly-0.1.0.tgz")
    helm(fresh, "install", RELEASE, chart, "--namespace", SYSTEM, "--create-namespace")
    check_definitions(fresh)
    assert released(fresh) == IMAGES
    helm(fresh, "uninstall", RELEASE, "--namespace", SYSTEM)
