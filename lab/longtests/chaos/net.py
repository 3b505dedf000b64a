"""Network namespaces on a separate bridge, and faults of the links between them.

Everything is in namespaces named PREFIX-NODE, the bridge too: the machine's own network gets no address, route or rule. Packets
are dropped on arrival (nftables), so that a cut can affect one direction only. Links are slowed on departure, by a token bucket,
which also delays waiting packets.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from devstack.errors import DevstackError
from devstack.pulsar.spec import Site

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

PREFIX: Final = "prchaos"
NETWORK: Final = "198.18.17"
"""Part of the block for tests of networks (RFC 2544)."""

LOST_PERCENT: Final = 30
SLOW: Final = ("rate", "256kbit", "burst", "8kb", "latency", "1500ms")
_INTERFACE: Final = "eth0"
_HUB: Final = "hub"
_DRIVER: Final = "driver"
_CLONE_NEWNET: Final = 0x40000000
_FOLDER: Final = Path("/run/netns")
_RULES: Final = f"""
table inet chaos {{
  set cut {{ type ipv4_addr; }}
  set lossy {{ type ipv4_addr; }}
  set received {{ type ipv4_addr; flags dynamic; counter; }}
  chain input {{
    type filter hook input priority 0; policy accept;
    update @received {{ ip saddr }}
    ip saddr @cut drop
    ip saddr @lossy numgen random mod 100 < {LOST_PERCENT} drop
  }}
}}
"""


class Network:
    """The namespaces of some nodes, and one for the harness itself.

    Args:
        nodes: their names; the order determines the addresses.
        prefix: prefix of the namespaces' names.
    """

    def __init__(self, nodes: Sequence[str], prefix: str = PREFIX) -> None:
        self._prefix = prefix
        self._hub = self.namespace(_HUB)
        self.nodes = (*nodes, _DRIVER)
        self.addresses = {node: f"{NETWORK}.{number}" for number, node in enumerate(self.nodes, 1)}

    def namespace(self, node: str) -> str:
        """Return the namespace of a node."""
        return f"{self._prefix}-{node}"

    def site(self, node: str) -> Site:
        """Return the site of a node's processes."""
        launcher = ("nsenter", f"--net={_FOLDER / self.namespace(node)}", "--")
        return Site(self.addresses[node], _INTERFACE, launcher)

    def make(self) -> None:
        """Create everything, after the removal of a killed run's namespaces.

        Raises:
            DevstackError: this user or machine cannot create namespaces.
        """
        if os.geteuid() != 0:
            raise DevstackError("network namespaces need root", "run this command as root")
        self.remove()
        _run("ip", "netns", "add", self._hub)
        _run("ip", "-n", self._hub, "link", "add", "br0", "type", "bridge")
        _run("ip", "-n", self._hub, "link", "set", "br0", "up")
        for node in self.nodes:
            name = self.namespace(node)
            _run("ip", "netns", "add", name)
            _run("ip", "-n", name, "link", "set", "lo", "up")
            # Names of interfaces have at most 15 characters, such as p-clients-0.
            _run(
                "ip",
                "-n",
                name,
                "link",
                "add",
                _INTERFACE,
                "type",
                "veth",
                "peer",
                "name",
                _port(node),
                "netns",
                self._hub,
            )
            _run("ip", "-n", self._hub, "link", "set", _port(node), "master", "br0", "up")
            _run("ip", "-n", name, "address", "add", f"{self.addresses[node]}/24", "dev", _INTERFACE)
            _run("ip", "-n", name, "link", "set", _INTERFACE, "up")
            _run("ip", "netns", "exec", name, "nft", "-f", "-", given=_RULES)

    def enter(self) -> None:
        """Move this thread, and everything that it starts from now on, to the harness's namespace."""
        with (_FOLDER / self.namespace(_DRIVER)).open("rb") as file:
            enter(file.fileno())

    def inside(self, run: Callable[[], T]) -> T:
        """Return the result of a function that runs in the harness's namespace, in a thread of its own."""
        with ThreadPoolExecutor(1, initializer=self.enter) as thread:
            return thread.submit(run).result()

    def remove(self) -> None:
        """Kill the processes in the namespaces, and delete the namespaces with their links."""
        for path in sorted(_FOLDER.glob(f"{self._prefix}-*")):
            _end_all(path.name)
            _run("ip", "netns", "delete", path.name)

    # Faults of links

    def drop(self, node: str, peer: str, *, kind: str = "cut", undo: bool = False) -> None:
        """Drop packets from `peer` to `node`, all of them (`cut`) or some (`lossy`), or stop it."""
        verb = "delete" if undo else "add"
        command = f"{verb} element inet chaos {kind} {{ {self.addresses[peer]} }}"
        _run("ip", "netns", "exec", self.namespace(node), "nft", command, check=not undo)

    def slow(self, node: str, *, undo: bool = False) -> None:
        """Slow down a node's link in both directions, or stop it."""
        ends = ((self.namespace(node), _INTERFACE), (self._hub, _port(node)))
        for namespace, interface in ends:
            if undo:
                _run("tc", "-n", namespace, "qdisc", "del", "dev", interface, "root", check=False)
            else:
                _run("tc", "-n", namespace, "qdisc", "replace", "dev", interface, "root", "tbf", *SLOW)

    def mend(self) -> None:
        """Remove all faults of links."""
        for node in self.nodes:
            for kind in ("cut", "lossy"):
                _run("ip", "netns", "exec", self.namespace(node), "nft", f"flush set inet chaos {kind}", check=False)
            self.slow(node, undo=True)

    def received(self, node: str) -> dict[str, int]:
        """Return the bytes of IP packets that have arrived at a node so far, by their sender."""
        told = _run(
            "ip", "netns", "exec", self.namespace(node), "nft", "-j", "list", "set", "inet", "chaos", "received"
        )
        nodes = {address: name for name, address in self.addresses.items()}
        found = [part["set"].get("elem", []) for part in json.loads(told)["nftables"] if "set" in part]
        elements = [one["elem"] for one in found[0]]
        return {nodes[one["val"]]: one["counter"]["bytes"] for one in elements if one["val"] in nodes}

    def connections(self, node: str) -> list[tuple[str, str]]:
        """Return the established TCP connections of a node: its own end and the other one, as ADDRESS:PORT."""
        told = _run("ip", "netns", "exec", self.namespace(node), "ss", "-Htn", "state", "established")
        rows = (line.split() for line in told.splitlines())
        return [(_plain(row[2]), _plain(row[3])) for row in rows if len(row) > 3]


