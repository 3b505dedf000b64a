"""Plans beside the results of the benches: each shape with what was measured, and with a plan that does not know it.

The constants of `readonly_engine.sizing.measured` come from tables of the same benches, so a plan of such a shape repeats its
own input. Two checks are independent of that: shapes that no constant comes from, and plans whose constants are solved again
from the other shapes (leave-one-out). Sources: docs/explanation/performance/*.json.
"""

from __future__ import annotations

import json
import statistics
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from readonly_engine.sizing import measured, pool_cost
from readonly_engine.sizing.estimate import Case, Estimate
from readonly_engine.sizing.memory import broker_bytes, cache_bytes
from readonly_engine.sizing.owner_cost import cpu_alone
from readonly_engine.sizing.pool_cost import process_cpu
from readonly_engine.sizing.workload import Policy, Subscriptions, SubscriptionType, TopicLoad, Workload

from docsite.constants import CONSTANTS, MEMORY, OWNER, OWNER_BACKLOG, POOL, POOL_BACKLOG, Constant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

RESULTS: Final = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "performance"
MARGIN: Final = 0.3
"""Greatest difference of a plan from a measurement, as a share of the measurement."""

NEGLIGIBLE_US: Final = 10_000.0
"""Difference in microseconds per second, 1 % of a core, that no plan depends on."""

BATCH_BYTES: Final = 128 * 1024.0
"""Entries of the batched backlog (docs/explanation/performance.md, Catch-up)."""

_READER: Final = (Subscriptions(SubscriptionType.READER, 1),)
_MIN_PART: Final = 0.001
"""Part of a plan below which a constant cannot be solved from it."""

_MAX_FACTOR: Final = 1000.0
_STEPS: Final = 60


@dataclass(frozen=True)
class Comparison:
    """A shape: rounds and plan in the unit of its quantity.

    Attributes:
        quantity: one of POOL, OWNER, POOL_BACKLOG, OWNER_BACKLOG and MEMORY (docsite/constants.py).
        shape: the bench and its work.
        rounds: lowest, median and highest measurement.
        model: the planned value for a case.
    """

    quantity: str
    shape: str
    rounds: Estimate
    model: Callable[[Case], float]

    @property
    def planned(self) -> float:
        """The expected value of a plan."""
        return self.model(Case.EXPECTED)

    @property
    def difference(self) -> float:
        """Difference of the plan, as a share of the median."""
        return self.planned / self.rounds.expected - 1

    def is_close(self, planned: float) -> bool:
        """Return whether a planned value is close enough: within MARGIN, or within 1 % of a core."""
        away = abs(planned - self.rounds.expected)
        per_second = self.quantity in {POOL, OWNER}
        return away <= MARGIN * abs(self.rounds.expected) or (per_second and away <= NEGLIGIBLE_US)

    def __str__(self) -> str:
        """Return the line of a report."""
        return f"{self.shape:48} measured {self.rounds.expected:14,.0f}  planned {self.planned:14,.0f}  {self.difference:+5.0%}"


def without(row: Comparison, rows: Sequence[Comparison]) -> float | None:
    """Return the plan of a shape from constants that do not know it; None where no other shape has one of them.

    A constant that the shape gave is solved again from the other shapes that determine it. A point of a table without such a
    shape is left out, so its neighbours stand for it.

    Args:
        row: the shape.
        rows: shapes of all quantities.
    """
    with ExitStack() as stack:
        for constant in CONSTANTS:
            if (row.quantity, row.shape) not in constant.sources:
                continue
            known = constant.others(row.quantity, row.shape)
            others = [one for one in rows if (one.quantity, one.shape) in known and _depends(constant, one)]
            if others:
                value = statistics.median(solved(constant, one) for one in others)
                stack.enter_context(_replaced(constant, value))
            elif constant.point is not None and len(getattr(measured, constant.name)) > 1:
                stack.enter_context(_dropped(constant))
            else:
                return None
        return row.planned


