"""Prometheus metrics of the owners' answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import SummaryMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from readonly_engine.owner.durations import RequestDurations


class OwnerCollector(Collector):
    """How the owners answer: what waits for them is a client's SUBSCRIBE, lookup or change."""

    def __init__(self, durations: RequestDurations) -> None:
        self._durations = durations

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; called by prometheus_client."""
        found = SummaryMetricFamily(
            "pulsar_readonly_owner_request_duration_seconds",
            "Time from a request to a broker of the source cluster until its answer, which may be an error; without acks",
            labels=["request"],
        )
        for request, durations in sorted(self._durations.by_request.items()):
            found.add_metric([request], durations.answers, durations.seconds)
        yield found
