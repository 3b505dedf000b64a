"""Few readers: cost of a read-only broker and of the owner with one reader for each topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.scenarios.growth import measure, report
from bench.sides import Workload

if TYPE_CHECKING:
    from bench.cluster import BenchCluster
    from bench.figures import Report
    from bench.plan import Plan

TITLE: Final = "One reader for each topic: CPU of the serving broker per delivered message"
ONE: Final = (Workload(1, 1000),)
TOPICS: Final = tuple(Workload(topics, 200, topics=topics) for topics in (10, 100, 1000, 5000))
EACH: Final = tuple(Workload(topics, topics, topics=topics) for topics in (100, 1000))
"""One message a second for each topic."""


def run(cluster: BenchCluster, plan: Plan) -> Report:
    """Measure all works."""
    return report(measure(cluster, plan, (("one topic", ONE), ("topics", TOPICS), ("topics, 1/s each", EACH))))
