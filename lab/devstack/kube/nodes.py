"""Nodes: sets of namespaces of this machine, with a common network."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING

from devstack.common.run import run, succeeds, wait_until
from devstack.errors import DevstackError
from devstack.kube.cgroups import Cgroup
from devstack.kube.layout import MAX_CLUSTERS, SOURCE, Layout, Network, Node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devstack.kube.node_processes import NodeProcesses

_BRIDGE = "lan0"


def init_name(node: Node) -> str:
    """Return the name of a node's first process."""
    return f"{node.name}-init"


def enter(processes: NodeProcesses, node: Node) -> list[str]:
    """Return the command prefix that runs a command in a node.

    Raises:
        DevstackError: the node does not run.
    """
    pid = processes.pid(init_name(node))
    if pid is None:
        raise DevstackError(f"{node.name} does not run", "start it with: python -m devstack kube up")
    return ["nsenter", "-t", str(pid), "-m", "-n", "-p", "-u", "-i", "--"]


def ensure_node(layout: Layout, processes: NodeProcesses, node: Node, first: Node) -> None:
    """Make a node unless it runs: namespaces, link to the network, cgroups."""
    if processes.pid(init_name(node)) is not None:
        return
    for name in processes.names():  # the processes of the node ended with its first process; remove their records
        if name.startswith(f"{node.name}-"):
            processes.stop(name)
    shutil.rmtree(node.folder / "run", ignore_errors=True)
    for part in ("run", "lib", "log", "conf", "cni"):
        (node.folder / part).mkdir(parents=True, exist_ok=True)
    processes.ensure(
        init_name(node),
        ["bash", str(SOURCE / "node-init.sh"), str(node.folder), node.name, "ipv6" if node.network.ipv6 else "ipv4"],
        wrapper=["unshare", "-m", "-n", "-p", "-u", "-i", "--fork", "--mount-proc", "--propagation", "private"],
        env=os.environ,
    )

    def ready() -> bool:
        processes.require(init_name(node))
        return (node.folder / "run" / "init-ready").exists()

    wait_until(ready, 20, f"making {node.name}", pause=0.02)
    if node.number == first.number:
        _lay_network(processes, node)
    else:
        _join_network(processes, node, first)
    Cgroup(layout.cgroup).make(node.name)


def _ip(arguments: str, within: Sequence[str] = ()) -> None:
    run([*within, "ip", *arguments.split()], what=f"ip {arguments}")


def _add_address(address: str, network: Network, link: str, within: Sequence[str] = ()) -> None:
    """Add an address to a link. One of IPv6 can be used at once, without the search for duplicates (RFC 4862, 5.4)."""
    bits = network.nodes.rpartition("/")[2]
    _ip(f"addr add {address}/{bits} dev {link}{' nodad' if network.ipv6 else ''}", within)


def _lay_network(processes: NodeProcesses, first: Node) -> None:
    """Make the nodes' network: a bridge in the first node, with links to the host and the other nodes."""
    inside = enter(processes, first)
    network = first.network
    remove_link(network.link)
    _ip(f"link add {_BRIDGE} type bridge", inside)
    _add_address(first.address, network, _BRIDGE, inside)
    _ip(f"link set {_BRIDGE} up", inside)
    _ip(f"link add {network.link} type veth peer name host netns {processes.pid(init_name(first))}")
    _ip(f"link set host master {_BRIDGE} up", inside)
    _add_address(network.host, network, network.link)
    _ip(f"link set {network.link} up")
    # For access of the host to services. In the node, kube-proxy's rules redirect only packets that have a route.
    _ip(f"route replace {network.services} via {first.address} dev {network.link}")
    _ip(f"route add {network.services} dev {_BRIDGE}", inside)
    _route_to_host(network, inside)


def _join_network(processes: NodeProcesses, node: Node, first: Node) -> None:
    inside, hub = enter(processes, node), enter(processes, first)
    with contextlib.suppress(DevstackError):  # exists only if the node ended and the first one did not
        _ip(f"link del {node.name}", hub)
    # Pids of the host name the namespaces, so make the pair on the host, and move one end into each node.
    _ip(f"link add k-{node.name} type veth peer name eth0 netns {processes.pid(init_name(node))}")
    _ip(f"link set k-{node.name} netns {processes.pid(init_name(first))} name {node.name}")
    _ip(f"link set {node.name} master {_BRIDGE} up", hub)
    _add_address(node.address, node.network, "eth0", inside)
    _ip("link set eth0 up", inside)
    _ip(f"route add {node.network.services} dev eth0", inside)
    _route_to_host(node.network, inside)


def _route_to_host(network: Network, inside: Sequence[str]) -> None:
    """Route the host's addresses in the nodes' networks of other clusters, where servers for several clusters listen."""
    for number in range(1, MAX_CLUSTERS + 1):
        if number != network.number:
            other = Network(number, network.ipv6).host
            _ip(f"route add {other}/{network.address_bits} via {network.host}", inside)


def route_pods(processes: NodeProcesses, node: Node, everyone: list[Node], pods: str) -> None:
    """Add routes to a node's pods on the host and on the other nodes."""
    _ip(f"route replace {pods} via {node.address} dev {node.network.link}")
    for other in everyone:
        if other.number != node.number:
            _ip(f"route replace {pods} via {node.address}", enter(processes, other))


def link_exists(link: str) -> bool:
    """Return whether the host's end of a link exists."""
    return succeeds(["ip", "link", "show", link])


def remove_link(link: str) -> None:
    """Remove the host's end of a link, with its addresses and routes.

    The kernel removes the link some time after the end of its node, so a missing link is not an error.
    """
    succeeds(["ip", "link", "del", link])
    wait_until(lambda: not link_exists(link), 10, f"removing the link {link}")
