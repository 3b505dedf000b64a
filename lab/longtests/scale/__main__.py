"""`make -C lab scale`: the cost of hundreds of pools and thousands of bindings for the operator and a real API server."""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from devstack.console import say, step
from devstack.errors import DevstackError
from devstack.program import run_program
from longtests.scale import audit, report
from longtests.scale.control_plane import Client, ControlPlane, ScaleError, control_plane
from longtests.scale.installing import install
from longtests.scale.objects import BINDINGS, POOLS, Load, wait_until_settled
from longtests.scale.operator_process import FAILED, Operator, operator
from longtests.scale.phase import Phase
from longtests.scale.stand_ins import nodes
from longtests.scale.watching import ReadyChanges, watched
from longtests.scale.writers import writers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

ROOT = Path(__file__).resolve().parents[3]
SETTLE_SECONDS = 900.0
WRITERS = 4
IMAGES = ("images.example.org/pulsar-readonly-engine:1", "images.example.org/pulsar-readonly-engine:2")
"""Of the brokers, before and after the rollout."""


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status: 0 all settled, 1 an object did not settle."""
    parser = argparse.ArgumentParser(prog="make -C lab scale", description=__doc__)
    parser.add_argument("--pools", type=int, default=200, help="number of pools (default %(default)s)")
    parser.add_argument("--brokers", type=int, default=3, help="brokers of each pool; 0 for none (default %(default)s)")
    parser.add_argument(
        "--rolling-pools", type=int, default=20, help="pools that roll at the same time (default %(default)s)"
    )
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
    parser.add_argument(
        "--operator",
        type=Path,
        default=ROOT,
        metavar="FOLDER",
        help="measure the operator, CRDs and manifests of another checkout, such as of an older commit",
    )
    parser.add_argument("--write", action="store_true", help="write docs/explanation/scale.md")
    args = parser.parse_args(argv)
    if args.bindings % args.pools or args.pools < args.namespaces:
        parser.error("--bindings must be a multiple of --pools, and --pools at least --namespaces")
    if args.brokers < 0 or args.rolling_pools < 1:
        parser.error("--brokers must be 0 or more, and --rolling-pools 1 or more")
    if not (args.operator / "operator" / "readonly_operator").is_dir():
        parser.error(f"--operator {args.operator}: there is no operator/readonly_operator; name a checkout")
    if args.write and args.operator != ROOT:
        parser.error("--write and --operator: the page has the figures of this checkout")
    try:
        with tempfile.TemporaryDirectory(prefix="pulsar-readonly-scale-") as folder, writers(WRITERS) as sources:
            load = Load(args.pools, args.bindings, args.namespaces, sources, args.brokers, args.together)
            with ExitStack() as stack:
                with step("starting etcd, kube-apiserver and the controller of StatefulSets"):
                    plane = stack.enter_context(control_plane(Path(folder)))
                install(plane.client(), load.names(), args.operator)
                if load.brokers:
                    stack.enter_context(nodes(plane.client()))
                phases, peak = _run(plane, load, args)
    except (ScaleError, DevstackError) as error:
        say(f"make -C lab scale: {error}")
        return 1
    text = report.text(load, phases, peak, args.rolling_pools)
    sys.stdout.write(text)
    if args.write:
        (ROOT / "docs" / "explanation" / "scale.md").write_text(text)
    return 0


def _run(plane: ControlPlane, load: Load, args: argparse.Namespace) -> tuple[list[Phase], float]:
    client, idle_seconds = plane.client(), args.idle_seconds
    phases = []

    def started(image: str = IMAGES[0]) -> AbstractContextManager[Operator]:
        return operator(plane, args.operator.resolve(), image, args.rolling_pools)

    with started() as running:
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
    with started() as running:
        with _phase(plane, running, "restart of the operator", since_start=True) as phase:
            phases.append(phase)
            running.wait_until_looked_at(load.pools, SETTLE_SECONDS)
        _check(running)
    client.merge(load.changes(load.pools, "meanwhile"))
    with started() as running:
        with _phase(plane, running, "restart, each pool changed meanwhile", since_start=True) as phase:
            phases.append(phase)
            wait_until_settled(client, load, SETTLE_SECONDS)
        peak = max(peak, running.peak_mib())
        _check(running)
    if not load.brokers:
        return phases, peak
    with started(IMAGES[1]) as running:
        with _phase(plane, running, "restart with another image: a rollout", since_start=True) as phase:
            phases.append(phase)
            _roll(client, load, phase)
        peak = max(peak, running.peak_mib())
        _check(running)
    return phases, peak


def _roll(client: Client, load: Load, phase: Phase) -> None:
    """Wait until all pods have the second image, and count how often an object was not ready meanwhile."""
    pools, bindings = ReadyChanges(), ReadyChanges()
    with watched(client, POOLS, pools.take), watched(client, BINDINGS, bindings.take):
        wait_until_settled(client, load, SETTLE_SECONDS, IMAGES[1])
    phase.brokers = load.pools * load.brokers
    phase.pools, phase.bindings = (pools.objects, pools.most), (bindings.objects, bindings.most)


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


if __name__ == "__main__":
    run_program(main)
