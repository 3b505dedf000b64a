"""How late the event loop is: the time that a client may wait because the broker is busy with others."""

from __future__ import annotations

import asyncio
import bisect
import math
from typing import TYPE_CHECKING, Final

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from readonly_engine.background import next_tick
from readonly_engine.http.exposition import cumulative

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

EVERY_S: Final = 1.0
"""One timer a second costs a broker at rest nothing that can be measured."""

BOUNDS: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, math.inf)
"""Upper bounds of the delays, in seconds. 20 ms is the longest turn that one client may cause."""


class EventLoopDelay(Collector):
    """Measures by how much a timer comes too late, once a second."""

    def __init__(self) -> None:
        self._counts = [0] * len(BOUNDS)
        self._sum = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start to measure."""
        loop = asyncio.get_running_loop()
        due = next_tick(loop.time(), EVERY_S)
        self._timer = loop.call_at(due, self._measure, due)

    def stop(self) -> None:
        """Stop to measure."""
        if self._timer is not None:
            self._timer.cancel()

    def observe(self, seconds: float) -> None:
        """Count a delay."""
        self._counts[bisect.bisect_left(BOUNDS, seconds)] += 1
        self._sum += seconds

    def _measure(self, due: float) -> None:
        self.observe(max(0.0, asyncio.get_running_loop().time() - due))
        self.start()

    def collect(self) -> Iterator[Metric]:
        """Yield the metric; called by prometheus_client."""
        yield HistogramMetricFamily(
            "pulsar_readonly_event_loop_delay_seconds",
            "By how much the event loop runs a timer too late, measured once a second",
            buckets=cumulative(BOUNDS, self._counts),
            sum_value=self._sum,
        )
