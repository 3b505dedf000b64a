"""Two zones: network namespaces on two bridges, and a delayed link between the bridges that counts what crosses."""

import itertools
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from longtests.chaos.net import Network

_LINK: Final = "link"
_BRIDGES: Final = ("br0", "br1")
"""Bridges of the first and of the second zone; the first one is the network's own."""


class TwoZones(Network):
    """The nodes of two zones. The harness's namespace is in the first one.

    Args:
        first: nodes of the first zone.
        second: nodes of the second zone.
        prefix: prefix of the namespaces' names.
        delay_s: delay of the link in each direction, in seconds.
    """

    def __init__(self, first: Sequence[str], second: Sequence[str], prefix: str, delay_s: float) -> None:
        super().__init__((*first, *second), prefix)
        self._second = tuple(second)
        self._delay_s = delay_s
        self._link: subprocess.Popen[str] | None = None

    def make(self) -> None:
        """Create everything, and start the link."""
        super().make()
        hub, link = self.namespace("hub"), self.namespace(_LINK)
        _ip("netns", "add", link)
        _ip("-n", hub, "link", "add", _BRIDGES[1], "type", "bridge")
        _ip("-n", hub, "link", "set", _BRIDGES[1], "up")
        for node in self._second:
            _ip("-n", hub, "link", "set", f"p-{node}", "master", _BRIDGES[1])
        for number, bridge in enumerate(_BRIDGES):
            port = f"zone{number}"
            _ip("-n", link, "link", "add", port, "type", "veth", "peer", "name", port, "netns", hub)
            _ip("-n", hub, "link", "set", port, "master", bridge, "up")
            _ip("-n", link, "link", "set", port, "up")
        command = [sys.executable, "-m", "tests.integration.pools.delayed_link", "zone0", "zone1", str(self._delay_s)]
        self._link = subprocess.Popen(
            ["ip", "netns", "exec", link, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._link.stdout is not None
        assert self._link.stdout.readline() == "ready\n"

    def remove(self) -> None:
        """Stop the link, and remove everything."""
        if self._link is not None:
            self._link.communicate()
            self._link = None
        super().remove()

    def crossed(self) -> Mapping[tuple[str, str], int]:
        """Return the bytes that have crossed so far, by nodes: sender, receiver."""
        assert self._link is not None
        assert self._link.stdin is not None
        assert self._link.stdout is not None
        self._link.stdin.write("\n")
        self._link.stdin.flush()
        counted: dict[str, int] = json.loads(self._link.stdout.readline())
        nodes = {address: node for node, address in self.addresses.items()}
        pairs = {tuple(key.split()): count for key, count in counted.items()}
        # The kernel's own packets have other addresses, such as 0.0.0.0 and those of multicast groups.
        return {(nodes[a], nodes[b]): pairs[a, b] for a, b in itertools.product(nodes, nodes) if (a, b) in pairs}

    def python(self, node: str, *words: str) -> subprocess.Popen[str]:
        """Start this Python on a node; its standard output is a pipe."""
        command = [*self.site(node).launcher, sys.executable, *words]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, timeout=30)
