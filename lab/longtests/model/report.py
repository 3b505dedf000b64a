"""Results of searches as tables, and violations as steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from longtests.model.scenarios import Mutant, Scenario
    from longtests.model.search import Outcome

WIDTH = 100


def table(rows: Iterable[tuple[Scenario, Outcome]]) -> Iterator[str]:
    """Yield the table of searches without mutants, in Markdown."""
    yield "| search | size and faults | states | transitions | depth | violation | seconds |"
    yield "|---|---|---:|---:|---:|---|---:|"
    for scenario, outcome in rows:
        found = outcome.violation or ("none" if outcome.complete else "none, but the search is incomplete")
        yield (
            f"| {scenario.name} | {scenario.about} | {outcome.states:,} | {outcome.transitions:,} "
            f"| {outcome.depth} steps | {found} | {outcome.seconds:.0f} |"
        )


def mutant_table(rows: Iterable[tuple[Mutant, Outcome]]) -> Iterator[str]:
    """Yield the table of searches with mutants, in Markdown."""
    yield "| mutant | search | states until the violation | steps | violation |"
    yield "|---|---|---:|---:|---|"
    for mutant, outcome in rows:
        found = outcome.violation or "NONE"
        yield (
            f"| `{mutant.name}`: {mutant.about} | {mutant.scenario} | {outcome.states:,} | {len(outcome.trace)} | {found} |"
        )


def steps(outcome: Outcome) -> Iterator[str]:
    """Yield the steps to a violation."""
    for number, step in enumerate(outcome.trace, 1):
        yield f"{number:>4}. {step}"
    yield f"      => {outcome.violation}"
