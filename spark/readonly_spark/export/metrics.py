"""Prometheus metrics of a running export: what it has written, and how far it is behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily

from readonly_spark.closing import Closeable
from readonly_spark.export.errors import ExportError
from readonly_spark.lag.metrics import MetricsServer, lag_families

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client.core import Metric

    from readonly_spark.export.totals import Totals
    from readonly_spark.lag.topic_lag import TopicLag

PREFIX: Final = "pulsar_readonly_export"


class ExportMetrics(Closeable):
    """Serves the metrics at an address, from a thread.

    Args:
        totals: what was exported in this run.
        address: host and port.

    Raises:
        ExportError: the address cannot be used.
    """

    def __init__(self, totals: Totals, address: tuple[str, int]) -> None:
        self._totals = totals
        self._lags: Sequence[TopicLag] = ()
        self._measured_at = 0.0
        host, port = address
        try:
            self._server = MetricsServer(self, address)
        except OSError as error:
            raise ExportError(f"--metrics {host}:{port}: {error.strerror or error}; choose a free address") from None

    def measured(self, lags: Sequence[TopicLag], measured_at: float) -> None:
        """Take the lag of each topic, and when it was measured, in seconds since the epoch."""
        self._lags, self._measured_at = lags, measured_at

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; prometheus_client calls this for each scrape."""
        for name, text, value in (
            ("messages", "Exported messages of this run.", self._totals.messages),
            ("value_bytes", "Bytes of their values.", self._totals.value_bytes),
            ("batches", "Micro-batches with messages.", self._totals.batches),
        ):
            yield CounterMetricFamily(f"{PREFIX}_{name}", text, value=value)
        yield from lag_families(PREFIX, "exported", self._lags, self._measured_at)

    def close(self) -> None:
        """Stop serving."""
        self._server.close()
