"""`python -m devstack kube`: Kubernetes by kind if a Docker engine runs, otherwise on local nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from devstack.kube.choice import DEFAULT_NAME, choose
from devstack.kube.layout import MAX_NODES, check_node_count
from devstack.kube.programs import EXTRAS

if TYPE_CHECKING:
    import argparse


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add up, down, status and build."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start the cluster; running parts stay as they are")
    up.add_argument("--nodes", type=int, default=1, help=f"number of nodes, 1 to {MAX_NODES} (default 1)")
    up.add_argument(
        "--fresh", action="store_true", help="delete the state of a cluster that does not run, as kind does"
    )
    up.set_defaults(run=_up)
    down = commands.add_parser("down", help="stop the cluster; no process, mount, link, route or cgroup is left")
    down.add_argument("--purge", action="store_true", help="delete its state, so that the next up makes a new cluster")
    down.set_defaults(run=_down)
    status = commands.add_parser("status", help="print the status; exit status 1 if the API server does not answer")
    status.add_argument("--json", action="store_true", help="print JSON")
    status.set_defaults(run=_status)
    build = commands.add_parser("build", help="build the programs and images only (`up` does so itself)")
    build.add_argument(
        "--with", action="append", default=[], choices=sorted(EXTRAS), dest="extras", help="also build this program"
    )
    build.set_defaults(run=_build)


def _up(args: argparse.Namespace) -> int:
    cluster = choose()
    nodes = check_node_count(args.nodes)
    if args.fresh and not cluster.status().up:
        cluster.down(purge=True)
    cluster.up(nodes, DEFAULT_NAME)
    print(f"export KUBECONFIG={cluster.kubeconfig}")
    return 0


def _down(args: argparse.Namespace) -> int:
    choose().down(purge=args.purge)
    return 0


def _status(args: argparse.Namespace) -> int:
    status = choose().status()
    if args.json:
        print(json.dumps(status.as_json(), indent=2))
    else:
        print("\n".join(status.lines()))
        if status.up:
            print(f"export KUBECONFIG={status.kubeconfig}")
    return 0 if status.up else 1


def _build(args: argparse.Namespace) -> int:
    choose().build(args.extras)
    return 0
