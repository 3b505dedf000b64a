"""Folders, addresses and names of a local Kubernetes on this machine."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from devstack.cache import cache_root, content_key
from devstack.errors import DevstackError

SOURCE = Path(__file__).parent

_PREFIX = "fd70:7264"
"""Prefix of all IPv6 networks (RFC 4193: unique local addresses)."""

CLUSTER_DOMAIN = "cluster.local"
MAX_NODES = 9
MAX_CLUSTERS = 4
NUMBER_VARIABLE = "PULSAR_READONLY_KUBE"
"""Number of the cluster, 1 (the default) to `MAX_CLUSTERS`: a machine can run several, with networks of their own."""
FAMILY_VARIABLE = "PULSAR_READONLY_KUBE_FAMILY"
"""Addresses of nodes, pods and Services: ipv4 (the default) or ipv6, which has no others then."""
FAMILIES = ("ipv4", "ipv6")
RELEASE_VARIABLE = "PULSAR_READONLY_KUBE_RELEASE"
"""Release of Kubernetes: that of most tests (the default), or the oldest one that serves the CRDs."""
OLDEST = "1.30"
RELEASES = ("", OLDEST)


@dataclass(frozen=True, slots=True)
class Network:
    """The networks of one cluster.

    Attributes:
        number: number of the cluster, from 1 on.
        ipv6: whether all addresses are IPv6.
    """

    number: int = 1
    ipv6: bool = False

    @property
    def link(self) -> str:
        """The host's end of the link to the nodes' network."""
        return f"prokube{self.number - 1}{'-6' if self.ipv6 else ''}"

    @property
    def nodes(self) -> str:
        """The nodes' network, in which the host has an address, too."""
        return f"{_PREFIX}:{self.number}::/64" if self.ipv6 else f"10.{199 + self.number}.0.0/24"

    @property
    def host(self) -> str:
        """The host's address in the nodes' network."""
        return self._member(self.nodes, 1)

    @property
    def pods(self) -> str:
        """The pods' network."""
        return f"{_PREFIX}:{self.number}:100::/56" if self.ipv6 else f"10.{243 + self.number}.0.0/16"

    @property
    def services(self) -> str:
        """The Services' network."""
        return f"{_PREFIX}:{self.number}:200::/112" if self.ipv6 else f"10.{95 + self.number}.0.0/16"

    @property
    def api_service(self) -> str:
        """Address of the API server's Service."""
        return self._member(self.services, 1)

    @property
    def dns_service(self) -> str:
        """Address of the DNS Service."""
        return self._member(self.services, 10)

    @property
    def all(self) -> tuple[str, str, str]:
        """All networks."""
        return self.nodes, self.pods, self.services

    @property
    def node_bits(self) -> int:
        """Length of the prefix of a node's subnet of the pods' network."""
        return 64 if self.ipv6 else 24

    @property
    def address_bits(self) -> int:
        """Length of an address."""
        return 128 if self.ipv6 else 32

    @property
    def ip_option(self) -> str:
        """Option of the program `ip` for routes of this family."""
        return "-6" if self.ipv6 else "-4"

    @property
    def everywhere(self) -> str:
        """The network of all addresses."""
        return "::/0" if self.ipv6 else "0.0.0.0/0"

    @property
    def any_address(self) -> str:
        """The address to listen on all addresses."""
        return "::" if self.ipv6 else "0.0.0.0"  # noqa: S104  # in a node

    def node(self, number: int) -> str:
        """Return the address of a node."""
        return self._member(self.nodes, number + 1)

    def _member(self, network: str, number: int) -> str:
        return str(ipaddress.ip_network(network)[number])


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the cluster: a set of namespaces on this machine, with an address in the nodes' network."""

    number: int
    state: Path
    network: Network = Network()

    @property
    def name(self) -> str:
        """Name in Kubernetes, and host name."""
        return f"node{self.number}"

    @property
    def address(self) -> str:
        """Address of kubelet, of NodePorts and, on the first node, of the API server."""
        return self.network.node(self.number)

    @property
    def folder(self) -> Path:
        """Folder with the node's /run, /var/lib and /var/log, and its configuration files."""
        return self.state / self.name

    @property
    def socket(self) -> Path:
        """Path of containerd's socket on the host."""
        return self.folder / "run" / "containerd" / "containerd.sock"


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders of a local Kubernetes.

    Attributes:
        root: folder of all others. `builds` and `cache` outlive clusters; `state` belongs to one cluster.
        number: number of the cluster, from 1 on.
        ipv6: whether all of its addresses are IPv6.
        release: release of Kubernetes; empty for the newest.
    """

    root: Path
    number: int = 1
    ipv6: bool = False
    release: str = ""

    @property
    def network(self) -> Network:
        """The networks."""
        return Network(self.number, self.ipv6)

    @property
    def others(self) -> list[Layout]:
        """The other clusters of this folder, running or not."""
        numbers, families = range(1, MAX_CLUSTERS + 1), (False, True)
        found = (Layout(self.root, *parts) for parts in product(numbers, families, RELEASES))
        return [one for one in found if one != self]

    @property
    def cgroup(self) -> str:
        """Name of the parent cgroup of all pods."""
        return f"pulsar-readonly-{content_key(str(self.root))[:8]}{self._suffix}"

    @property
    def _suffix(self) -> str:
        parts = ("" if self.number == 1 else str(self.number), "ipv6" if self.ipv6 else "", self.release)
        return "".join(f"-{part}" for part in parts if part)

    @property
    def builds(self) -> Path:
        """Programs and system images, one folder for each content key."""
        return self.root / "builds"

    @property
    def cache(self) -> Path:
        """Go's module and build caches."""
        return self.root / "cache"

    @property
    def bin(self) -> Path:
        """Links to the programs by stable names, such as kubectl, for users and tests: the same for all clusters."""
        return self.root / "bin"

    @property
    def state(self) -> Path:
        """State of one cluster: certificates, etcd's data, containers, logs, process records."""
        return self.root / f"state{self._suffix}"

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.state / "pki"

    @property
    def logs(self) -> Path:
        """One log for each process."""
        return self.state / "logs"

    @property
    def processes(self) -> Path:
        """One record for each process."""
        return self.state / "processes"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.state / "admin.kubeconfig"

    @property
    def sysctls(self) -> Path:
        """File with the machine-wide kernel settings from before the kubelets of all clusters changed them."""
        return self.root / "sysctls.json"

    def nodes(self, count: int) -> list[Node]:
        """Return the first `count` nodes. The control plane runs on the first."""
        return [Node(number, self.state, self.network) for number in range(1, count + 1)]

    def running_nodes(self) -> list[Node]:
        """Return the nodes with a process record."""
        found = (re.fullmatch(r"node(\d+)-init\.json", path.name) for path in self.processes.glob("node*-init.json"))
        numbers = sorted(int(match[1]) for match in found if match)
        return [Node(number, self.state, self.network) for number in numbers]


