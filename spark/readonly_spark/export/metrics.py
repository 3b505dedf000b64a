"""Prometheus metrics of a running export: what it has written, and how far it is behind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from readonly_spark.export.closing import Closeable
from readonly_spark.export.errors import ExportError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prometheus_client.core import Metric

    from readonly_spark.export.totals import Lag, Totals

PREFIX: Final = "pulsar_readonly_export"

_ADDRESS: Final = re.compile(r"(?:(?P<host>[\w.-]+|\[[0-9A-Fa-f:.]+\]):)?(?P<port>\d{1,5})")


def parse_address(text: str) -> tuple[str, int]:
    """Parse `HOST:PORT`, or `PORT` for all addresses of the machine.

    Raises:
        ValueError: the text is malformed.
    """
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or not 0 < int(match["port"]) < 1 << 16:
        raise ValueError(f"{text!r} must be HOST:PORT or PORT")
    return (match["host"] or "0.0.0.0").strip("[]"), int(match["port"])  # noqa: S104  metrics are scraped from elsewhere


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
        self._lags: Sequence[Lag] = ()
        registry = CollectorRegistry()
        registry.register(self)
        host, port = address
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except OSError as error:
            raise ExportError(f"--metrics {host}:{port}: {error.strerror or error}; choose a free address") from None

    def measured(self, lags: Sequence[Lag]) -> None:
        """Take the lag of each topic."""
        self._lags = lags

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; prometheus_client calls this for each scrape."""
        for name, text, value in (
            ("messages", "Exported messages of this run.", self._totals.messages),
            ("value_bytes", "Bytes of their values.", self._totals.value_bytes),
            ("batches", "Micro-batches with messages.", self._totals.batches),
        ):
            yield CounterMetricFamily(f"{PREFIX}_{name}", text, value=value)
        gauges: dict[str, tuple[str, Callable[[Lag], float]]] = {
            "lag_messages": ("Messages that are not exported yet, estimated.", lambda lag: lag.messages),
            "lag_entries": ("Entries that are not exported yet.", lambda lag: lag.entries),
            "lag_bytes": ("Stored bytes that are not exported yet, estimated.", lambda lag: lag.stored_bytes),
            "lag_seconds": ("Age of the oldest message that is not exported yet.", lambda lag: lag.seconds),
        }
        for name, (text, value_of) in gauges.items():
            family = GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=["topic"])
            for lag in self._lags:
                family.add_metric([lag.topic], value_of(lag))
            yield family

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
