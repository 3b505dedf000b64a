"""The output of `kube status` for every kind of cluster."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """Status of a cluster.

    Attributes:
        provider: "kind" or "local".
        up: whether the API server answers.
        kubeconfig: path of the administrator's kubeconfig.
        kubectl: path of a suitable kubectl.
        names: names of the cluster (`kind --name`).
        nodes: whether each node is Ready, by name.
        processes: pid of each process by name, None for one that has ended; local clusters only.
        version: version of the API server.
    """

    provider: str
    up: bool
    kubeconfig: str
    kubectl: str
    names: list[str] = field(default_factory=list)
    nodes: dict[str, bool] = field(default_factory=dict)
    processes: dict[str, int | None] = field(default_factory=dict)
    version: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the status for `--json`."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Return the status as lines of text."""
        if not self.up and not self.processes:
            return [f"Kubernetes ({self.provider}): down"]
        state = "up" if self.up else "the API server does not answer"
        lines = [f"Kubernetes {self.version} ({self.provider}): {state}".replace("  ", " ")]
        lines += [f"  {name}: {'Ready' if ready else 'not Ready'}" for name, ready in self.nodes.items()]
        lines += [f"  {name}: {f'pid {pid}' if pid else 'ended'}" for name, pid in self.processes.items()]
        return lines
