"""Checks for leftovers of a local Kubernetes after it went down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from devstack.common.run import run
from devstack.kube.cgroups import Cgroup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from devstack.kube.layout import Layout, Network


def leftovers(layout: Layout) -> list[str]:
    """Return processes, mounts, network namespaces, links, routes and cgroups of the cluster; empty if nothing is left."""
    cgroups = (f"cgroup {path}" for path in Cgroup(layout.cgroup).folders())
    return [
        *_processes(layout),
        *mounts(layout, Path("/proc/self/mountinfo").read_text()),
        *_network(layout.network),
        *cgroups,
    ]


def _processes(layout: Layout) -> Iterator[str]:
    """Yield running programs of the builds, and first processes of nodes, which have their folder as an argument.

    Programs of the builds cannot be told apart while another cluster runs.
    """
    alone = not any(other.running_nodes() for other in layout.others)
    ours = (f"{layout.state}/", *([f"{layout.builds}/"] if alone else []))
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_text(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if any(word.startswith(ours) for word in words[:3]):
            yield f"process {folder.name} ({' '.join(words[:3])})"


def mounts(layout: Layout, mountinfo: str) -> Iterator[str]:
    """Yield the cluster's mounts in a text of /proc/PID/mountinfo.

    Bind mounts of its folders have such a folder as their root. containerd keeps the network namespace of each pod by a mount
    with the prefix `cni-`. Other namespaces belong to other programs, for example to `make -C lab chaos`.
    """
    for line in mountinfo.splitlines():
        fields = line.split()
        root, where = fields[3], fields[4]
        pod_network = root.startswith("net:[") and where.rpartition("/")[2].startswith("cni-")
        if pod_network or where.startswith(f"{layout.state}/") or root.startswith(f"{layout.state}/"):
            yield f"mount {where}"


def _network(ours: Network) -> Iterator[str]:
    links = json.loads(run(["ip", "-json", "link"], what="listing links") or "[]")
    yield from (
        f"link {link['ifname']}" for link in links if link["ifname"] == ours.link or link["ifname"].startswith("k-node")
    )
    for network in ours.all:
        found = run(["ip", ours.ip_option, "route", "show", "root", network], what="listing routes").split("\n")
        yield from (f"route {route.strip()}" for route in found if route.strip())
