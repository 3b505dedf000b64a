"""Saturation: messages delivered per CPU second of each broker, at high rates."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from bench.figures import Bar, Report, Sample, ratio
from bench.sides import OWNER, POOL, Workload, run_all, sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.cluster import BenchCluster
    from bench.plan import Plan
    from bench.sides import Measured, Round

TITLE: Final = "Saturation: MB delivered per CPU second of the serving broker"

WORKS: Final = (
    Workload(20, 5_000, 1024),
    Workload(20, 10_000, 1024, batched=True),
    Workload(20, 10_000, 100),
)
"""High rates; a fast machine may keep up with them."""


def per_cpu_second(work: Workload, rounds: Sequence[Round], name: str) -> Sample:
    """Return MB per CPU second, from the cost of a message."""
    return Sample(tuple(work.size / value for value in sample(rounds, name).values))


def _by_the_clock(work: Workload, rounds: Sequence[Round], side: str) -> Sample:
    sides: list[Measured] = [getattr(round_, side) for round_ in rounds]
    return Sample(tuple(measured.delivered * work.size / measured.seconds / 1e6 for measured in sides))


def run(cluster: BenchCluster, plan: Plan) -> Report:
    """Measure all works."""
    rows, bars, raw = [], [], []
    for work, rounds in run_all(cluster, plan, plan.pick(WORKS, WORKS[:1])):
        owner, pool = per_cpu_second(work, rounds, "owner_us"), per_cpu_second(work, rounds, "pool_us")
        row = (
            str(work),
            owner.text(".0f"),
            pool.text(".0f"),
            ratio(pool.values, owner.values).text(".1f"),
            _by_the_clock(work, rounds, OWNER).text(".0f"),
            _by_the_clock(work, rounds, POOL).text(".0f"),
        )
        rows.append(row)
        bars += [Bar(str(work), "owner", owner), Bar(str(work), "read-only broker", pool)]
        raw.append({"work": asdict(work), "rounds": [asdict(round_) for round_ in rounds]})
    columns = (
        "readers x messages",
        "owner, MB per CPU second",
        "read-only broker",
        "ratio",
        "owner, MB/s",
        "read-only broker, MB/s",
    )
    return Report(columns, tuple(rows), "MB per CPU second", tuple(bars), (), raw)
