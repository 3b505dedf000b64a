"""Metrics of the process itself: the build, and CPU, memory and descriptors under the names of Prometheus's client libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector
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


def process_registry() -> CollectorRegistry:
    """Return a registry of the metrics `process_*`.

    Collect it in a thread: it lists all descriptors of the process, of which there is one for each client.
    """
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return registry
