"""Shared: a hundred consumers of one subscription that ack each message, in groups as stock clients do."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from bench.figures import Bar, Report, ratio
from bench.sides import Workload, behind, run_all, sample

if TYPE_CHECKING:
    from bench.cluster import BenchCluster
    from bench.plan import Plan

TITLE: Final = "Shared, 100 consumers with acks: CPU of the brokers per message"
WORKS: Final = (
    Workload(100, 2_000, 1024, shared=True),
    Workload(100, 5_000, 1024, shared=True),
    Workload(100, 5_000, 1024, batched=True, shared=True),
)


def run(cluster: BenchCluster, plan: Plan) -> Report:
    """Measure all works."""
    rows, bars, raw, notes = [], [], [], list[str]()
    for work, rounds in run_all(cluster, plan, plan.pick(WORKS, WORKS[:1])):
        owner, pool, left = sample(rounds, "owner_us"), sample(rounds, "pool_us"), sample(rounds, "left_us")
        row = (
            str(work),
            owner.text(".1f"),
            pool.text(".1f"),
            ratio(pool.values, owner.values).text(),
            left.text(".1f"),
            ratio(left.values, owner.values).text(),
        )
        rows.append(row)
        bars += [Bar(str(work), "owner", owner), Bar(str(work), "read-only broker", pool)]
        bars.append(Bar(str(work), "remaining at the owner", left))
        raw.append({"work": asdict(work), "rounds": [asdict(round_) for round_ in rounds]})
        notes += behind(work, rounds)
    columns = (
        "consumers x messages",
        "on the owner, µs per message",
        "read-only broker, µs",
        "ratio",
        "remaining at the owner, µs",
        "ratio ",
    )
    return Report(columns, tuple(rows), "µs of CPU per message", tuple(bars), tuple(notes), raw)
