"""Metrics of several workers merged into one target: each sample gets the label `worker`. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prometheus_client import Metric

LABEL = "worker"


class _Collected(Collector):
    """Families that were parsed from text."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def merge(texts: Mapping[int, str]) -> bytes:
    """Merge expositions into one.

    Args:
        texts: expositions in Prometheus' text format, by worker number.

    Raises:
        ValueError: a text has another format.
    """
    families: dict[str, Metric] = {}
    for worker, text in texts.items():
        for family in text_string_to_metric_families(text):
            merged = families.setdefault(family.name, family)
            samples = [sample._replace(labels={**sample.labels, LABEL: str(worker)}) for sample in family.samples]
            if merged is family:
                merged.samples = samples
            else:
                merged.samples.extend(samples)
    registry = CollectorRegistry()
    registry.register(_Collected(families.values()))
    return generate_latest(registry)
