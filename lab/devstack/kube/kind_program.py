"""The commands of kind that pytest-kind uses, for the local cluster. With a Docker engine it executes the real kind.

A machine has one local cluster with several names. Creating a second cluster adds a name, and deleting a cluster removes its
name. The cluster ends with its last name.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from devstack.errors import DevstackError
from devstack.images.builders import load
from devstack.images.targets import by_image
from devstack.kube.kind import kind_usable
from devstack.kube.layout import default_layout
from devstack.kube.local import LocalCluster

_DEFAULT_NAME = "kind"


def main(argv: list[str]) -> int:
    """Run a command of kind; return the exit status."""
    if kind_usable():
        os.execvp("kind", ["kind", *argv])  # noqa: S606  the user's own kind, with the user's own arguments
    args = _parser().parse_args(argv)
    try:
        return int(args.run(LocalCluster(default_layout()), args) or 0)
    except DevstackError as error:
        print(f"ERROR: {error.text}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kind", description="kind's commands on the devstack's local cluster")
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")

    get = verbs.add_parser("get").add_subparsers(required=True, metavar="WHAT")
    get.add_parser("clusters").set_defaults(run=_get_clusters)
    kubeconfig = get.add_parser("kubeconfig")
    kubeconfig.set_defaults(run=_get_kubeconfig)

    create = verbs.add_parser("create").add_subparsers(required=True, metavar="WHAT").add_parser("cluster")
    create.add_argument("--image", help="ignored: the local cluster has its own version")
    create.add_argument("--config", type=Path, help="kind configuration; only its number of nodes is used")
    create.set_defaults(run=_create)

    delete = verbs.add_parser("delete").add_subparsers(required=True, metavar="WHAT").add_parser("cluster")
    delete.set_defaults(run=_delete)

    loading = verbs.add_parser("load").add_subparsers(required=True, metavar="WHAT").add_parser("docker-image")
    loading.add_argument("images", nargs="+", metavar="IMAGE")
    loading.set_defaults(run=_load)

    for command in (kubeconfig, create, delete, loading):
        command.add_argument("--name", default=_DEFAULT_NAME)
    for command in (create, delete):
        command.add_argument("--kubeconfig", type=Path)
    return parser


def _get_clusters(cluster: LocalCluster, args: argparse.Namespace) -> None:
    del args
    status = cluster.status()
    if status.up:
        print("\n".join(status.names))


def _get_kubeconfig(cluster: LocalCluster, args: argparse.Namespace) -> None:
    status = cluster.status()
    if not status.up or args.name not in status.names:
        raise DevstackError(f"there is no cluster called {args.name}")
    sys.stdout.write(cluster.kubeconfig.read_text())


def _create(cluster: LocalCluster, args: argparse.Namespace) -> None:
    status = cluster.status()
    if status.up and args.name in status.names:
        raise DevstackError(f"a cluster called {args.name} exists already")
    if not status.up:
        cluster.down(purge=True)  # state from before a reboot; kind makes a new cluster, too
    cluster.up(_nodes_of(args.config), args.name)
    if args.kubeconfig is not None:
        args.kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(cluster.kubeconfig, args.kubeconfig)
        args.kubeconfig.chmod(0o600)


def _delete(cluster: LocalCluster, args: argparse.Namespace) -> None:
    if args.name in cluster.status().names:
        cluster.down(purge=True, name=args.name)
    if args.kubeconfig is not None:
        args.kubeconfig.unlink(missing_ok=True)


def _load(cluster: LocalCluster, args: argparse.Namespace) -> None:
    del cluster
    for image in args.images:
        load(by_image(image))


def _nodes_of(config: Path | None) -> int:
    """Return the number of nodes in a kind configuration: one for each listed role."""
    if config is None:
        return 1
    return max(1, sum(line.strip().startswith("- role:") for line in config.read_text().splitlines()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