def is_source(row: Comparison) -> bool:
    """Return whether a constant comes from a shape."""
    return any((row.quantity, row.shape) in one.sources for one in CONSTANTS)


def _depends(constant: Constant, row: Comparison) -> bool:
    """Return whether a constant has a part of a plan from which it can be solved."""
    whole = row.planned
    with _replaced(constant, constant.value / 2):  # a cost of nothing has no logarithm to interpolate by
        return whole - row.planned > _MIN_PART * whole


def solved(constant: Constant, row: Comparison) -> float:
    """Return the value of a constant at which the plan of a shape is its median; a bound of the search where none is."""
    low, high = constant.value / _MAX_FACTOR, constant.value * _MAX_FACTOR
    for _ in range(_STEPS):
        middle = (low + high) / 2
        with _replaced(constant, middle):
            low, high = (middle, high) if row.planned < row.rounds.expected else (low, middle)
    return (low + high) / 2


@contextmanager
def _replaced(constant: Constant, value: float) -> Iterator[None]:
    """Use another expected value of a constant."""
    made: Any = Estimate(value, value, value)
    if constant.point is not None:
        points = list(getattr(measured, constant.name))
        points[constant.place] = (points[constant.place][0], made)
        made = tuple(points)
    with patch.object(measured, constant.name, made):
        yield


@contextmanager
def _dropped(constant: Constant) -> Iterator[None]:
    """Leave a point out of a table."""
    points = getattr(measured, constant.name)
    with patch.object(measured, constant.name, tuple(one for one in points if one[0] != constant.point)):
        yield


def measurements(result: str) -> list[dict[str, Any]]:
    """Return the measurements of a file of results, named without its suffix."""
    found: list[dict[str, Any]] = json.loads((RESULTS / f"{result}.json").read_text(encoding="utf-8"))["measured"]
    return found


def workload(work: dict[str, Any], rounds: list[dict[str, Any]]) -> Workload:
    """Return the load of a bench as a plan has it; the batches are those that its producer made."""
    entries = statistics.median(one["pool"]["entries"] / one["pool"]["published"] for one in rounds)
    topics = work["topics"]
    subscriptions = (
        Subscriptions(SubscriptionType.SHARED, 1, work["readers"])
        if work["shared"]
        else Subscriptions(SubscriptionType.READER, work["readers"] / topics)
    )
    rate = work["rate"] / topics
    return Workload((TopicLoad(topics, rate, rate * work["size"], max(1.0, 1 / entries), (subscriptions,)),))


def shape(result: str, work: dict[str, Any]) -> str:
    """Return the name of a shape."""
    topics = f"{work['topics']:,} topics, " if work["topics"] > 1 else ""
    batched = ", batched" if work["batched"] else ""
    return f"{result}: {topics}{work['readers']:,} x {work['rate']:,}/s, {work['size']:,} B{batched}"


def pool_rows(*results: str) -> list[Comparison]:
    """Return the CPU of the read-only broker."""
    found = []
    for result in results:
        for one in measurements(result):
            load = workload(one["work"], one["rounds"])
            values = [turn["pool"]["cpu"]["engine"] / turn["pool"]["seconds"] * 1e6 for turn in one["rounds"]]
            found.append(
                Comparison(POOL, shape(result, one["work"]), _spread(values), partial(process_cpu, load, 1))
            )  # fmt: skip
    return found


def bookies_rows(result: str) -> list[Comparison]:
    """Return those rows of a bench with `--tail bookies` that are the same by default, because no owner pushes them."""
    loads = [workload(one["work"], one["rounds"]).loads[0] for one in measurements(result)]
    return [row for load, row in zip(loads, pool_rows(result), strict=True) if not pool_cost.pushed(load, 1)]


