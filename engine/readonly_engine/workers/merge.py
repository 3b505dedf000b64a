"""The metrics of several workers as those of one target: each sample says of which worker it is. Pure."""

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
    """Families that were read elsewhere."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def merge(texts: Mapping[int, str]) -> bytes:
    """One exposition of all.

    Args:
        texts: by the number of the worker, in Prometheus' text format.

    Raises:
        ValueError: one is not in that format.
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
