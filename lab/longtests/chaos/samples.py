"""Memory, open files, tasks and latency of read-only brokers over time, and a check that they stay flat."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.cpu import resident_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devstack.pool import BrokerProcess

GROWTH: Final = 1.1
"""Allowed ratio of the last third of a run to the middle third."""

SLACK: Final = {"memory": 15.0, "files": 15.0, "tasks": 30.0, "latency": 0.25}
LEAST: Final = 30
"""Minimum number of values for a check of a series."""


class Sample(NamedTuple):
    """One broker at one moment.

    Attributes:
        at: seconds since the start of the run.
        node: the broker's node.
        memory: MB.
        files: open file descriptors.
        tasks: of its event loop.
    """

    at: float
    node: str
    memory: float
    files: float
    tasks: float


def take(at: float, node: str, broker: BrokerProcess) -> Sample | None:
    """Return a sample of a broker; None if it does not answer."""
    try:
        pid = broker.process.pid
        tasks = json.loads(broker.get("/stats"))["tasks"]
        files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        return Sample(at, node, resident_bytes([pid]) / (1 << 20), files, float(tasks))
    except (OSError, ValueError, KeyError):
        return None


def growing(name: str, values: Sequence[float], slack: float) -> str:
    """Return how a series grows, by the medians of its middle and last third; empty if it does not."""
    if len(values) < LEAST:
        return ""
    third = len(values) // 3
    middle, last = statistics.median(values[third : 2 * third]), statistics.median(values[2 * third :])
    if last <= middle * GROWTH + slack:
        return ""
    return f"{name} grows: {middle:.2f} in the middle of the run, {last:.2f} at its end (medians)"


def trends(samples: Sequence[Sample], latencies: Mapping[int, Sequence[float]]) -> list[str]:
    """Return the growing series."""
    found = []
    for node in sorted({sample.node for sample in samples}):
        own = [sample for sample in samples if sample.node == node]
        found += [
            growing(f"{what} of {node}", [getattr(one, what) for one in own], SLACK[what])
            for what in ("memory", "files", "tasks")
        ]
    medians = [statistics.median(latencies[minute]) for minute in sorted(latencies)]
    found.append(growing("latency", medians, SLACK["latency"]))
    return [text for text in found if text]
