"""Growth: cost of a read-only broker and of the owner by number of subscribers, message rate and number of topics."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from bench.figures import Bar, Report, ratio
from bench.sides import POOL, Workload, busy, run_all, sample

if TYPE_CHECKING:
    from bench.cluster import BenchCluster
    from bench.plan import Plan

TITLE: Final = "Growth: CPU of the serving broker per delivered message"
SUBSCRIBERS: Final = tuple(Workload(readers, 20) for readers in (1, 10, 100, 1000))
RATES: Final = tuple(Workload(50, rate) for rate in (1, 10, 100, 1000))
ONE: Final = (Workload(1, 1000),)
TOPICS: Final = tuple(Workload(topics, 200, topics=topics) for topics in (10, 100, 1000, 5000))
LEAST_S: Final = 15.0
"""Least duration: with few messages the owner's collections of garbage would be most of a shorter one."""


def run(cluster: BenchCluster, plan: Plan) -> Report:
    """Measure all works."""
    rows, bars, raw = [], [], []
    for what, works in (("subscribers", SUBSCRIBERS), ("rate", RATES), ("one reader", ONE), ("topics", TOPICS)):
        for work, rounds in run_all(cluster, plan, plan.pick(works, works[:2]), 0.0 if plan.short else LEAST_S):
            owner, pool, total = sample(rounds, "owner_us"), sample(rounds, "pool_us"), sample(rounds, "total_us")
            row = (
                what,
                str(work),
                owner.text(),
                pool.text(),
                ratio(pool.values, owner.values).text(),
                ratio(total.values, owner.values).text(),
                busy(rounds, POOL, "engine").text(".1%"),
            )
            rows.append(row)
            bars += [Bar(str(work), "owner", owner), Bar(str(work), "read-only broker", pool)]
            raw.append({"of": what, "work": asdict(work), "rounds": [asdict(round_) for round_ in rounds]})
    columns = (
        "variable",
        "work",
        "owner, µs per message",
        "read-only broker, µs",
        "ratio",
        "ratio, with its work at the owner",
        "read-only broker, share of a core",
    )
    return Report(columns, tuple(rows), "µs of CPU per message", tuple(bars), (), raw)