def default_layout() -> Layout:
    """Return the layout under the cache folder, of the cluster that the environment variables name.

    Raises:
        DevstackError: a variable has no such number, family or release.
    """
    given = os.environ.get(NUMBER_VARIABLE, "1")
    if given not in map(str, range(1, MAX_CLUSTERS + 1)):
        raise DevstackError(f"{NUMBER_VARIABLE} must be a number from 1 to {MAX_CLUSTERS}, not {given!r}")
    family = os.environ.get(FAMILY_VARIABLE, FAMILIES[0])
    if family not in FAMILIES:
        raise DevstackError(f"{FAMILY_VARIABLE} must be {' or '.join(FAMILIES)}, not {family!r}")
    release = os.environ.get(RELEASE_VARIABLE, "")
    if release not in RELEASES:
        raise DevstackError(f"{RELEASE_VARIABLE} must be {OLDEST}, or unset for the newest, not {release!r}")
    return Layout(cache_root() / "kube", int(given), family == "ipv6", release)


def check_node_count(count: int) -> int:
    """Return a valid number of nodes.

    Raises:
        DevstackError: the number is not between 1 and `MAX_NODES`.
    """
    if not 1 <= count <= MAX_NODES:
        raise DevstackError(f"--nodes must be between 1 and {MAX_NODES}, not {count}")
    return count
