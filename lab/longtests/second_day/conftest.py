"""Local Kubernetes clusters with the operator, and a Pulsar on this machine that the pods of all of them reach."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from devstack.cache import cache_root
from devstack.kube.kind import kind_usable
from devstack.kube.layout import NUMBER_VARIABLE, Layout, Network
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import PulsarSpec, Site
from tests.e2e.kubernetes import Kubernetes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT: Final = Path(__file__).parents[3]
SYSTEM: Final = "pulsar-readonly-system"
DEPLOYMENT: Final = ("deployment/pulsar-readonly-operator", "-n", SYSTEM)
BASE_PORT: Final = 20700
SMALL: Final = {"requests": {"cpu": "20m", "memory": "96Mi"}}
MEASURED = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--upgrade-from", help="commit or tag of the version before, for test_upgrade.py")


def devstack(number: int, *arguments: str, folder: Path = ROOT, timeout: float = 1800) -> None:
    """Run a command of a checkout's devstack for a cluster."""
    # What is installed is the devstack of this checkout.
    environment = {**os.environ, NUMBER_VARIABLE: str(number), "PYTHONPATH": str(folder / "lab")}
    subprocess.run(
        [sys.executable, "-m", "devstack", *arguments], cwd=folder, env=environment, check=True, timeout=timeout
    )


@pytest.fixture(scope="session")
def cluster() -> Iterator[Callable[[int], Kubernetes]]:
    """Starts a cluster by its number; those that did not run before are removed in the end."""
    if kind_usable():
        pytest.skip("a Docker engine runs here, and the clusters need nodes that are processes of this machine")
    started: list[int] = []

    def start(number: int) -> Kubernetes:
        layout = Layout(cache_root() / "kube", number)
        if not layout.running_nodes():
            started.append(number)
        devstack(number, "kube", "up")
        return Kubernetes(str(layout.bin / "kubectl"), str(layout.kubeconfig))

    yield start
    for number in reversed(started):
        devstack(number, "kube", "down", "--purge")


@pytest.fixture(scope="session")
def source(cluster) -> Iterator[PulsarCluster]:
    """A Pulsar at the host's address in the nodes' network of the first cluster."""
    cluster(1)
    spec = PulsarSpec(name="second-day", base_port=BASE_PORT, bookies=2, brokers=1, quick=True)
    site = Site(host=Network(1).host, interface=Network(1).link)
    stack = PulsarCluster(spec, sites=dict.fromkeys(("zookeeper", "bookie-0", "bookie-1", "broker-0"), site))
    try:
        stack.up()
        yield stack
    finally:
        stack.down(purge=True)


@pytest.fixture
def name() -> str:
    """A name that nobody else uses, for namespaces and topics."""
    return f"day2-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def measured(request) -> Callable[[str], None]:
    """Notes a figure for the end of the test run."""
    return request.config.stash.setdefault(MEASURED, []).append


def pytest_terminal_summary(terminalreporter, config) -> None:
    for line in config.stash.get(MEASURED, []):
        terminalreporter.write_line(f"measured: {line}")


def connection(stack: PulsarCluster) -> dict[str, str]:
    """The field spec.source of pools of a stack."""
    ends = stack.endpoints
    return {"serviceUrl": ends.writer_url, "adminUrl": ends.admin_url, "metadataStoreUrl": ends.metadata_store}


def manifests(namespace: str, source: dict[str, str], name: str = "demo", **spec: Any) -> list[dict[str, Any]]:
    """A pool of two brokers, and a binding of all topics whose names begin with the namespace's."""
    metadata = {"name": name, "namespace": namespace}
    kinds = {"apiVersion": "pulsar-readonly.io/v1beta1", "metadata": metadata}
    topics = [f"persistent://public/default/{namespace}-.*"]
    return [
        {
            **kinds,
            "kind": "ReadOnlyBrokerPool",
            "spec": {"source": source, "replicas": 2, "resources": SMALL, **spec},
        },
        {**kinds, "kind": "ReadOnlyTopicBinding", "spec": {"poolRef": {"name": name}, "topics": topics}},
    ]
