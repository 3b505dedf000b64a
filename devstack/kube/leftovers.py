"""Checks for leftovers of a local Kubernetes after it went down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from devstack.common.run import run
from devstack.kube.layout import LINK, NODE_NETWORK, POD_NETWORK, SERVICE_NETWORK, Layout
from devstack.kube.nodes import cgroup_folders

if TYPE_CHECKING:
    from collections.abc import Iterator


def leftovers(layout: Layout) -> list[str]:
    """NodeProcesses, mounts, network namespaces, links, routes and cgroups of the cluster; empty when nothing is left."""
    cgroups = (f"cgroup {path}" for path in cgroup_folders(layout.cgroup))
    return [*_processes(layout), *_mounts(layout), *_network(), *cgroups]


def _processes(layout: Layout) -> Iterator[str]:
    """Programs that run from our builds, and first processes of nodes, which have their folder as an argument."""
    ours = (f"{layout.builds}/", f"{layout.state}/")
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_text(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if any(word.startswith(ours) for word in words[:3]):
            yield f"process {folder.name} ({' '.join(words[:3])})"


def _mounts(layout: Layout) -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        root, where = fields[3], fields[4]
        # A bind mount shows our folder as its root; a kept network namespace is a mount too.
        if where.startswith(f"{layout.state}/") or root.startswith((f"{layout.state}/", "net:[")):
            yield f"mount {where}"


def _network() -> Iterator[str]:
    links = json.loads(run(["ip", "-json", "link"], what="listing links") or "[]")
    yield from (
        f"link {link['ifname']}" for link in links if link["ifname"] == LINK or link["ifname"].startswith("k-node")
    )
    for network in (NODE_NETWORK, POD_NETWORK, SERVICE_NETWORK):
        found = run(["ip", "-4", "route", "show", "root", network], what="listing routes").split("\n")
        yield from (f"route {route.strip()}" for route in found if route.strip())
