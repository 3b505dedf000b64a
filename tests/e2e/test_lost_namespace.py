"""One of two served namespaces is deleted while the operator runs, and made again: a real API server, with Roles in each.

The operator runs as a process with the rights that the chart grants, beside an API server of its own, without nodes.
"""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devstack.kube import programs
from longtests.scale.control_plane import OPERATOR, control_plane, stop
from tests.e2e.conftest import SYSTEM, _pool
from tests.e2e.install import CHART, ROOT, helm
from tests.e2e.kubernetes import Kubernetes
from tests.support.waiting import wait_until
from tests.support.yaml_documents import load_all_yaml

pytestmark = pytest.mark.nightly

FIRST_PORT, METRICS_PORT = 23790, 23795
BILLING, ORDERS = "billing", "orders"
WATCH_SECONDS = 120.0
"""How long a watch lasts before kopf asks again."""
KOPF_SECONDS = 54.0
"""How long kopf by itself repeats a refused watch before it ends."""
REPAIR_SECONDS = 30.0


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    with control_plane(
        tmp_path_factory.mktemp("plane"), FIRST_PORT, ("statefulset-controller", "namespace-controller")
    ) as made:
        yield made


@pytest.fixture(scope="module")
def cluster(plane) -> Kubernetes:
    made = Kubernetes(str(programs.find("kubectl", programs.KUBE)), str(plane.kubeconfig))
    made("apply", "--server-side", "-f", str(ROOT / "crds" / "readonlybrokerpools.yaml"))
    for name in ("readonlytopicbindings", "readonlysources"):
        made("apply", "--server-side", "-f", str(ROOT / "crds" / f"{name}.yaml"))
    made("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all", timeout=90)
    return made


@pytest.fixture(scope="module")
def grant(cluster) -> Callable[[str], None]:
    """Makes a namespace, and the rights in it that the chart grants."""
    names = ("--set", f"namespaces={{{BILLING},{ORDERS}}}", "--set", "image.repository=images.example.org/operator")
    rendered = list(
        load_all_yaml(
            helm(cluster, "template", "x", str(CHART), "--namespace", SYSTEM, "--kube-version", "1.30.0", *names)
        )
    )

    def grant(namespace: str) -> None:
        cluster("create", "namespace", namespace)
        for body in rendered:
            if body["metadata"].get("namespace") == namespace:
                if body["kind"] == "RoleBinding":
                    body["subjects"] = [{"kind": "User", "name": OPERATOR, "apiGroup": "rbac.authorization.k8s.io"}]
                cluster("apply", "-f", "-", stdin=json.dumps(body))

    return grant


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("operator") / "log"


@pytest.fixture(scope="module")
def process(plane, grant, log) -> Iterator[subprocess.Popen[bytes]]:
    """The operator of both namespaces."""
    for namespace in (BILLING, ORDERS):
        grant(namespace)
    command = [sys.executable, "-m", "readonly_engine.command", "operator", "--engine-image=engine"]
    command += [f"--metrics=127.0.0.1:{METRICS_PORT}", f"--namespace={BILLING}", f"--namespace={ORDERS}"]
    with log.open("wb") as file:
        started = subprocess.Popen(
            command, env={**os.environ, "KUBECONFIG": str(plane.operators_kubeconfig)}, stdout=file, stderr=file
        )
    yield started
    stop(started)


@pytest.fixture
def readable(process, log) -> Callable[[str], str]:
    """Returns the metric of a namespace; fails when the operator has ended."""

    def readable(name: str) -> str:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{METRICS_PORT}/metrics", timeout=10) as answer:
                text = answer.read().decode()
        except OSError:
            return ""
        found = re.search(rf'namespace_readable{{name="{name}"}} (\S+)', text)
        return found[1] if found else ""

    return readable


@pytest.fixture
def check_served(cluster, process, log) -> Callable[[str], None]:
    """Deletes the Service of the pool of a namespace: a served one gets it back soon."""

    def check(namespace: str) -> None:
        cluster("delete", "service", "demo", "-n", namespace, "--ignore-not-found")

        def repaired() -> bool:
            assert process.poll() is None, log.read_text()[-3000:]
            return bool(cluster("get", "service", "demo", "-n", namespace, "--ignore-not-found", "-o", "name"))

        wait_until(repaired, REPAIR_SECONDS, f"a Service for the pool of {namespace}")

    return check


def test_the_other_namespace_is_served_throughout(cluster, grant, process, readable, check_served, log, measured):
    wait_until(lambda: readable(ORDERS) == "1.0", 60)
    for namespace in (BILLING, ORDERS):
        cluster("apply", "-f", "-", stdin=json.dumps(_pool(namespace, replicas=1)))
        check_served(namespace)

    began = time.monotonic()
    cluster("delete", "namespace", ORDERS, "--timeout=60s", timeout=90)

    def lost() -> bool:
        check_served(BILLING)
        return readable(ORDERS) == "0.0"

    wait_until(lost, WATCH_SECONDS + 60.0)
    measured(f"a deleted namespace was noticed after {time.monotonic() - began:.0f} s")
    assert readable(BILLING) == "1.0"
    assert log.read_text().count(f"namespace not readable, trying again: namespace={ORDERS}") == 1
    began = time.monotonic()

    def survived() -> bool:
        check_served(BILLING)
        return time.monotonic() - began > KOPF_SECONDS + 20.0

    wait_until(survived, KOPF_SECONDS + 60.0)
    assert log.read_text().count("Request attempt #2") == 0, "each of the many watches would log each try"

    grant(ORDERS)
    cluster("apply", "-f", "-", stdin=json.dumps(_pool(ORDERS, replicas=1)))
    began = time.monotonic()
    wait_until(lambda: readable(ORDERS) == "1.0", 60)
    measured(f"the namespace was taken up again after {time.monotonic() - began:.0f} s")
    check_served(ORDERS)
    cluster("patch", "robp/demo", "-n", ORDERS, "--type=merge", "-p", '{"spec":{"replicas":2}}')

    def scaled() -> bool:
        return cluster.get("statefulset", "demo", ORDERS)["spec"]["replicas"] == 2

    wait_until(scaled, REPAIR_SECONDS, "the watches of the namespace")
    check_served(BILLING)
    assert process.poll() is None