def owner_rows(*results: str) -> list[Comparison]:
    """Return the CPU that readers add at the owner."""
    found = []
    for result in results:
        for one in measurements(result):
            load = workload(one["work"], one["rounds"])
            values = [_added(turn) for turn in one["rounds"]]
            found.append(
                Comparison(OWNER, shape(result, one["work"]), _spread(values), partial(cpu_alone, load))
            )  # fmt: skip
    return found


def _added(turn: dict[str, Any]) -> float:
    owner, baseline = (turn[side]["cpu"]["owner"] / turn[side]["seconds"] for side in ("owner", "baseline"))
    return float(owner - baseline) * 1e6


def backlog_rows(side: str, result: str = "catch-up") -> list[Comparison]:
    """Return the CPU for 1 MB of a backlog at the owner, or at a read-only broker that reads from bookies."""
    found = []
    for one in measurements(result):
        size, batched = one["backlog"]["size"], one["backlog"]["batched"]
        server = "owner" if side == "owner" else "engine"
        values = [turn[side]["cpu"][server] / turn[side]["bytes"] * 1e12 for turn in one["rounds"]]
        load = Workload(
            (TopicLoad(1, 0, 0, 1, _READER, catch_up_bytes=1e6, entry_bytes=BATCH_BYTES if batched else float(size)),),
            0,
        )
        found.append(
            Comparison(
                OWNER_BACKLOG if side == "owner" else POOL_BACKLOG,
                f"{result}: {size:,} B{', batched' if batched else ''}",
                _spread(values),
                partial(_backlog, load, side),
            )
        )
    return found


def _backlog(load: Workload, side: str, case: Case) -> float:
    if side == "owner":
        return cpu_alone(load, case)
    return process_cpu(load, 1, case) - process_cpu(Workload((TopicLoad(1, 0, 0, 1, _READER),), 0), 1, case)


def idle_rows() -> list[Comparison]:
    """Return CPU and memory of a broker with open topics and without messages."""
    found = []
    for one in measurements("idle-topics"):
        read, connections = one["shape"]["read"], one["shape"]["connections"]
        load = Workload((TopicLoad(read, 0, 0, 1, _READER),), connections)
        name = f"idle-topics: {read:,} topics, {connections:,} connections"
        cpu = one["cpu"]["engine"] / one["seconds"] * 1e6
        found.append(Comparison(POOL, name, _spread([cpu]), partial(process_cpu, load, 1)))
        found.append(Comparison(MEMORY, name, _spread([one["full"]]), partial(_memory, load)))
    return found


def memory_rows() -> list[Comparison]:
    """Return the memory of a broker with many subscriptions of one topic, without its cache."""
    found = []
    for one in measurements("subscriptions"):
        if one["side"] == "pool":
            load = Workload((TopicLoad(1, 1, 1024, 1, (Subscriptions(SubscriptionType.EXCLUSIVE, one["count"]),)),), 40)
            name = f"subscriptions: {one['count']:,}"
            found.append(Comparison(MEMORY, name, _spread([one["full"]]), partial(_memory, load)))
    return found


def _memory(load: Workload, case: Case) -> float:
    policy = Policy(min_brokers=1)
    return broker_bytes(load, policy, 1, case) - cache_bytes(load, policy, 1, case)


def _spread(values: Sequence[float]) -> Estimate:
    return Estimate(min(values), statistics.median(values), max(values))


def all_rows() -> list[Comparison]:
    """Return all shapes: first those of benches that constants come from, then those of other runs."""
    return [
        *pool_rows("fan-out", "saturation", "few-readers", "shared"),
        *idle_rows(),
        *memory_rows(),
        *backlog_rows("bookies"),
        *owner_rows("fan-out", "saturation", "few-readers", "shared"),
        *backlog_rows("owner"),
        *pool_rows("latency", "fan-out-5.0.0-M1"),
        *bookies_rows("growth"),
        *backlog_rows("bookies", "catch-up-5.0.0-M1"),
        *owner_rows("fan-out-5.0.0-M1", "growth"),
    ]
