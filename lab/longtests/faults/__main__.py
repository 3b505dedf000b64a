"""`make -C lab faults`: kills and stalls servers and damages their files while readers are at the tail."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from devstack.console import say
from devstack.errors import DevstackError
from devstack.program import run_program
from devstack.pulsar.admin import AdminError
from longtests.faults.run import Outcome, run_fault, tell
from longtests.faults.scenarios import SCENARIOS, Scenario, ScenarioError
from longtests.faults.stack import SPEC, FaultyStack
from longtests.faults.table import table, write
from longtests.oracle.owner import OwnerError
from tests.support.stamp import stamp

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "testing" / "messages.md"


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status: 0 no errors, 1 errors, 2 wrong usage."""
    names = [scenario.name for scenario in SCENARIOS]
    parser = argparse.ArgumentParser(prog="make -C lab faults", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="runs of each fault (default 3)")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="FAULT", help=", ".join(names))
    parser.add_argument("--write", action="store_true", help="write the table to docs/testing/messages.md")
    parser.add_argument("--keep", action="store_true", help="keep the stack and its data")
    args = parser.parse_args(argv)
    # Warnings of the engine and its libraries about servers that are down would hide the progress.
    logging.getLogger().addHandler(logging.NullHandler())
    stack = FaultyStack(SPEC)
    outcomes: dict[Scenario, list[Outcome]] = {}
    wrong = 0
    try:
        stack.up()
        for scenario in [each for each in SCENARIOS if each.name in args.only]:
            say(f"{scenario.title}: {args.runs} runs")
            for number in range(args.runs):
                try:
                    outcome = asyncio.run(run_fault(stack, scenario, number))
                except (ScenarioError, DevstackError, AdminError, OwnerError) as error:
                    say(f"{scenario.name} {number + 1}: FAULT {error}")
                    wrong += 1
                    _renew(stack)
                    continue
                tell(scenario, number, outcome)
                outcomes.setdefault(scenario, []).append(outcome)
                wrong += bool(outcome.faults)
                if scenario.fresh and number + 1 < args.runs:
                    _renew(stack)
    finally:
        if not args.keep:
            stack.down(purge=True)
    rows = table(outcomes)
    sys.stdout.write("\n".join(rows) + "\n")
    if args.write and outcomes:
        write(DOCUMENT, [stamp(), *rows])
    return 1 if wrong else 0


def _renew(stack: FaultyStack) -> None:
    stack.down(purge=True)
    stack.up()


if __name__ == "__main__":
    run_program(main)
