"""Saturation: more than the machine carries, and what each broker delivers for a second of its CPU."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from bench.figures import Bar, Report, Sample, ratio
from bench.sides import OWNER, POOL, Work, run_all, sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.cluster import BenchCluster
    from bench.plan import Plan
    from bench.sides import Measured, Round

TITLE: Final = "Saturation: MB delivered for a CPU second of the serving broker"

WORKS: Final = (
    Work(20, 5_000, 1024),
    Work(20, 10_000, 1024, batched=True),
    Work(20, 10_000, 100),
)
"""On a machine that carries these they are what they are: figures of a fast tail."""


def per_cpu_second(work: Work, rounds: Sequence[Round], name: str) -> Sample:
    """MB for a CPU second, from what a message costs."""
    return Sample(tuple(work.size / value for value in sample(rounds, name).values))


def _by_the_clock(work: Work, rounds: Sequence[Round], side: str) -> Sample:
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
        "owner, MB a CPU second",
        "read-only broker",
        "times",
        "owner, MB/s",
        "read-only broker, MB/s",
    )
    return Report(columns, tuple(rows), "MB a CPU second", tuple(bars), (), raw)
