"""Clusters by kind, on a Docker engine."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from devstack.common.locks import file_lock
from devstack.common.run import run, succeeds
from devstack.console import say, step
from devstack.errors import DevstackError
from devstack.kube.kubectl import Kubectl
from devstack.kube.programs import EXTRAS, ensure, link_program, link_programs
from devstack.kube.status import ClusterStatus

if TYPE_CHECKING:
    from devstack.kube.layout import Layout

_CREATE_DEADLINE = 900.0


def docker_runs() -> bool:
    """Return whether a Docker engine answers."""
    return shutil.which("docker") is not None and succeeds(["docker", "info"], timeout=15)


def kind_usable() -> bool:
    """Return whether kind can make clusters: the kind program and a Docker engine are present."""
    return shutil.which("kind") is not None and docker_runs()


class KindCluster:
    """A cluster made by kind.

    Args:
        layout: layout with the folder for the kubeconfig.
        name: name of the cluster (`kind --name`).
    """

    provider = "kind"

    def __init__(self, layout: Layout, name: str) -> None:
        self._layout = layout
        self._name = name

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self._layout.root / f"kind-{self._name}.kubeconfig"

    def kubectl(self) -> Kubectl:
        """Return the machine's kubectl for this cluster.

        Raises:
            DevstackError: kubectl is missing.
        """
        program = shutil.which("kubectl")
        if program is None:
            raise DevstackError("kube: the program kubectl is missing", "install it, and put it on the PATH")
        return Kubectl(program, self.kubeconfig)

    def up(self, nodes: int, name: str) -> None:
        """Create the cluster unless it exists.

        Args:
            nodes: number of nodes for pods in a new cluster. With more than one, the control plane has another node.
            name: name of the cluster, the one of the constructor.
        """
        with file_lock(self._layout.root / "lock", "kube"):
            if name in self._clusters():
                self._export_kubeconfig()
            else:
                roles = ["control-plane", *["worker"] * (nodes if nodes > 1 else 0)]
                config = {
                    "kind": "Cluster",
                    "apiVersion": "kind.x-k8s.io/v1alpha4",
                    "nodes": [{"role": role} for role in roles],
                }
                with step(f"kind makes a cluster of {nodes} node{'s' if nodes > 1 else ''}"):
                    self._kind("create", "cluster", "--wait=120s", "--config=-", stdin=json.dumps(config))
        say(f"Kubernetes is up: export KUBECONFIG={self.kubeconfig}")

    def down(self, *, purge: bool, name: str | None = None) -> None:
        """Delete the cluster. kind cannot stop one and start it again, so `purge` changes nothing."""
        del purge, name
        with file_lock(self._layout.root / "lock", "kube"):
            self._kind("delete", "cluster")
            self.kubeconfig.unlink(missing_ok=True)
        say("Kubernetes is down")

    def status(self) -> ClusterStatus:
        """Return the status. The kubeconfig is written again: pytest-kind or a user may have made the cluster."""
        up = self._name in self._clusters()
        nodes: dict[str, bool] = {}
        version = ""
        if up:
            self._export_kubeconfig()
            kubectl = self.kubectl()
            for node in kubectl.json("get", "nodes")["items"]:
                ready = {condition["type"]: condition["status"] for condition in node["status"]["conditions"]}
                nodes[node["metadata"]["name"]] = ready.get("Ready") == "True"
            version = json.loads(kubectl.run("get", "--raw", "/version"))["gitVersion"]
        return ClusterStatus(
            provider=self.provider,
            up=up,
            kubeconfig=str(self.kubeconfig),
            kubectl=shutil.which("kubectl") or "kubectl",
            names=[self._name] if up else [],
            nodes=nodes,
            version=version,
        )

    def load(self, image: str) -> None:
        """Copy an image from the Docker engine into every node."""
        run(
            ["kind", "load", "docker-image", f"--name={self._name}", image],
            what=f"loading {image}",
            timeout=_CREATE_DEADLINE,
        )

    def build(self, extras: list[str]) -> None:
        """Build the extras that the machine does not have, and link its kubectl. kind itself needs no build.

        Raises:
            DevstackError: kubectl is missing, a build failed, or Go is missing.
        """
        missing = [EXTRAS[name] for name in extras if shutil.which(name) is None]
        link_programs(self._layout, [ensure(self._layout, build) for build in missing])
        # The test suite takes kubectl from there; pytest-kind would download an old one if there were none.
        kubectl = Path(self.kubectl().program).absolute()
        if kubectl.parent != self._layout.bin.absolute():
            link_program(self._layout, kubectl)

    def _export_kubeconfig(self) -> None:
        self._kind("export", "kubeconfig")

    def _clusters(self) -> list[str]:
        return run(["kind", "get", "clusters"], what="asking kind for its clusters").split()

    def _kind(self, *arguments: str, stdin: str | None = None) -> str:
        self._layout.root.mkdir(parents=True, exist_ok=True)
        return run(
            ["kind", *arguments, f"--name={self._name}", f"--kubeconfig={self.kubeconfig}"],
            what=f"kind {' '.join(arguments[:2])}",
            stdin=stdin,
            timeout=_CREATE_DEADLINE,
            env=dict(os.environ),
        )
