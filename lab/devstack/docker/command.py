"""`python -m devstack kind`: real kind on a Docker engine of its own, where no Docker engine runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from devstack.cache import cache_root
from devstack.common.locks import file_lock
from devstack.console import say, step
from devstack.docker.engine import SOURCE, Engine
from devstack.docker.images import load_images
from devstack.docker.node_image import ensure_node_image
from devstack.errors import DevstackError
from devstack.kube.choice import DEFAULT_NAME
from devstack.kube.kind import docker_runs
from devstack.kube.layout import MAX_NODES, check_node_count

if TYPE_CHECKING:
    import argparse
    from contextlib import AbstractContextManager

_CREATE_DEADLINE = 900.0
_LINKED = ("pulsar", "downloads", "clients", "oxia", "objectstore")


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add up, down and run."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up = commands.add_parser(
        "up", help="start a Docker engine in namespaces, and a cluster of kind on it, with the images"
    )
    up.add_argument("--nodes", type=int, default=1, help=f"number of nodes for pods, 1 to {MAX_NODES} (default 1)")
    up.set_defaults(run=_up)
    run_ = commands.add_parser("run", help="run a command in the engine's namespaces, with docker, kind and kubectl")
    run_.add_argument("argv", nargs="+", metavar="ARGUMENT", help="program and arguments, after --")
    run_.set_defaults(run=_run)
    down = commands.add_parser("down", help="end the cluster and the engine; images stay in the cache")
    down.set_defaults(run=_down)


def _up(args: argparse.Namespace) -> int:
    nodes = check_node_count(args.nodes)
    if docker_runs():
        raise DevstackError(
            "kind: a Docker engine runs here already", "use it: make test-e2e makes a cluster by kind on it"
        )
    engine = Engine()
    with _locked(engine):
        engine.start()
        _link_cache(engine)
        image = ensure_node_image(engine)
        _create(engine, image, nodes)
    load_images(engine)
    say("kind is up: run commands by python -m devstack kind run -- COMMAND")
    return 0


def _run(args: argparse.Namespace) -> int:
    engine = Engine()
    argv = [*engine.enter(), "env", f"--chdir={Path.cwd()}", *args.argv]
    os.execvpe(argv[0], argv, engine.environment())  # noqa: S606  the user's own command


def _down(args: argparse.Namespace) -> int:
    del args
    engine = Engine()
    with _locked(engine):
        if engine.runs():
            engine.run("kind", "delete", "cluster", f"--name={DEFAULT_NAME}", what="deleting the cluster of kind")
        engine.stop()
    say("kind and its Docker engine are down")
    return 0


def _locked(engine: Engine) -> AbstractContextManager[None]:
    return file_lock(engine.root / "lock", "kind")


def _link_cache(engine: Engine) -> None:
    """Link the machine's downloads and programs into the cache of the namespaces."""
    root = cache_root()
    (engine.cache / "kube").mkdir(parents=True, exist_ok=True)
    for source, link in (
        *((root / name, engine.cache / name) for name in _LINKED),
        *((root / "kube" / name, engine.cache / "kube" / name) for name in ("builds", "cache")),
    ):
        source.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(source)


def _create(engine: Engine, image: str, nodes: int) -> None:
    """Create the cluster unless it exists, and let DNS answer.

    Raises:
        DevstackError: kind could not create it.
    """
    if DEFAULT_NAME in engine.run("kind", "get", "clusters", what="asking kind for its clusters").split():
        return
    roles = ["control-plane", *["worker"] * (nodes if nodes > 1 else 0)]
    config = {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": {"kubeProxyMode": "nftables"},  # the kube-proxy image has nft, and no iptables
        # since 1.35 kubelet refuses cgroup v1 by default
        "kubeadmConfigPatches": [json.dumps({"kind": "KubeletConfiguration", "failCgroupV1": False})],
        "nodes": [{"role": role} for role in roles],
    }
    kubeconfig = engine.root / "kubeconfig"
    create = ("kind", "create", "cluster", f"--name={DEFAULT_NAME}", f"--image={image}", "--wait=180s", "--config=-")
    with step(f"kind makes a cluster of {nodes} node{'s' if nodes > 1 else ''}"):
        engine.run(
            *(*create, f"--kubeconfig={kubeconfig}"),
            what="creating it",
            timeout=_CREATE_DEADLINE,
            stdin=json.dumps(config),
        )
        kubectl = ("kubectl", f"--kubeconfig={kubeconfig}", "-n", "kube-system")
        engine.run(
            *(*kubectl, "patch", "configmap", "coredns", "--patch-file", str(SOURCE / "corefile.yaml")),
            what="setting up DNS",
        )
        engine.run(*kubectl, "rollout", "restart", "deployment/coredns", what="starting DNS again")
        engine.run(*kubectl, "rollout", "status", "deployment/coredns", "--timeout=180s", what="waiting for DNS")
