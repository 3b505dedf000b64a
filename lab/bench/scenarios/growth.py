"""Growth: cost of a read-only broker and of the owner by number of subscribers and message rate."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from bench.figures import Bar, Report, ratio
from bench.sides import POOL, Workload, busy, run_all, sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.cluster import BenchCluster
    from bench.plan import Plan
    from bench.sides import Round

TITLE: Final = "Growth: CPU of the serving broker per delivered message"
SUBSCRIBERS: Final = tuple(Workload(readers, 20) for readers in (1, 10, 100, 1000))
RATES: Final = tuple(Workload(50, rate) for rate in (1, 10, 100, 1000))
LEAST_S: Final = 10.0
"""Least duration: with few messages the owner's collections of garbage would be most of a shorter one."""


def run(cluster: BenchCluster, plan: Plan) -> Report:
    """Measure all works."""
    return report(measure(cluster, plan, (("subscribers", SUBSCRIBERS), ("rate", RATES))))


def measure(
    cluster: BenchCluster, plan: Plan, groups: Iterable[tuple[str, Sequence[Workload]]]
) -> list[tuple[str, Workload, list[Round]]]:
    """Measure groups of works.

    Args:
        cluster: the bench's Pulsar.
        plan: rounds and seconds.
        groups: the name of the variable, and the works that differ in it.
    """
    return [
        (variable, work, rounds)
        for variable, works in groups
        for work, rounds in run_all(cluster, plan, plan.pick(works, works[:2]), 0.0 if plan.short else LEAST_S)
    ]


def report(measured: Iterable[tuple[str, Workload, list[Round]]]) -> Report:
    """Return the table of measured works."""
    rows, bars, raw = [], [], []
    for variable, work, rounds in measured:
        owner, pool, total = sample(rounds, "owner_us"), sample(rounds, "pool_us"), sample(rounds, "total_us")
        rows.append(
            (
                variable,
                str(work),
                owner.text(),
                pool.text(),
                ratio(pool.values, owner.values).text(),
                ratio(total.values, owner.values).text(),
                sample(rounds, "together").text(),
                busy(rounds, POOL, "engine").text(".1%"),
            )
        )
        bars += [Bar(str(work), "owner", owner), Bar(str(work), "read-only broker", pool)]
        raw.append({"of": variable, "work": asdict(work), "rounds": [asdict(round_) for round_ in rounds]})
    columns = (
        "variable",
        "work",
        "owner, µs per message",
        "read-only broker, µs",
        "ratio",
        "ratio, with the readers' work left at the owner",
        "all CPU of both, to the owner's alone",
        "read-only broker, share of a core",
    )
    return Report(columns, tuple(rows), "µs of CPU per message", tuple(bars), (), raw)
