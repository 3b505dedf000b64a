"""Prometheus metric of the broker's own certificates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from readonly_engine.net.certificates import first_expiry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from prometheus_client.metrics_core import Metric


class CertificateCollector(Collector):
    """When certificates expire. A file is read again after a change; without a readable certificate there is no sample.

    Args:
        files: files of certificates, by their options.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files
        self._known: dict[str, tuple[int, float | None]] = {}

    def collect(self) -> Iterator[Metric]:
        """Yield the metric; called by prometheus_client."""
        found = GaugeMetricFamily(
            "pulsar_readonly_certificate_expiration_timestamp_seconds",
            "Time at which the first certificate of a file expires, in seconds since 1970",
            labels=["option"],
        )
        for option, path in self._files.items():
            expiry = self._expiry(option, path)
            if expiry is not None:
                found.add_metric([option], expiry)
        yield found

    def _expiry(self, option: str, path: Path) -> float | None:
        try:
            changed = path.stat().st_mtime_ns
            known = self._known.get(option)
            if known is None or known[0] != changed:
                known = self._known[option] = changed, first_expiry(path)
        except (OSError, ValueError):
            return None
        return known[1]
