"""What searches have found, as a table and as steps that can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.model.scenarios import Mutant, Scenario
    from tests.model.search import Outcome

WIDTH = 100


def table(rows: Iterable[tuple[Scenario, Outcome]]) -> Iterator[str]:
    """The searches of what is: one row each, in Markdown."""
    yield "| search | what may happen | states | transitions | farthest state | found | seconds |"
    yield "|---|---|---:|---:|---:|---|---:|"
    for scenario, outcome in rows:
        found = outcome.violation or ("nothing" if outcome.complete else "nothing, but it was not ended")
        yield (
            f"| {scenario.name} | {scenario.about} | {outcome.states:,} | {outcome.transitions:,} "
            f"| {outcome.depth} steps | {found} | {outcome.seconds:.0f} |"
        )


def mutant_table(rows: Iterable[tuple[Mutant, Outcome]]) -> Iterator[str]:
    """The searches of what was, or might be: one row each, in Markdown."""
    yield "| put back | search | states until it is found | steps | found |"
    yield "|---|---|---:|---:|---|"
    for mutant, outcome in rows:
        found = outcome.violation or "NOTHING"
        yield (
            f"| `{mutant.name}`: {mutant.about} | {mutant.scenario} | {outcome.states:,} | {len(outcome.trace)} | {found} |"
        )


def steps(outcome: Outcome) -> Iterator[str]:
    """The way to a violation."""
    for number, step in enumerate(outcome.trace, 1):
        yield f"{number:>4}. {step}"
    yield f"      => {outcome.violation}"
