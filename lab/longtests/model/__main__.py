"""`make -C lab model`: visits every interleaving of small systems that consist of the engine's own state machines."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from longtests.faults.table import write
from longtests.model.report import mutant_table, steps, table
from longtests.model.scenarios import MUTANTS, SCENARIOS, scenario
from longtests.model.search import MAX_STATES, Search
from tests.support.stamp import stamp

if TYPE_CHECKING:
    from longtests.model.search import Outcome

PROCESSES = 2
DOCUMENT: Final = Path(__file__).resolve().parents[3] / "docs" / "testing" / "model.md"
MARKS: Final = ("<!-- model: written by make -C lab model MODEL_OPTIONS=--write -->", "<!-- end of model -->")


def search(name: str, mutants: tuple[str, ...] = (), most: int = MAX_STATES) -> Outcome:
    """Run one search.

    Args:
        name: the scenario.
        mutants: former behaviour to restore.
        most: limit of states, at which the search ends incomplete.
    """
    return Search(scenario(name).make(mutants=mutants), most).run()


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status: 0 as expected, 1 not as expected, 2 wrong usage."""
    parser = argparse.ArgumentParser(prog="make -C lab model", description=__doc__)
    parser.add_argument("--only", choices=[found.name for found in SCENARIOS], help="run one search only")
    parser.add_argument(
        "--mutant", choices=[found.name for found in MUTANTS], help="run one mutant only, and print its steps"
    )
    parser.add_argument("--most", type=int, default=MAX_STATES, help="limit of states (default %(default)s)")
    parser.add_argument("--write", action="store_true", help="write the tables to docs/testing/model.md")
    args = parser.parse_args(argv)
    scenarios = [found for found in SCENARIOS if args.only in {None, found.name} and not args.mutant]
    mutants = [found for found in MUTANTS if args.mutant in {None, found.name} and not args.only]
    with ProcessPoolExecutor(PROCESSES) as processes:
        largest_first = {
            found.name: processes.submit(search, found.name, (), args.most) for found in reversed(scenarios)
        }
        put_back = [
            processes.submit(partial(search, mutants=(found.name,)), found.scenario, most=args.most)
            for found in mutants
        ]
        outcomes = [(found, largest_first[found.name].result()) for found in scenarios]
        found_back = [(found, future.result()) for found, future in zip(mutants, put_back, strict=True)]
    rows = [*table(outcomes), *(["", *mutant_table(found_back)] if found_back else [])]
    lines = []
    for _, outcome in outcomes:
        lines += [*steps(outcome), ""] if outcome.violation else []
    for mutant, outcome in found_back:
        lines += [f"{mutant.name}: {mutant.about}", *steps(outcome), ""]
    sys.stdout.write("\n".join([*lines, *rows]) + "\n")
    if args.write:
        write(DOCUMENT, [stamp(), *rows], MARKS)
    passed = all(not outcome.violation and outcome.complete for _, outcome in outcomes) and all(
        mutant.found in outcome.violation for mutant, outcome in found_back
    )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
