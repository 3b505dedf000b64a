"""Latency at the tail: time from the creation of a message to its arrival, on the owner and on a read-only broker."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from bench.figures import Bar, Report, Sample
from bench.sides import OWNER, POOL, Workload, run_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.cluster import BenchCluster
    from bench.plan import Plan
    from bench.sides import Measured, Round

TITLE: Final = "Latency at the tail, with explicit LAC every 100 ms"
BUSY: Final = (Workload(1, 1000), Workload(10, 1000), Workload(50, 1000))
ISOLATED: Final = (Workload(1, 1), Workload(50, 1))
ISOLATED_S: Final = 20.0
"""Twenty isolated messages per round: their p99 is the slowest."""


def percentile(rounds: Sequence[Round], side: str, name: str) -> Sample:
    """Return a percentile of one side, in ms."""
    sides: list[Measured] = [getattr(round_, side) for round_ in rounds]
    return Sample(tuple(measured.latency_ms[name] for measured in sides))


def run(cluster: BenchCluster, plan: Plan) -> Report:
    """Measure all works."""
    rows, bars, raw = [], [], []
    measured = run_all(cluster, plan, plan.pick(BUSY, BUSY[1:2]), cpu=False)
    isolated = plan.pick(ISOLATED, ISOLATED[:1])  # so few messages need no long warm-up of compilers
    measured += run_all(cluster, plan, isolated, 0.0 if plan.short else ISOLATED_S, warm_up=1, cpu=False)
    for work, rounds in measured:
        cells = [str(work)]
        for side, series in ((OWNER, "owner"), (POOL, "read-only broker")):
            p50, p99 = percentile(rounds, side, "p50"), percentile(rounds, side, "p99")
            cells += [p50.text(".1f"), p99.text(".1f")]
            bars.append(Bar(str(work), f"{series}, p99", p99))
        rows.append(tuple(cells))
        raw.append({"work": asdict(work), "rounds": [asdict(round_) for round_ in rounds]})
    columns = ("readers x messages", "owner, p50 ms", "p99 ms", "read-only broker, p50 ms", "p99 ms ")
    return Report(columns, tuple(rows), "ms", tuple(bars), (), raw)
