"""Fan-out: many readers at the tail of a topic, on its owner and on a read-only broker by turns."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from bench.figures import Bar, Report, Sample, ratio
from bench.sides import POOL, Workload, behind, busy, run_all, sample

if TYPE_CHECKING:
    from bench.cluster import BenchCluster
    from bench.plan import Plan

TITLE: Final = "Fan-out: CPU of the serving broker per delivered message"

SHAPES: Final = ((50, 1000), (200, 100), (1000, 10))

WORKS: Final = (
    *(Workload(readers, rate, size) for size in (1024, 100, 16384) for readers, rate in SHAPES),
    *(Workload(readers, rate, 1024, batched=True) for readers, rate in SHAPES),
)


def run(cluster: BenchCluster, plan: Plan) -> Report:
    """Measure all works."""
    rows, bars, raw, notes = [], [], [], list[str]()
    for work, rounds in run_all(cluster, plan, plan.pick(WORKS, WORKS[:3])):
        owner, pool = sample(rounds, "owner_us"), sample(rounds, "pool_us")
        reads = Sample(tuple(round_.pool.bookie_reads / max(1, round_.pool.entries) for round_ in rounds))
        row = (
            str(work),
            owner.text(),
            pool.text(),
            ratio(pool.values, owner.values).text(),
            sample(rounds, "saved").text(".0%"),
            reads.text(),
            busy(rounds, POOL, "client").text(".0%"),
        )
        rows.append(row)
        bars += [Bar(str(work), "owner", owner), Bar(str(work), "read-only broker", pool)]
        raw.append({"work": asdict(work), "rounds": [asdict(round_) for round_ in rounds]})
        notes += behind(work, rounds)
    columns = (
        "readers x messages",
        "owner, µs per message",
        "read-only broker, µs",
        "ratio",
        "owner CPU saved",
        "bookie reads per entry",
        "client, share of a core",
    )
    return Report(columns, tuple(rows), "µs of CPU per message", tuple(bars), tuple(notes), raw)
