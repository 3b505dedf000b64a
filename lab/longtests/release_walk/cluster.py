"""The Kubernetes of the walk: fresh nodes of this machine, which pull images from a registry beside them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devstack.cache import cache_root
from devstack.common.run import run
from devstack.errors import DevstackError
from devstack.kube import programs, registry_hosts
from devstack.kube.kind import kind_usable
from devstack.kube.kubectl import Kubectl
from devstack.kube.layout import MAX_CLUSTERS, NUMBER_VARIABLE, Layout
from devstack.kube.local import LocalCluster
from devstack.registry.server import Registry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from devstack.registry.server import Request
    from longtests.release_walk.artefacts import ImageIds

ROOT: Final = Path(__file__).parents[3]
NAME: Final = "release-walk"
TEAM: Final = "team"
"""Path in the registry, as in docs/how-to/release.md."""

SYSTEM: Final = "pulsar-readonly-system"
GROUP: Final = "pulsar-readonly.io"
DEVSTACK_S: Final = 1800


class Cluster:
    """A local Kubernetes by its number, with a registry at the host's address in its network.

    Args:
        number: 1 to 4.
        port: of the registry.
    """

    def __init__(self, number: int, port: int) -> None:
        if not 1 <= number <= MAX_CLUSTERS:
            raise DevstackError(f"--cluster must be a number from 1 to {MAX_CLUSTERS}, not {number}")
        self._number = number
        self._layout = Layout(cache_root() / "kube", number)
        self._started = False
        self.registry = Registry(NAME, self._layout.network.host, port)
        self.prefix = f"{self.registry.address}/{TEAM}"

    @property
    def kubectl(self) -> Kubectl:
        """kubectl for this cluster."""
        return Kubectl(str(self._layout.bin / "kubectl"), self._layout.kubeconfig)

    @property
    def helm(self) -> str:
        """Path of Helm."""
        return str(programs.find("helm", programs.HELM))

    def devstack(self, *arguments: str) -> None:
        """Run a command of the devstack for this cluster."""
        environment = {**os.environ, NUMBER_VARIABLE: str(self._number)}
        command = [sys.executable, "-m", "devstack", *arguments]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, check=False, timeout=DEVSTACK_S, stdin=subprocess.DEVNULL
        )
        if done.returncode:
            raise DevstackError(f"python -m devstack {' '.join(arguments)} failed with status {done.returncode}")

    def up(self) -> None:
        """Start the cluster and the registry.

        Raises:
            DevstackError: kubectl or Helm is missing, or the cluster has this project already.
        """
        self._started = not LocalCluster(self._layout).status().up
        self.devstack("kube", "build", "--with", "helm")
        self.devstack("kube", "up", "--fresh")
        for name in (self.kubectl.program, self.helm):
            check_program(name)
        self.check_clean()
        self.registry.up()
        registry_hosts.add(self._layout.running_nodes(), self.registry.address, self.registry.url)

    def down(self) -> None:
        """Stop the registry, forget its images, and end the cluster if `up` has started it."""
        nodes = self._layout.running_nodes()
        registry_hosts.remove(nodes, self.registry.address)
        self.registry.down()
        if self._started:
            self.devstack("kube", "down", "--purge")

    def check_clean(self) -> None:
        """Check that the cluster knows nothing of this project.

        Raises:
            DevstackError: it has its definitions or its namespace.
        """
        named = self.kubectl.run("get", "crd,namespaces", "-o", "name").split()
        found = [name for name in named if name.endswith((f".{GROUP}", f"/{SYSTEM}", f"/{NAME}"))]
        if found:
            raise DevstackError(
                f"cluster {self._number} is not clean: it has {', '.join(found)}",
                "choose another one with --cluster, or remove it: python -m devstack kube down --purge",
            )

    def images(self) -> dict[str, set[str]]:
        """Return what containerd has on each node: names of images, and IDs as sha256:..."""
        return {
            node.name: set(self._ctr(str(node.socket), "images", "ls", "-q").split())
            for node in self._layout.running_nodes()
        }

    def check_absent(self, wanted: Iterable[ImageIds]) -> None:
        """Check that no node has an image of the release, by ID, digest or name.

        Raises:
            DevstackError: one has.
        """
        digests = {text for one in wanted for text in (one.config, one.manifest)}
        for node, names in self.images().items():
            found = ours(names, digests, self.prefix)
            if found:
                raise DevstackError(
                    f"{node} has images of the release before any pull: {', '.join(found)}",
                    "choose another cluster with --cluster, or remove this one: python -m devstack kube down --purge",
                )

    def forget(self, wanted: Iterable[ImageIds]) -> None:
        """Remove the images of the release from the nodes, so that the next walk pulls them again."""
        digests = {text for one in wanted for text in (one.config, one.manifest)}
        for node in self._layout.running_nodes():
            names = set(self._ctr(str(node.socket), "images", "ls", "-q").split())
            if found := ours(names, digests, self.prefix):
                self._ctr(str(node.socket), "images", "rm", *found)

    def _ctr(self, socket: str, *arguments: str) -> str:
        program = programs.NODE.folder(self._layout) / "ctr"
        return run([str(program), "-a", socket, "-n", "k8s.io", *arguments], what="asking containerd for images")


def ours(names: Iterable[str], digests: set[str], prefix: str) -> list[str]:
    """Return the names of images that belong to the walk, sorted.

    Args:
        names: all names of a node; an ID is a name too.
        digests: of the release's images.
        prefix: of their names in the registry.
    """
    return sorted(
        name for name in names if name in digests or name.startswith(f"{prefix}/") or name.rpartition("@")[2] in digests
    )


def pulled(requests: Iterable[Request], repository: str) -> set[str]:
    """Return the digests of a repository's blobs and manifests that containerd has fetched.

    Args:
        requests: of the registry's log.
        repository: such as team/pulsar-readonly-engine.
    """
    return {
        one.path.partition("?")[0].rpartition("/")[2]
        for one in requests
        if one.method == "GET"
        and one.status in {200, 206}
        and one.agent.startswith("containerd/")
        and one.path.startswith((f"/v2/{repository}/blobs/", f"/v2/{repository}/manifests/"))
    }


def check_machine() -> None:
    """Check what takes no time, before a release is made.

    Raises:
        DevstackError: a Docker engine runs here, or buildah is missing.
    """
    if kind_usable():
        raise DevstackError(
            "a Docker engine runs here, and the walk needs nodes that are processes of this machine",
            "run it on a machine without one",
        )
    buildah_path()


def buildah_path() -> str:
    """Return the path of buildah.

    Raises:
        DevstackError: it is missing.
    """
    found = shutil.which("buildah")
    if found is None:
        raise DevstackError("the walk pushes images by buildah, which is missing", "install it: make system")
    return found


def check_program(name: str) -> None:
    """Check that a program runs.

    Raises:
        DevstackError: it is missing, or fails.
    """
    words = ["version", "--client"] if name.endswith("kubectl") else ["version"]
    run([name, *words], what=f"the walk needs {Path(name).name}")
