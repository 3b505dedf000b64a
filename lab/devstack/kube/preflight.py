"""Checks of the machine before the local Kubernetes is built or started.

`python -m devstack.kube.preflight` has the checks that need no package, neither Debian's nor Python's.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from devstack.common.run import run, succeeds
from devstack.errors import DevstackError
from devstack.kube.cgroups import check_cgroups
from devstack.kube.layout import (
    MAX_CLUSTERS,
    MAX_NODES,
    NUMBER_VARIABLE,
    RELEASE_VARIABLE,
    SOURCE,
    Layout,
    Network,
    default_layout,
)
from devstack.kube.nodes import link_exists
from devstack.program import run_program

_MEMORY_NEEDED = 2 << 30
_DISK_TO_RUN = 2 << 30
_DISK_TO_BUILD = 10 << 30
_SOCKET_PATH_LIMIT = 107  # sun_path in unix(7), less its closing NUL
_LINK_LINGERS = 3.0
_OTHER_WAY = "or use a machine with a Docker engine and kind, which are preferred"


@dataclass(frozen=True, slots=True)
class Package:
    """One line of debian-packages.txt.

    Attributes:
        name: name of the Debian package.
        provides: name of a program, or pattern of a file's path, which shows that the package is installed.
    """

    name: str
    provides: str


def parse_packages(text: str) -> list[Package]:
    """Parse the lines of debian-packages.txt: PACKAGE  # PROGRAM OR FILE: reason."""
    found = []
    for line in text.splitlines():
        name, _, comment = line.partition("#")
        if name.strip():
            found.append(Package(name.strip(), comment.partition(":")[0].strip()))
    return found


def missing_packages(packages: list[Package]) -> list[Package]:
    """Return the packages whose program or file is missing on this machine."""
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"))

    def there(provides: str) -> bool:
        if provides.startswith("/"):
            return any(Path("/").glob(provides.lstrip("/")))
        return shutil.which(provides, path=path) is not None

    return [package for package in packages if not there(package.provides)]


def overlapping(routes: list[dict[str, str]], network: Network) -> list[str]:
    """Return the routes (of `ip -json route`) of other links that overlap with any network of a cluster."""
    found = []
    ours = [ipaddress.ip_network(one) for one in network.all]
    for route in routes:
        destination = route.get("dst", "default")
        if destination == "default" or route.get("dev") == network.link:
            continue
        if any(ipaddress.ip_network(destination, strict=False).overlaps(one) for one in ours):
            found.append(f"{destination} dev {route.get('dev', '?')}")
    return found


def check_machine(root: Path, *, build: bool) -> None:
    """Check the requirements of a local cluster.

    Args:
        root: folder for programs and state.
        build: whether programs must be built.

    Raises:
        DevstackError: a requirement is not met; the hint is the remedy.
    """
    _check_host()
    _check_programs(build)
    _check_kernel()
    _check_space(root, build)


def _check_programs(build: bool) -> None:
    missing = missing_packages(parse_packages((SOURCE / "debian-packages.txt").read_text()))
    if missing:
        names = " ".join(package.name for package in missing)
        programs = ", ".join(package.provides for package in missing)
        raise DevstackError(f"kube: missing on this machine: {programs}", f"make system, or: apt-get install {names}")
    if build and shutil.which("go") is None:
        raise DevstackError(
            "kube: the program go is missing, and Kubernetes is not built yet",
            "make system, or install Go and put it on the PATH; an old one fetches the version that is needed",
        )


def _check_host() -> None:
    """Check what needs no program, and no package mends."""
    if sys.platform != "linux":
        raise DevstackError(f"kube: the local node needs Linux, and this is {sys.platform}", _OTHER_WAY)
    if os.geteuid() != 0:
        raise DevstackError("kube: making nodes needs root", f"run it as root (sudo), {_OTHER_WAY}")
    check_cgroups()


def _check_kernel() -> None:
    if not _overlay_known() and not (succeeds(["modprobe", "overlay"]) and _overlay_known()):
        raise DevstackError("kube: this kernel has no overlayfs", f"load the module overlay, {_OTHER_WAY}")
    if not succeeds(["unshare", "-m", "-n", "-p", "-u", "-i", "--fork", "--mount-proc", "true"]):
        raise DevstackError(
            "kube: root may not make namespaces here", f"run the container with --privileged, {_OTHER_WAY}"
        )
    for feature, command in (
        ("nftables", "nft add table ip probe"),
        ("veth links", "ip link add probe type veth peer name probe1"),
        ("bridges", "ip link add probe type bridge"),
    ):
        if not succeeds(["unshare", "-n", *command.split()]):
            raise DevstackError(f"kube: this kernel has no {feature}", f"load the kernel module, {_OTHER_WAY}")


def _overlay_known() -> bool:
    return any(line.split()[-1] == "overlay" for line in Path("/proc/filesystems").read_text().splitlines())


def _check_space(root: Path, build: bool) -> None:
    root.mkdir(parents=True, exist_ok=True)
    socket = str(Layout(root).nodes(MAX_NODES)[-1].socket)
    if len(socket) > _SOCKET_PATH_LIMIT:
        raise DevstackError(
            f"kube: the cache folder's path is {len(socket) - _SOCKET_PATH_LIMIT} characters too long for a socket in it",
            "set PULSAR_READONLY_CACHE to a shorter path",
        )
    needed = _DISK_TO_BUILD if build else _DISK_TO_RUN
    free = shutil.disk_usage(root).free
    if free < needed:
        raise DevstackError(
            f"kube: {root} has {free / 2**30:.1f} GiB free, and {needed / 2**30:.0f} GiB are needed",
            "make room, or set PULSAR_READONLY_CACHE to a folder on a larger disk",
        )
    meminfo = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(meminfo["MemAvailable"].split()[0]) << 10
    if available < _MEMORY_NEEDED:
        raise DevstackError(
            f"kube: {available / 2**30:.1f} GiB of memory are available, and {_MEMORY_NEEDED / 2**30:.0f} GiB are needed",
            "end other programs, or use a larger machine",
        )


def _foreign_link(link: str) -> bool:
    """Return whether another local cluster has the link. The kernel removes an ended node's link within _LINK_LINGERS."""
    deadline = time.monotonic() + _LINK_LINGERS
    while link_exists(link):
        if time.monotonic() >= deadline:
            return True
        time.sleep(0.1)
    return False


def check_free_network(network: Network) -> None:
    """Check before the first node that the link and the addresses of a cluster are free.

    Raises:
        DevstackError: another network or another local cluster uses them.
    """
    if _foreign_link(network.link):
        raise DevstackError(
            "kube: another local Kubernetes runs on this machine, from another cache folder or of another release",
            f"end it with the PULSAR_READONLY_CACHE and {RELEASE_VARIABLE} that it was started with: "
            "python -m devstack kube down; or set "
            f"{NUMBER_VARIABLE} to another number, 2 to {MAX_CLUSTERS}, for this one",
        )
    routes = json.loads(run(["ip", "-json", network.ip_option, "route"], what="listing routes") or "[]")
    taken = overlapping(routes, network)
    if taken:
        raise DevstackError(
            f"kube: this machine has a route into the cluster's networks: {', '.join(taken)}",
            f"the cluster needs {network.nodes}, {network.pods} and {network.services}; {_OTHER_WAY}",
        )


def main() -> int:
    """Run the checks that need no package."""
    layout = default_layout()
    _check_host()
    _check_space(layout.root, build=not layout.builds.exists())
    return 0


if __name__ == "__main__":
    run_program(main)
