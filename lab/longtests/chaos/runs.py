"""Results of `make -C lab chaos` in a file: long runs are executed one by one, and the table sums them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from devstack.common.results import save_results
from longtests.chaos.verdict import LOSSES, OUT_OF_ORDER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from longtests.chaos.observed import Faults
    from longtests.chaos.verdict import Found, Verdict

COLUMNS: Final = ("lost", "repeated", "disorder", "other")
BEFORE: Final = "before the first fault"


@dataclass(frozen=True, slots=True)
class FaultResult:
    """The result of one kind of fault.

    Attributes:
        count: number of such faults.
        lost: messages that were lost after one.
        repeated: allowed redeliveries.
        disorder: messages out of order.
        other: other violations.
        pause: longest pause of a subscription, in seconds.
    """

    count: int = 0
    lost: int = 0
    repeated: int = 0
    disorder: int = 0
    other: int = 0
    pause: float = 0.0

    def __add__(self, other: FaultResult) -> FaultResult:
        sums = [getattr(self, name) + getattr(other, name) for name in ("count", *COLUMNS)]
        return FaultResult(*sums, max(self.pause, other.pause))


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of one run.

    Attributes:
        seed: seed of its plan.
        minutes: duration of the faults.
        messages: messages in the topics at the end.
        faults: results by kind of fault.
        date: its day in UTC, such as 2026-11-25; empty in older files.
        machine: processors and Python of its machine; empty in older files.
        local: whether the pool kept the cursors.
        split: whether all brokers served each Shared and Key_Shared subscription.
        gap: average seconds between two faults; 0 for the default, and in older files for any.
    """

    seed: int
    minutes: float
    messages: int
    faults: dict[str, FaultResult] = field(default_factory=dict)
    date: str = ""
    machine: str = ""
    local: bool = False
    split: bool = False
    gap: float = 0.0

    def __str__(self) -> str:
        parts = [f"{self.minutes:g} minutes", "local cursors" * self.local, "split" * self.split]
        parts += [f"a fault per {self.gap:g} s"] if self.gap else []
        return f"{self.seed} ({', '.join(filter(None, parts))})"

    @property
    def count(self) -> int:
        """Number of its faults."""
        return sum(one.count for one in self.faults.values())


def summarize(verdict: Verdict, faults: Faults) -> dict[str, FaultResult]:
    """Return the results of a run by kind of fault."""
    titles = [fault.title for fault in faults.all]
    count = Counter(titles)
    titles.append(BEFORE)
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    pauses: dict[str, float] = {}
    for (index, _), repeated in verdict.repeated.items():
        sums[titles[index]]["repeated"] += repeated
    for found in verdict.found:
        sums[titles[faults.last(found.at)]][_column(found)] += 1
    for index, pause in verdict.pauses.items():
        pauses[titles[index]] = max(pause, pauses.get(titles[index], 0.0))
    return {
        title: FaultResult(count[title], *(sums[title][name] for name in COLUMNS), pauses.get(title, 0.0))
        for title in sorted({*count, *sums})
    }


def _column(found: Found) -> str:
    if found.violation in LOSSES:
        return "lost"
    return "disorder" if found.violation in OUT_OF_ORDER else "other"


def table(runs: Iterable[RunResult]) -> list[str]:
    """Return a table with a row for each kind of fault, over all runs, in Markdown."""
    sums: dict[str, FaultResult] = defaultdict(FaultResult)
    for run in runs:
        for title, result in run.faults.items():
            sums[title] += result
    rows = ["| fault | count | lost | delivered again | out of order | other violations | longest pause |"]
    rows.append("|---|---:|---:|---:|---:|---:|---:|")
    for title, result in [*sorted(sums.items()), ("all", sum(sums.values(), FaultResult()))]:
        cells = [title, *(f"{getattr(result, name):,}" for name in ("count", *COLUMNS)), f"{result.pause:.1f} s"]
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def summary(runs: Sequence[RunResult]) -> str:
    """Return one line with the size of all runs."""
    messages = sum(run.messages for run in runs)
    local = [run for run in runs if run.local]
    of_them = f", {sum(run.count for run in local):,} of the faults with local cursors" if local else ""
    split = [run for run in runs if run.split]
    of_them += f", {sum(run.count for run in split):,} with split subscriptions" if split else ""
    faults = sum(run.count for run in runs)
    return (
        f"{faults:,} faults and {messages:,} messages in {len(runs)} runs{of_them}. Seeds: {', '.join(map(str, runs))}."
    )


def add(path: Path, runs: Sequence[RunResult]) -> list[RunResult]:
    """Add runs to a file, where they replace runs of the same seeds and keeper of cursors; return all runs by seed."""
    by_seed = {(run.seed, run.local, run.split): run for run in (*load(path), *runs)}
    ordered = [by_seed[seed] for seed in sorted(by_seed)]
    path.parent.mkdir(exist_ok=True)
    save_results(path, [asdict(run) for run in ordered])
    return ordered


def load(path: Path) -> list[RunResult]:
    """Return the runs in a file; none if it does not exist."""
    if not path.exists():
        return []
    return [
        RunResult(**{**run, "faults": {title: FaultResult(**one) for title, one in run["faults"].items()}})
        for run in json.loads(path.read_text(encoding="utf-8"))
    ]
