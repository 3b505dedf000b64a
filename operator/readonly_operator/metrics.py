"""Prometheus metrics of the operator."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

if TYPE_CHECKING:
    from collections.abc import Iterator

    from readonly_operator.workqueue import WorkQueue

RECONCILES = Histogram(
    "pulsar_readonly_operator_reconcile_seconds",
    "How long looking at one pool took",
    buckets=(0.005, 0.02, 0.1, 0.5, 2, 10),
)
FAILURES = Counter(
    "pulsar_readonly_operator_reconcile_failures_total", "Looks at a pool that failed and are tried again"
)
WAITING = Gauge("pulsar_readonly_operator_queue_length", "Pools that wait to be looked at")

LEADER = Gauge("pulsar_readonly_operator_leader", "1 while this process holds the Lease, or needs none")


def leading(*, yes: bool) -> None:
    """Note whether this process acts."""
    LEADER.set(yes)


def watch_queue(queue: WorkQueue) -> None:
    """Let the gauge show this queue."""
    WAITING.set_function(queue.__len__)


def failed() -> None:
    """Count a failure."""
    FAILURES.inc()


@contextmanager
def timed() -> Iterator[None]:
    """Measure a reconcile."""
    with RECONCILES.time():
        yield
