"""Memory of brokers. Pure; bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_engine.config.limits import MAX_BUFFERED_BYTES
from readonly_engine.sizing import measured
from readonly_engine.sizing.estimate import Case, Estimate
from readonly_engine.sizing.pool_cost import consumer_bytes, instances

if TYPE_CHECKING:
    from readonly_engine.sizing.workload import Policy, Workload

CACHED_S: Final = Estimate(5, 10, 30)
"""Seconds of published entries in the cache, so that consumers which are late by as much cause no reads. Chosen, not measured."""

MIN_CACHE_BYTES: Final = 64 << 20
"""Cache of a process for backlogs: the cache of the bench Catch-up, column "from bookies"."""

SLOW_CLIENT_BYTES: Final = 1 << 20
"""Bytes that wait for a client that does not read (docs/explanation/pools.md, Quiet and slow clients)."""


def cache_bytes(work: Workload, policy: Policy, processes: int, case: Case) -> float:
    """Return the size of a broker's entry cache, which its workers share."""
    tail = sum(load.topics * instances(load, processes) * load.bytes for load in work.loads) / processes
    return policy.workers * max(MIN_CACHE_BYTES, tail * CACHED_S[case])


def broker_bytes(work: Workload, policy: Policy, processes: int, case: Case) -> float:
    """Return the memory of a broker with all its workers and its cache; the high case has slow clients, too."""
    topics = sum(load.topics * instances(load, processes) for load in work.loads) / processes
    consumers = work.consumers / processes
    connections = work.client_connections / processes
    process = (
        measured.PROCESS_BYTES[case]
        + topics * measured.TOPIC_BYTES[case]
        + consumers * consumer_bytes(consumers, case)
        + max(0.0, connections - consumers) * measured.CONNECTION_BYTES[case]
    )
    slow = 0.0
    if case is Case.HIGH:
        slow = min(MAX_BUFFERED_BYTES, policy.workers * connections * SLOW_CLIENT_BYTES)
    return policy.workers * process + cache_bytes(work, policy, processes, case) + slow
