"""Prometheus' text format, made in slices of the event loop's time, and once for all simultaneous requests.

A broker of 10,000 topics has 70,000 samples. In one piece they would hold the event loop for a second and more.
"""

from __future__ import annotations

import asyncio
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from readonly_engine.http.status.quota import PageQuota
from readonly_engine.http.status.slices import STEPS, Slices

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterable, Sequence

    from prometheus_client.metrics_core import Metric

STEPS_PER_SAMPLE: Final = 5
"""Steps to make a sample and its line."""

SAMPLES_PER_PART: Final = STEPS // STEPS_PER_SAMPLE
"""Samples of a metric between two turns of the event loop."""


class _Part(Collector):
    """The part of the exposition that is made now."""

    def __init__(self) -> None:
        self.metrics: list[Metric] = []

    def collect(self) -> Iterable[Metric]:
        return self.metrics


async def render(parts: AsyncIterable[Metric], slices: Slices) -> bytes:
    """Return an exposition in Prometheus' text format.

    Args:
        parts: metrics. Consecutive ones of one name are parts of one metric, and get one header.
        slices: gives the event loop its turns.
    """
    part = _Part()
    registry = CollectorRegistry()
    registry.register(part)
    texts = []
    last = ""
    async for metric in parts:
        part.metrics = [metric]
        text = generate_latest(registry)
        if metric.name == last:
            text = text.split(b"\n", 2)[2]  # without HELP and TYPE
        last = metric.name
        texts.append(text)
        if slices.add(1 + STEPS_PER_SAMPLE * len(metric.samples)):
            await slices.pause()
    return b"".join(texts)


class Exposition:
    """Makes one exposition for all simultaneous requests, within a share of the event loop's time.

    A stranger who asks without a pause gets the last one again: that costs nothing. Prometheus never gets so far: it asks every
    some seconds.

    Args:
        collect: returns the metrics in parts; see `render`.
    """

    def __init__(self, collect: Callable[[Slices], AsyncIterable[Metric]]) -> None:
        self._collect = collect
        self._quota = PageQuota()
        self._making: asyncio.Task[bytes] | None = None
        self._last = b""

    async def text(self) -> bytes:
        """Return the exposition: one under way, a new one, or the last one while those before took too much time."""
        if self._making is None or self._making.done():
            if self._last and self._quota.enter(asyncio.get_running_loop().time()):
                return self._last
            # A task of its own: a client that goes must not waste the work that others wait for.
            self._making = asyncio.create_task(self._make(admitted=bool(self._last)))
        making = self._making
        await asyncio.wait({making})
        return making.result()

    def close(self) -> None:
        """Cancel the exposition under way."""
        if self._making is not None:
            self._making.cancel()

    async def _make(self, *, admitted: bool) -> bytes:
        slices = Slices()
        try:
            self._last = await render(self._collect(slices), slices)
        finally:
            if admitted:
                self._quota.leave(slices.spent_s)
            else:
                self._quota.charge(slices.spent_s)
        return self._last


def cumulative(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return cumulative buckets of a histogram.

    Args:
        bounds: upper bounds; the last one is infinite.
        counts: number of values in each bucket alone.
    """
    names = [f"{bound:g}".replace("inf", "+Inf") for bound in bounds]
    return list(zip(names, map(float, accumulate(counts)), strict=True))
