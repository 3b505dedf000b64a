"""A Kubernetes with the operator and a source Pulsar in it, and a namespace for each test.

    pytest tests/e2e --kind-bin=lab/devstack/bin/kind --kind-kubectl-bin=PATH --keep-cluster

With a Docker engine that is kind; else the devstack's own node answers as the kind program.
"""

import pathlib
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.install import WAYS, install
from tests.e2e.kubernetes import Kubernetes, eventually

ROOT = pathlib.Path(__file__).parents[2]
SYSTEM = "pulsar-readonly-system"
WRITER = "pulsar"
SOURCE = {
    "serviceUrl": f"pulsar://pulsar-broker.{WRITER}.svc.cluster.local:6650",
    "adminUrl": f"http://pulsar-broker.{WRITER}.svc.cluster.local:8080",
    "metadataStoreUrl": f"zk:pulsar-zookeeper.{WRITER}.svc.cluster.local:2181",
}
FAILED = pytest.StashKey[bool]()
MEASURED = pytest.StashKey[list[str]]()


def pytest_addoption(parser):
    parser.addoption(
        "--install-by", choices=WAYS, default="kustomize", help="how the operator is installed (default: %(default)s)"
    )
    parser.addoption(
        "--chaos-seed", type=int, help="when test_chaos_operator.py kills the operator (default: one that is printed)"
    )


def devstack(*arguments: str, timeout: float) -> None:
    """Run a command of the devstack."""
    subprocess.run([sys.executable, "-m", "devstack", *arguments], cwd=ROOT, check=True, timeout=timeout)


@pytest.fixture(scope="session")
def _kubeconfig(request) -> None:
    """The kubeconfig of a cluster that runs already: pytest-kind has one only of clusters that it made."""
    kind, name = request.config.getoption("kind_bin"), request.config.getoption("cluster_name")
    if kind is None or request.config.getoption("kubeconfig"):
        return
    found = subprocess.run(
        [kind, "get", "kubeconfig", "--name", name], capture_output=True, text=True, check=False, timeout=60
    )
    path = pathlib.Path(".pytest-kind") / name / "kubeconfig"
    if found.returncode == 0 and found.stdout:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o600)
        path.write_text(found.stdout)
    else:
        path.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def kind_cluster(_kubeconfig, kind_cluster):
    """pytest-kind's cluster, also when it ran before."""
    return kind_cluster


@pytest.fixture(scope="session")
def kubernetes(kind_cluster) -> Kubernetes:
    """The cluster, with the images in it."""
    kind_cluster.ensure_kubectl()
    for image in ("operator", "engine"):
        devstack("image", "build", "--load", image, timeout=900)
    return Kubernetes(str(kind_cluster.kubectl_path.absolute()), str(kind_cluster.kubeconfig_path.absolute()))


@pytest.fixture(scope="session")
def client_image(kubernetes) -> None:
    """The stock clients' image is in the cluster."""
    devstack("image", "build", "--load", "client", timeout=900)


@pytest.fixture(scope="session")
def way(request) -> str:
    """How the operator is installed."""
    return request.config.getoption("install_by", "kustomize")


@pytest.fixture(scope="session")
def operator(kubernetes, way) -> Kubernetes:
    """The cluster with the operator of this checkout running in it, as `kubectl apply -k` or Helm installs it."""
    deployment = ("deployment/pulsar-readonly-operator", "-n", SYSTEM)
    former = kubernetes("get", *deployment, "--ignore-not-found", "-o", "name").strip()
    install(kubernetes, way, SYSTEM)
    if former:  # the image's tag is always the same: a new build needs new pods
        kubernetes("rollout", "restart", *deployment)
    kubernetes("rollout", "status", *deployment, "--timeout=180s", timeout=200)
    return kubernetes


@pytest.fixture(scope="session")
def writer(kubernetes) -> str:
    """A source Pulsar in the cluster; its namespace."""
    devstack("writer", "up", timeout=900)
    return WRITER


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if outcome.get_result().failed:
        item.stash[FAILED] = True


@pytest.fixture
def measured(request) -> Callable[[str], None]:
    """Notes a figure for the end of the test run."""
    return request.config.stash.setdefault(MEASURED, []).append


def pytest_terminal_summary(terminalreporter, config):
    for line in config.stash.get(MEASURED, []):
        terminalreporter.write_line(f"measured: {line}")


@pytest.fixture
def namespace(request, kubernetes) -> Iterator[str]:
    """A namespace of the test's own. What is in it is shown when the test fails."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    kubernetes.create_namespace(name)
    yield name
    if request.node.stash.get(FAILED, False):
        for command in (
            ("get", "robp,rotb,ros,statefulset,service,configmap,pods", "-n", name, "-o", "wide"),
            ("get", "robp,rotb,ros", "-n", name, "-o", "yaml"),
            ("get", "events", "-n", name, "--sort-by=.lastTimestamp"),
            ("logs", "-n", name, "-l", "app.kubernetes.io/part-of=pulsar-readonly", "--prefix", "--tail=50"),
            ("logs", "-n", SYSTEM, "deployment/pulsar-readonly-operator", "--tail=100"),
        ):
            done = kubernetes.run(*command)
            sys.stderr.write(f"\n--- kubectl {' '.join(command)}\n{done.stdout}{done.stderr}")
    kubernetes.delete_namespace(name)


SMALL = {"requests": {"cpu": "20m", "memory": "96Mi"}}
"""Requests by which many brokers fit on a small machine."""


def _pool(namespace: str, name: str = "demo", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "pulsar-readonly.io/v1beta1",
        "kind": "ReadOnlyBrokerPool",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"source": dict(SOURCE), "resources": SMALL, **spec},
    }


def _binding(namespace: str, name: str, *topics: str, pool: str = "demo") -> dict[str, Any]:
    return {
        "apiVersion": "pulsar-readonly.io/v1beta1",
        "kind": "ReadOnlyTopicBinding",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"poolRef": {"name": pool}, "topics": list(topics)},
    }


@pytest.fixture
def pool(namespace) -> Callable[..., dict[str, Any]]:
    """Makes a pool in the test's namespace: name, fields of its spec."""
    return lambda name="demo", **spec: _pool(namespace, name, **spec)


@pytest.fixture
def binding(namespace) -> Callable[..., dict[str, Any]]:
    """Makes a binding in the test's namespace: name, topics, pool."""
    return lambda name, *topics, pool="demo": _binding(namespace, name, *topics, pool=pool)


@pytest.fixture
def may_finalize(operator, namespace) -> Iterator[None]:
    """What `finalizer: true` of the chart and manifests/explicit-lac grant, in the test's namespace."""
    kinds = ["readonlybrokerpools", "readonlytopicbindings"]
    operator.grant(
        namespace, "finalizers", {"apiGroups": ["pulsar-readonly.io"], "resources": kinds, "verbs": ["patch"]}
    )
    yield
    # the rights go with the namespace; an object that is not being deleted gets the finalizer again
    operator("delete", "robp,rotb", "--all", "-n", namespace, "--wait=false")
    for one in operator.list("robp,rotb", namespace):
        if one["metadata"].get("finalizers"):
            names = (one["kind"], one["metadata"]["name"], "-n", namespace)
            operator.run("patch", *names, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


@pytest.fixture(name="eventually")
def _eventually() -> Callable[..., Any]:
    """See eventually."""
    return eventually
