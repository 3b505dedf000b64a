"""Prometheus metrics of the bookies as this broker sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, SummaryMetricFamily
from prometheus_client.registry import Collector

from readonly_engine.bookkeeper.statistics import RequestKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from readonly_engine.bookkeeper.statistics import ReadStatistics


class BookieCollector(Collector):
    """Metrics of the bookies: what the pool costs them, and how they answer."""

    def __init__(self, statistics: ReadStatistics) -> None:
        self._statistics = statistics

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; called by prometheus_client."""
        requests = CounterMetricFamily(
            "pulsar_readonly_bookie_requests",
            "Requests sent to a bookie: read for one entry, batch for several, lac for the last add confirmed, poll for a "
            "long poll",
            labels=["bookie", "kind"],
        )
        received = CounterMetricFamily("pulsar_readonly_bookie_received_bytes", "Bytes received", labels=["bookie"])
        failures = CounterMetricFamily(
            "pulsar_readonly_bookie_failures",
            "Connections to a bookie that failed, and requests without an answer",
            labels=["bookie"],
        )
        busy = CounterMetricFamily(
            "pulsar_readonly_bookie_busy", "Reads that a bookie refused because it has too many", labels=["bookie"]
        )
        durations = SummaryMetricFamily(
            "pulsar_readonly_bookie_read_duration_seconds",
            "Time from a read of one or more entries to its answer, with the wait for a free place among the requests",
            labels=["bookie"],
        )
        for name, bookie in list(self._statistics.bookies.items()):
            for kind in RequestKind:
                requests.add_metric([name, kind.value], bookie.requests[kind])
            received.add_metric([name], bookie.received)
            failures.add_metric([name], bookie.failures)
            busy.add_metric([name], bookie.busy)
            durations.add_metric([name], bookie.reads.answers, bookie.reads.seconds)
        yield from (requests, received, failures, busy, durations)
