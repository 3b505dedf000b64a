"""Prometheus metrics of the metadata stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from readonly_engine.metadata.connect import ClusterStores


class StoreCollector(Collector):
    """Metrics of the metadata stores of a cluster."""

    def __init__(self, stores: ClusterStores) -> None:
        self._stores = stores

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; called by prometheus_client."""
        yield GaugeMetricFamily(
            "pulsar_readonly_metadata_store_connected",
            "1 while the metadata store answers",
            value=self._stores.connected,
        )
        yield CounterMetricFamily(
            "pulsar_readonly_metadata_store_denials",
            "Requests and connections that the metadata store refused: a right, a login or a certificate is missing",
            value=self._stores.denied,
        )
        durations = self._stores.durations
        yield SummaryMetricFamily(
            "pulsar_readonly_metadata_store_request_duration_seconds",
            "Time from a request to the metadata store until its answer, which may be an error",
            count_value=durations.answers,
            sum_value=durations.seconds,
        )
