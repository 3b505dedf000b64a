"""Metrics of the process itself: the build, and CPU, memory and descriptors under the names of Prometheus's client libraries."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.metrics_core import Metric

BUILD_LABELS = ("version", "commit", "python", "native_modules")


class BuildCollector(Collector):
    """The build as labels of a metric that is always 1, so that a query can join it with any other.

    Args:
        build: values of BUILD_LABELS; a missing one is empty.
    """

    def __init__(self, build: Mapping[str, str]) -> None:
        self._build = build

    def collect(self) -> Iterator[Metric]:
        """Yield the metric; called by prometheus_client."""
        found = GaugeMetricFamily(
            "pulsar_readonly_build_info",
            "1; the labels are version, commit, Python and the loaded C modules",
            labels=BUILD_LABELS,
        )
        found.add_metric([self._build.get(label, "") for label in BUILD_LABELS], 1)
        yield found


class ProcessMetrics:
    """Collects the metrics `process_*` in a thread, because that lists all descriptors: there is one for each client.

    Simultaneous requests share one collection, so that no flood of requests occupies the threads that read files.

    Args:
        registry: the metrics; by default those of this process.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        if registry is None:
            registry = CollectorRegistry()
            ProcessCollector(registry=registry)
        self._registry = registry
        self._collecting: asyncio.Task[bytes] | None = None

    async def text(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        if self._collecting is None or self._collecting.done():
            self._collecting = asyncio.create_task(asyncio.to_thread(generate_latest, self._registry))
        return await asyncio.shield(self._collecting)
