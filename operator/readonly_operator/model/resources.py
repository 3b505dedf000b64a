"""CPU and memory of a broker: those of the spec, and requests for what it leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from readonly_operator.model.quantities import canonical

if TYPE_CHECKING:
    from readonly_operator.api.pool import Pool

CPU_REQUEST_M = 250
"""CPU of a worker, in thousandths of a core."""
BASE_MEMORY_MI = 256
"""Memory of a worker besides its caches, in Mi: the process, and the buffers of some thousand clients."""
_TIERED_CACHE = "64Mi"
"""The engine's default for data of tiered storage."""
_MI = {"Ki": 1 / 1024, "Mi": 1, "Gi": 1024}


def broker_resources(pool: Pool) -> dict[str, Any]:
    """Return the resources of a broker's container.

    A resource with neither request nor limit in the spec gets a request, so that the scheduler reserves what every broker needs.
    With a limit alone, Kubernetes requests as much as the limit. Each worker is a process: it needs a core's share and memory of
    its own. The workers share the entry cache, but each has a cache for tiered storage.
    """
    given = {
        kind: {name: canonical(quantity) for name, quantity in quantities.items()}
        for kind, quantities in pool.resources.items()
    }
    named = {name for quantities in given.values() for name in quantities}
    defaults = {"cpu": canonical(f"{CPU_REQUEST_M * pool.workers}m"), "memory": canonical(f"{_memory_mi(pool)}Mi")}
    requests = {name: quantity for name, quantity in defaults.items() if name not in named}
    if requests:
        given["requests"] = {**requests, **given.get("requests", {})}
    return given


def _memory_mi(pool: Pool) -> int:
    caches = [pool.cache.size]
    if pool.tiered_storage is not None:
        caches += [pool.tiered_storage.cache_size or _TIERED_CACHE] * pool.workers
    return BASE_MEMORY_MI * pool.workers + round(sum(int(size[:-2]) * _MI[size[-2:]] for size in caches))
