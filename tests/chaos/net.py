"""Network namespaces on a bridge of their own, and what can be done to the links between them.

All of it lives in namespaces named PREFIX-NODE: the machine's own network has no address, route or rule of it. The bridge is in
a namespace too. Packets are dropped where they arrive (nftables), so that one way alone can be cut; links are slowed where
packets leave (a token bucket, which also delays what waits for it).
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devstack.errors import DevstackError
from devstack.pulsar.spec import Site

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFIX: Final = "prchaos"
NETWORK: Final = "198.18.17"
"""Of the block that is set apart for tests of networks (RFC 2544)."""

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
  chain input {{
    type filter hook input priority 0; policy accept;
    ip saddr @cut drop
    ip saddr @lossy numgen random mod 100 < {LOST_PERCENT} drop
  }}
}}
"""


class Network:
    """The namespaces of some nodes, and one for the harness itself.

    Args:
        nodes: their names; the order makes the addresses.
        prefix: of the namespaces' names.
    """

    def __init__(self, nodes: Sequence[str], prefix: str = PREFIX) -> None:
        self._prefix = prefix
        self._hub = self.namespace(_HUB)
        self.nodes = (*nodes, _DRIVER)
        self.addresses = {node: f"{NETWORK}.{number}" for number, node in enumerate(self.nodes, 1)}

    def namespace(self, node: str) -> str:
        """A node's namespace."""
        return f"{self._prefix}-{node}"

    def site(self, node: str) -> Site:
        """Where a node's processes run."""
        launcher = ("nsenter", f"--net={_FOLDER / self.namespace(node)}", "--")
        return Site(self.addresses[node], _INTERFACE, launcher)

    def make(self) -> None:
        """Make everything anew, and take away what a run that was killed has left.

        Raises:
            DevstackError: this user or machine cannot make namespaces.
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
            # A name of at most 15 letters, such as p-clients-0.
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
        """Move this thread, and all that it starts from now on, into the harness's namespace."""
        with (_FOLDER / self.namespace(_DRIVER)).open("rb") as file:
            enter(file.fileno())

    def remove(self) -> None:
        """End what still runs in the namespaces, and delete them; the links go with them."""
        for path in sorted(_FOLDER.glob(f"{self._prefix}-*")):
            _end_all(path.name)
            _run("ip", "netns", "delete", path.name)

    # What can be done to links

    def drop(self, node: str, peer: str, *, kind: str = "cut", undo: bool = False) -> None:
        """Let packets from `peer` to `node` be lost, all of them (`cut`) or some (`lossy`), or no more."""
        verb = "delete" if undo else "add"
        command = f"{verb} element inet chaos {kind} {{ {self.addresses[peer]} }}"
        _run("ip", "netns", "exec", self.namespace(node), "nft", command, check=not undo)

    def slow(self, node: str, *, undo: bool = False) -> None:
        """Slow a node's link down in both directions, or no more."""
        ends = ((self.namespace(node), _INTERFACE), (self._hub, _port(node)))
        for namespace, interface in ends:
            if undo:
                _run("tc", "-n", namespace, "qdisc", "del", "dev", interface, "root", check=False)
            else:
                _run("tc", "-n", namespace, "qdisc", "replace", "dev", interface, "root", "tbf", *SLOW)

    def mend(self) -> None:
        """Let all links be as they were made."""
        for node in self.nodes:
            for kind in ("cut", "lossy"):
                _run("ip", "netns", "exec", self.namespace(node), "nft", f"flush set inet chaos {kind}", check=False)
            self.slow(node, undo=True)

    def connections(self, node: str) -> list[tuple[str, str]]:
        """The established TCP connections of a node: its own end and the other one, as ADDRESS:PORT."""
        told = _run("ip", "netns", "exec", self.namespace(node), "ss", "-Htn", "state", "established")
        rows = (line.split() for line in told.splitlines())
        return [(_plain(row[2]), _plain(row[3])) for row in rows if len(row) > 3]


def enter(handle: int) -> None:
    """Move this thread into the network namespace of an open file (setns(2); Python has it from 3.12 on)."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(handle, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _plain(address: str) -> str:
    """Java's sockets are shown as [::ffff:198.18.17.1]:3181."""
    host, _, port = address.rpartition(":")
    return f"{host.strip('[]').removeprefix('::ffff:')}:{port}"


def _port(node: str) -> str:
    return f"p-{node}"


def _end_all(namespace: str) -> None:
    """Nobody but us has made a namespace of this name, so what runs in it is ours."""
    deadline = time.monotonic() + 10
    while pids := _run("ip", "netns", "pids", namespace, check=False).split():
        for pid in pids:
            # The harness itself may be in its own namespace.
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