def enter(handle: int) -> None:
    """Move this thread to the network namespace of an open file (setns(2), in Python from 3.12 on)."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(handle, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _plain(address: str) -> str:
    """Return an IPv4 address for one of Java's sockets, such as [::ffff:198.18.17.1]:3181."""
    host, _, port = address.rpartition(":")
    return f"{host.strip('[]').removeprefix('::ffff:')}:{port}"


def _port(node: str) -> str:
    return f"p-{node}"


def _end_all(namespace: str) -> None:
    """Kill all processes in a namespace: its name is reserved for this test."""
    deadline = time.monotonic() + 10
    while pids := _run("ip", "netns", "pids", namespace, check=False).split():
        for pid in pids:
            # The harness may run in its namespace.
            if int(pid) != os.getpid():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    continue
        if pids == [str(os.getpid())] or time.monotonic() > deadline:
            return
        time.sleep(0.05)


def _run(*command: str, given: str | None = None, check: bool = True) -> str:
    try:
        ran = subprocess.run(command, input=given, capture_output=True, text=True, timeout=30, check=False)
    except FileNotFoundError:
        raise DevstackError(f"{command[0]} is missing", "`make system` installs it") from None
    if check and ran.returncode:
        raise DevstackError(f"{' '.join(command)}: {ran.stderr.strip() or ran.returncode}")
    return ran.stdout
