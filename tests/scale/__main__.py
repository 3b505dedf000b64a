"""`make scale`: measures the cost of hundreds of pools and thousands of bindings for the operator and a real API server."""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from devstack.console import say, step
from devstack.errors import DevstackError
from devstack.program import run_program
from tests.scale import audit, report
from tests.scale.control_plane import OPERATOR, Client, ControlPlane, ScaleError, control_plane
from tests.scale.objects import POOLS, Load, wait_until_settled
from tests.scale.operator_process import FAILED, Operator, operator
from tests.scale.phase import Phase
from tests.scale.writers import writers

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SETTLE_SECONDS = 900.0
WRITERS = 4


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status: 0 all settled, 1 an object did not settle."""
    parser = argparse.ArgumentParser(prog="make scale", description=__doc__)
    parser.add_argument("--pools", type=int, default=200, help="number of pools with replicas: 0 (default %(default)s)")
    parser.add_argument(
        "--bindings", type=int, default=2000, help="number of bindings of all pools (default %(default)s)"
    )
    parser.add_argument(
        "--namespaces", type=int, default=10, help="number of namespaces of the pools (default %(default)s)"
    )
    parser.add_argument("--idle-seconds", type=float, default=180.0, help="time without a change (default %(default)s)")
    parser.add_argument(
        "--together", action="store_true", help="put all topics into one namespace of Pulsar: the worst case"
    )
    parser.add_argument("--write", action="store_true", help="write docs/explanation/scale.md")
    args = parser.parse_args(argv)
    if args.bindings % args.pools or args.pools < args.namespaces:
        parser.error("--bindings must be a multiple of --pools, and --pools at least --namespaces")
    try:
        with tempfile.TemporaryDirectory(prefix="pulsar-readonly-scale-") as folder, writers(WRITERS) as sources:
            load = Load(args.pools, args.bindings, args.namespaces, sources, args.together)
            with step("starting etcd and a kube-apiserver"), control_plane(Path(folder)) as plane:
                _install(plane.client(), load)
                phases, peak = _run(plane, load, args.idle_seconds)
    except (ScaleError, DevstackError) as error:
        say(f"make scale: {error}")
        return 1
    text = report.text(load, phases, peak)
    sys.stdout.write(text)
    if args.write:
        (ROOT / "docs" / "explanation" / "scale.md").write_text(text)
    return 0


def _run(plane: ControlPlane, load: Load, idle_seconds: float) -> tuple[list[Phase], float]:
    client = plane.client()
    phases = []
    with operator(plane) as running:
        running.wait_until_looked_at(0, SETTLE_SECONDS)
        with _phase(plane, running, "idle, without a pool", waits=True) as phase:
            phases.append(phase)
            time.sleep(min(idle_seconds, 30))
        with _phase(plane, running, "create everything") as phase:
            phases.append(phase)
            client.create(load.all_pools())
            client.create(load.all_bindings())
            say(f"{load.pools} pools and {load.bindings} bindings created")
            wait_until_settled(client, load, SETTLE_SECONDS)
        with _phase(plane, running, "no change", waits=True) as phase:
            phases.append(phase)
            time.sleep(idle_seconds)
        with _phase(plane, running, "change one binding") as phase:
            phases.append(phase)
            client.merge(load.changes(1, "one"))
            wait_until_settled(client, load, SETTLE_SECONDS)
        with _phase(plane, running, "change a binding of each pool") as phase:
            phases.append(phase)
            client.merge(load.changes(load.pools, "other"))
            wait_until_settled(client, load, SETTLE_SECONDS)
        peak = running.peak_mib()
        _check(running)
    with operator(plane) as running:
        with _phase(plane, running, "restart of the operator", since_start=True) as phase:
            phases.append(phase)
            running.wait_until_looked_at(load.pools, SETTLE_SECONDS)
        _check(running)
    client.merge(load.changes(load.pools, "meanwhile"))
    with operator(plane) as running:
        with _phase(plane, running, "restart, each pool changed meanwhile", since_start=True) as phase:
            phases.append(phase)
            wait_until_settled(client, load, SETTLE_SECONDS)
        peak = max(peak, running.peak_mib())
        _check(running)
    return phases, peak


@contextmanager
def _phase(
    plane: ControlPlane, running: Operator, name: str, *, since_start: bool = False, waits: bool = False
) -> Iterator[Phase]:
    phase = Phase(name, waits)
    began, cpu = (running.began, 0.0) if since_start else (time.monotonic(), running.cpu_seconds())
    begin = audit.now() - dt.timedelta(seconds=time.monotonic() - began)
    with step(name):
        yield phase
    phase.seconds = time.monotonic() - began
    phase.requests = audit.between(plane.audit_log, begin, audit.now())
    phase.cpu_seconds = running.cpu_seconds() - cpu
    phase.resident_mib = running.resident_mib()
    say(f"  {phase.requests.total()} requests: {dict(phase.requests)}; {phase.resident_mib:.0f} MiB")


def _check(running: Operator) -> None:
    found = running.metrics() or {}
    if found.get(FAILED):
        raise ScaleError(f"{found[FAILED]:.0f} reconciliations of pools failed:\n{running.log.read_text()[-2000:]}")


def _install(client: Client, load: Load) -> None:
    """Create definitions, namespaces and the operator's rights of manifests/."""
    for name in ("readonlybrokerpools", "readonlytopicbindings"):
        body = yaml.safe_load((ROOT / "crds" / f"{name}.yaml").read_text())
        client.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    client.create(("/api/v1/namespaces", {"metadata": {"name": name}}) for name in load.names())
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    for path in sorted((ROOT / "manifests").rglob("*.yaml")):
        for body in yaml.safe_load_all(path.read_text()):
            if body["kind"] == "ClusterRole":
                client.request("POST", f"{rbac}/clusterroles", body)
                client.request("POST", f"{rbac}/clusterrolebindings", _binding(body["metadata"]["name"]))
    deadline = time.monotonic() + 30
    while True:
        try:
            client.list(POOLS)
        except ScaleError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


def _binding(role: str) -> dict[str, object]:
    return {
        "metadata": {"name": f"scale-{role}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": OPERATOR}],
    }


if __name__ == "__main__":
    run_program(main)
