"""Metrics of the process itself: the build, and CPU, memory and descriptors under the names of Prometheus's client libraries."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.metrics_core import Metric

BUILD_LABELS = ("version", "commit", "python", "native_modules")

WAIT_S: Final = 1.0
"""Longest wait for the thread. Look-ups of names that DNS does not know may occupy all threads; the other metrics matter then."""


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
        self._collecting: asyncio.Task[None] | None = None
        self._last = b""

    async def text(self) -> bytes:
        """Return the metrics in Prometheus' text format: the last ones known if no thread is free; empty without any."""
        if self._collecting is None or self._collecting.done():
            self._collecting = asyncio.create_task(self._collect())
        done, _ = await asyncio.wait({self._collecting}, timeout=WAIT_S)
        for one in done:
            one.result()
        return self._last

    async def _collect(self) -> None:
        self._last = await asyncio.to_thread(generate_latest, self._registry)
