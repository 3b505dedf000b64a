"""Worker processes of a broker's pod, and the ports of each (`pulsar-readonly serve --workers`). Pure.

A pod's own template is the source, not the pool's spec: while a change of spec.workers waits or rolls, pods differ from it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_operator.kube.kinds import Manifest

PORT_OFFSET = 100
"""Worker 0 listens on a port plus this offset, worker 1 plus twice the offset, and so on (readonly_engine.config.settings)."""

_HTTP = re.compile(r"http-[0-9]+")


def worker_ports(ports: Mapping[str, int], workers: int) -> dict[str, int]:
    """Return the shared ports of a broker, then those of its workers; one worker has none of its own.

    Args:
        ports: number by name. Names have 12 characters at most, because Kubernetes allows 15.
        workers: number of worker processes.
    """
    made = dict(ports)
    if workers > 1:
        for worker in range(workers):
            made |= {f"{name}-{worker}": port + (worker + 1) * PORT_OFFSET for name, port in ports.items()}
    return made


def worker_http_ports(pod: Manifest) -> list[int]:
    """Return the port for health and statistics of each worker of a pod, in their order; none for a pod of one process."""
    return [
        port["containerPort"]
        for container in (pod.get("spec") or {}).get("containers") or ()
        for port in container.get("ports") or ()
        if _HTTP.fullmatch(port.get("name") or "")
    ]


def pod_workers(pod: Manifest) -> int:
    """Return how many worker processes a pod has."""
    return max(len(worker_http_ports(pod)), 1)
