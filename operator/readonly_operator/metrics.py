"""Prometheus metrics of the operator."""

from __future__ import annotations

import os
import platform
import re
from collections import Counter as Counts
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final, Protocol

from prometheus_client import REGISTRY, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized

    from prometheus_client.metrics_core import Metric


RECONCILES = Histogram(
    "pulsar_readonly_operator_reconcile_duration_seconds",
    "Duration of reconciling one pool",
    buckets=(0.005, 0.02, 0.1, 0.5, 2, 10),
)
POOLS: Final = "pool"
"""Value of the label `controller` for reconciles of pools."""
SOURCE_CLUSTERS: Final = "source-cluster"
"""Value of the label `controller` for background work at source clusters."""

FAILURES = Counter(
    "pulsar_readonly_operator_reconcile_errors_total",
    "Failed reconciles of pools, and unexpected errors of background work at source clusters; each is retried",
    ["controller"],
)
for _controller in (POOLS, SOURCE_CLUSTERS):
    FAILURES.labels(_controller)  # a rate needs the first value too

WAITING = Gauge("pulsar_readonly_operator_workqueue_depth", "Pools that wait for a reconcile")
ADDS = Counter("pulsar_readonly_operator_workqueue_adds_total", "Pools that were queued for a reconcile")
WAITED = Histogram(
    "pulsar_readonly_operator_workqueue_wait_seconds",
    "Time for which a due pool has waited for a worker",
    buckets=(0.005, 0.02, 0.1, 0.5, 2, 10, 60),
)
LONGEST = Gauge(
    "pulsar_readonly_operator_workqueue_longest_running_seconds",
    "Duration so far of the longest present reconcile; 0 without one",
)

COMMIT_VARIABLE: Final = "PULSAR_READONLY_COMMIT"
"""Variable of the environment with the commit of the image."""
_COMMIT: Final = re.compile("[0-9a-f]{7,64}")


def _build() -> tuple[str, str, str]:
    """Return version, commit and Python; empty where unknown."""
    try:
        found = version("pulsar-readonly")
    except PackageNotFoundError:
        found = ""
    commit = os.environ.get(COMMIT_VARIABLE, "")
    return found, commit if _COMMIT.fullmatch(commit) else "", platform.python_version()


BUILD = Gauge(
    "pulsar_readonly_operator_build_info",
    "1; the labels are version, commit and Python",
    ["version", "commit", "python"],
)
BUILD.labels(*_build()).set(1)

LEADER = Gauge("pulsar_readonly_operator_leader", "1 while this process is the leader")

APPLIED = Counter(
    "pulsar_readonly_operator_applied_objects_total",
    "Objects of pools that were created, patched or deleted",
    ["kind", "result"],
)
EVENTS = Counter("pulsar_readonly_operator_events_total", "Kubernetes Events written", ["type"])


def count_applied(kind: str, result: str) -> None:
    """Count one apply result of a pool's object."""
    APPLIED.labels(kind, result).inc()


def count_event(kind: str) -> None:
    """Count an event of type Normal or Warning."""
    EVENTS.labels(kind).inc()


class Inventory(Protocol):
    """Source of the pools and bindings to count."""

    def pools(self) -> Sequence[Mapping[str, Any]]:
        """Return all pools."""
        ...

    def bindings(self) -> Sequence[Mapping[str, Any]]:
        """Return all bindings."""
        ...


MAX_NAMED_POOLS = 100
"""Pools that a metric names at the same time, the first by name; the counts by condition have all."""
NAMED_CONDITIONS = ("LookupConfigured", "Ready", "SourceReachable", "Stalled")
"""Conditions for which a metric names the pool."""


