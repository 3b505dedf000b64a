"""Prometheus metrics of the lag of queries, and the server of metrics."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily

from readonly_spark.closing import Closeable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prometheus_client.registry import Collector

    from readonly_spark.lag.topic_lag import TopicLag

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


_GAUGES: Final[Mapping[str, tuple[str, Callable[[TopicLag], float]]]] = {
    "lag_messages": ("Messages that are not {done} yet, estimated.", lambda lag: lag.messages),
    "lag_entries": ("Entries that are not {done} yet.", lambda lag: lag.entries),
    "lag_bytes": ("Stored bytes that are not {done} yet, estimated.", lambda lag: lag.stored_bytes),
    "lag_seconds": ("Age of the oldest message that is not {done} yet.", lambda lag: lag.seconds),
}


def lag_families(
    prefix: str, done: str, lags: Sequence[TopicLag], measured_at: float, **labels: str
) -> Iterator[GaugeMetricFamily]:
    """Yield the gauges of a query's lag by topic, and when it was measured.

    Args:
        prefix: the first words of each name.
        done: what becomes of messages, for the descriptions: `read`, `exported`.
        lags: the lag of each topic.
        measured_at: when it was measured, in seconds since the epoch; 0 if it was not yet.
        labels: more labels of each gauge.
    """
    for name, (text, value_of) in _GAUGES.items():
        family = GaugeMetricFamily(f"{prefix}_{name}", text.format(done=done), labels=[*labels, "topic"])
        for lag in lags:
            family.add_metric([*labels.values(), lag.topic], value_of(lag))
        yield family
    family = GaugeMetricFamily(
        f"{prefix}_lag_measured_timestamp_seconds",
        "When the lag was measured; old while the cluster does not answer.",
        labels=list(labels),
    )
    if measured_at:
        family.add_metric(list(labels.values()), measured_at)
    yield family


class MetricsServer(Closeable):
    """Serves metrics at an address, from a thread.

    Args:
        collector: yields them for each scrape.
        address: host and port.

    Raises:
        OSError: the address cannot be used.
    """

    def __init__(self, collector: Collector, address: tuple[str, int]) -> None:
        registry = CollectorRegistry()
        registry.register(collector)
        host, port = address
        self._server, self._thread = start_http_server(port, host, registry)

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
