"""Folders, addresses and names of the local Kubernetes on this machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from devstack.cache import cache_root, content_key
from devstack.errors import DevstackError

SOURCE = Path(__file__).parent

LINK = "prokube0"
"""The host's end of the link to the nodes' network."""
NODE_NETWORK = "10.200.0.0/24"
HOST_ADDRESS = "10.200.0.1"
POD_NETWORK = "10.244.0.0/16"
SERVICE_NETWORK = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
DNS_SERVICE = "10.96.0.10"
CLUSTER_DOMAIN = "cluster.local"
MAX_NODES = 9


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the cluster: a set of namespaces on this machine, with an address in `NODE_NETWORK`."""

    number: int
    state: Path

    @property
    def name(self) -> str:
        """Name in Kubernetes, and host name."""
        return f"node{self.number}"

    @property
    def address(self) -> str:
        """Address of kubelet, of NodePorts and, on the first node, of the API server."""
        return f"10.200.0.{self.number + 1}"

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
    """The folders of the local Kubernetes.

    Attributes:
        root: folder of all others. `builds` and `cache` outlive clusters; `state` belongs to one cluster.
    """

    root: Path

    @property
    def cgroup(self) -> str:
        """Name of the parent cgroup of all pods, in every cgroup v1 hierarchy."""
        return f"pulsar-readonly-{content_key(str(self.root))[:8]}"

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
        """Links to the programs by stable names, such as kubectl, for users and tests."""
        return self.root / "bin"

    @property
    def state(self) -> Path:
        """State of one cluster: certificates, etcd's data, containers, logs, process records."""
        return self.root / "state"

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
        """File with the machine-wide kernel settings from before kubelet changed them."""
        return self.state / "sysctls.json"

    def nodes(self, count: int) -> list[Node]:
        """Return the first `count` nodes. The control plane runs on the first."""
        return [Node(number, self.state) for number in range(1, count + 1)]

    def running_nodes(self) -> list[Node]:
        """Return the nodes with a process record."""
        found = (re.fullmatch(r"node(\d+)-init\.json", path.name) for path in self.processes.glob("node*-init.json"))
        return [Node(number, self.state) for number in sorted(int(match[1]) for match in found if match)]


def default_layout() -> Layout:
    """Return the layout under the cache folder."""
    return Layout(cache_root() / "kube")


def check_node_count(count: int) -> int:
    """Return a valid number of nodes.

    Raises:
        DevstackError: the number is not between 1 and `MAX_NODES`.
    """
    if not 1 <= count <= MAX_NODES:
        raise DevstackError(f"--nodes must be between 1 and {MAX_NODES}, not {count}")
    return count