class InventoryCollector(Collector):
    """Count pools and bindings by their conditions, and name a limited number of unwell pools.

    The number of series stays small: pools that are well have none of their own.

    Args:
        store: the pools and bindings.
        readable: returns whether each served namespace can be read.
    """

    def __init__(self, store: Inventory, readable: Callable[[], Mapping[str, bool]] = dict) -> None:
        self._store = store
        self._readable = readable

    def collect(self) -> Iterable[Metric]:
        """Yield the metric families; prometheus_client calls this."""
        pools, bindings = self._store.pools(), self._store.bindings()
        labels = ["kind", "condition", "status"]
        found = GaugeMetricFamily(
            "pulsar_readonly_operator_object_conditions", "Pools and bindings by their conditions", labels=labels
        )
        for kind, bodies in (("ReadOnlyBrokerPool", pools), ("ReadOnlyTopicBinding", bindings)):
            counts = Counts(
                (one["type"], one["status"])
                for body in bodies
                for one in (body.get("status") or {}).get("conditions") or ()
            )
            for (condition, status), count in sorted(counts.items()):
                found.add_metric([kind, condition, status], count)
        yield found
        yield _failing_conditions(pools)
        scopes = GaugeMetricFamily(
            "pulsar_readonly_operator_namespace_readable",
            "1 while the operator can read a served namespace (* for all), 0 while the API server refuses: the namespace or its "
            "RoleBinding is gone",
            labels=["name"],
        )
        for name, readable in self._readable().items():
            scopes.add_metric([name], readable)
        yield scopes
        for name, text, field in (
            ("brokers_desired", "Desired brokers of all pools", "replicas"),
            ("brokers_ready", "Ready brokers of all pools", "readyReplicas"),
        ):
            value = sum(int((body.get("status") or {}).get(field) or 0) for body in pools)
            yield GaugeMetricFamily(f"pulsar_readonly_operator_{name}", text, value=value)


def _failing_conditions(pools: Iterable[Mapping[str, Any]]) -> GaugeMetricFamily:
    """Return a series for each condition that keeps a pool from being well, of at most MAX_NAMED_POOLS pools."""
    found = GaugeMetricFamily(
        "pulsar_readonly_operator_pool_unwell",
        "1 for each condition by which a pool is unwell: Stalled is True, or Ready, LookupConfigured or SourceReachable is "
        f"False; of at most {MAX_NAMED_POOLS} pools, as NAMESPACE/NAME",
        labels=["object", "condition"],
    )
    unwell: dict[str, list[str]] = {}
    for body in pools:
        conditions = [
            one["type"]
            for one in (body.get("status") or {}).get("conditions") or ()
            if one["type"] in NAMED_CONDITIONS and one["status"] == str(one["type"] == "Stalled")
        ]
        if conditions:
            unwell[f"{body['metadata']['namespace']}/{body['metadata']['name']}"] = sorted(conditions)
    for name in sorted(unwell)[:MAX_NAMED_POOLS]:
        for condition in unwell[name]:
            found.add_metric([name, condition], 1)
    return found


_watched: list[InventoryCollector] = []


def watch_store(store: Inventory, readable: Callable[[], Mapping[str, bool]] = dict) -> None:
    """Collect from this store, and from no earlier one."""
    while _watched:
        REGISTRY.unregister(_watched.pop())
    _watched.append(InventoryCollector(store, readable))
    REGISTRY.register(_watched[0])


def set_leader(*, yes: bool) -> None:
    """Set whether this process is the leader."""
    LEADER.set(yes)


def watch_queue(queue: Sized, longest: Callable[[], float]) -> None:
    """Read the queue's length, and the seconds of the longest present reconcile, whenever the gauges are collected."""
    WAITING.set_function(queue.__len__)
    LONGEST.set_function(longest)


def count_add() -> None:
    """Count a pool that was queued."""
    ADDS.inc()


def observe_wait(seconds: float) -> None:
    """Record how long a due pool has waited for a worker."""
    WAITED.observe(seconds)


def count_failure(controller: str) -> None:
    """Count a failed reconcile, or an error of background work; `controller` is POOLS or SOURCE_CLUSTERS."""
    FAILURES.labels(controller).inc()


@contextmanager
def time_reconcile() -> Iterator[None]:
    """Measure the duration of a reconcile."""
    with RECONCILES.time():
        yield
